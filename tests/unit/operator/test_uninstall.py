"""What an uninstalled operator would leave undeletable."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bucketingest_operator.guards.uninstall import needed_by
from bucketingest_operator.kube.api import ApiError
from bucketingest_operator.resource import FINALIZER
from support.operator.api_server import api_server

PATH = "/apis/bucketingest.dev/v1alpha1/namespaces/{}/bucketingests"


def one(namespace: str, name: str, *finalizers: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name, "finalizers": [*finalizers]}}


def test_those_with_its_finalizer_are_named_and_no_definition_is_no_resource(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        found = [one("a", "bare"), one("a", "held", FINALIZER), one("a", "foreign", "other.example/x")]
        server.answers[PATH.format("a")] = found
        assert asyncio.run(needed_by(["a", "b"])) == ["a/held"]
        server.answers[PATH.format("b")] = 403
        with pytest.raises(ApiError):
            asyncio.run(needed_by(["a", "b"]))


def claim(namespace: str, holder: str, seconds_ago: int) -> dict[str, Any]:
    renewed = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat()
    return {"metadata": {"namespace": namespace}, "spec": {"holderIdentity": holder, "renewTime": renewed}}


@pytest.mark.parametrize("readable", [True, False])
def test_what_another_release_names_does_not_need_the_one_for_the_whole_cluster(
    readable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [
        claim("kube-system", "system/this", 1),
        claim("theirs", "other/release", 10),
        claim("left", "gone/release", 600),
        claim("released", "", 1),
        {"metadata": {"namespace": "odd"}, "spec": {"holderIdentity": "x", "renewTime": "0000-01-01T00:00:00.000000Z"}},
    ]
    where = ("kube-system", "theirs", "left", "released", "odd", "ours")
    with api_server() as server:
        monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path)))
        server.answers["/apis/bucketingest.dev/v1alpha1/bucketingests"] = [one(each, "x", FINALIZER) for each in where]
        server.answers["/apis/coordination.k8s.io/v1/leases"] = claims if readable else 403
        found = asyncio.run(needed_by([]))
        assert found == [f"{each}/x" for each in where if each != "theirs" or not readable]
        server.answers[PATH.format("theirs")] = [one("theirs", "x", FINALIZER)]
        assert asyncio.run(needed_by(["theirs"])) == ["theirs/x"]
