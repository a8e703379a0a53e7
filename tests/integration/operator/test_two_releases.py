"""Two releases of the operator that watch one namespace: one acts, the other says why it does not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests

from bucketingest_operator.kube.watch_claims import WATCH_LEASE
from devcluster.binaries import find_tool
from devcluster.release import CHART
from support.cluster.kube import Kube, Manifest, wait_for
from support.operator.process import OperatorProcess
from support.operator.scene import Scene, Start


@pytest.fixture
def second(kube: Kube, scene: Scene, tmp_path: Path) -> Iterator[OperatorProcess]:
    """The operator of a second release: it does not get ready."""
    where = ["--namespace", scene.namespace, "--leader-election-namespace", scene.namespace]
    operator = OperatorProcess(kube.kubeconfig, tmp_path / "second.log", *where, "--leader-election-name", "second")
    yield operator
    if operator.runs:
        operator.kill()


def test_of_two_releases_on_a_namespace_one_acts_and_the_other_follows_it(
    scene: Scene, start: Start, second: OperatorProcess
) -> None:
    first = start("first", None, "--leader-election-name", "first")
    scene.apply("one")
    scene.driver(name="one")
    second.start(wait=False)
    (said, *_) = wait_for(
        lambda: second.lines("another release watches what this one watches"),
        within=60,
        description="the second says why it does nothing",
        state=second.log_text,
    )
    assert f"{scene.namespace} (release {scene.namespace}/first)" in str(said["error"])
    port = second.lines("listening")[-1]["port"]
    assert requests.get(f"http://127.0.0.1:{port}/readyz", timeout=10).status_code == 503

    scene.apply("two")
    scene.driver(name="two")
    assert not actions(second)
    assert first.end() == 0
    scene.apply("three")
    scene.driver(name="three", within=60)
    assert actions(second)
    second.wait_until_ready()


def actions(operator: OperatorProcess) -> list[Manifest]:
    return [line for line in operator.lines("decision") if line["plan"]["actions"]]


def test_helm_refuses_a_release_for_a_namespace_that_a_living_one_watches(kube: Kube, scene: Scene) -> None:
    team = f"{scene.namespace}-team"
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
    other = f"{team}/other-operator"
    forged = f"{team}/no-operator"
    kube.apply(lease(team, "no-operator", "a-tenant", timedelta(0)))
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": []}
    kube.apply({**role, "metadata": {"name": f"{team}-other-cluster"}})
    for holder, age, refused in (
        (other, 10, True),
        (other, 90, False),
        (forged, 1, False),
        ("x", 1, False),
        ("", 1, False),
    ):
        kube.apply(claim(scene.namespace, holder, timedelta(seconds=age)))
        done = helm_install(kube, scene.namespace)
        assert bool(done.returncode) == refused, done.stderr
        assert (other in done.stderr) == refused
    own = "system/ours-bucketingest-operator"
    kube.apply(claim(scene.namespace, own, timedelta(0)))
    assert not helm_install(kube, scene.namespace).returncode


def claim(namespace: str, holder: str, age: timedelta) -> Manifest:
    return lease(namespace, WATCH_LEASE, holder, age)


def lease(namespace: str, name: str, holder: str, age: timedelta) -> Manifest:
    renewed = (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 30, "renewTime": renewed},
    }


def helm_install(kube: Kube, namespace: str) -> subprocess.CompletedProcess[str]:
    """Nothing is installed, but the chart may look at the cluster."""
    where = ["--kubeconfig", str(kube.kubeconfig), "--namespace", "system", "--dry-run=server"]
    values = ["--set", f"operator.watchNamespaces={{{namespace}}}", "--set", "crds.install=false"]
    command = [find_tool("helm"), "install", "ours", str(CHART), *where, *values]
    return subprocess.run(command, capture_output=True, text=True, check=False)
