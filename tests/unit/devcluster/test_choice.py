"""Whose cluster is used: nobody's own is passed over for ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster import cluster
from devcluster.cluster import EmbeddedCluster, KindCluster, UsersCluster, choose
from devcluster.errors import ClusterError
from devcluster.images.project import Image
from devcluster.instance import Instance


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr("shutil.which", lambda _name: None)


def test_with_nothing_there_it_is_the_embedded_node() -> None:
    assert isinstance(choose(), EmbeddedCluster)


def test_kind_is_taken_where_it_and_docker_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(cluster, "succeeds", lambda command: command == ["docker", "info"])
    assert isinstance(choose(), KindCluster)


def test_a_cluster_of_the_users_wins_over_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(cluster, "succeeds", lambda _command: True)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    assert choose() == UsersCluster(tmp_path / "config")


def test_the_kubeconfig_of_our_own_node_is_not_mistaken_for_a_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(Instance("dev").kubeconfig))
    assert isinstance(choose(), EmbeddedCluster)


def test_images_for_a_users_cluster_need_a_registry_that_it_pulls_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(cluster.REGISTRY_VARIABLE, raising=False)
    with pytest.raises(ClusterError, match=cluster.REGISTRY_VARIABLE):
        UsersCluster(tmp_path / "config").push(Image("job", "1"))
