"""A pipeline commits, is healed and reports where pods and services have IPv6 addresses alone: `make test-ipv6`."""

from __future__ import annotations

import ipaddress
import os
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.instance import IPV6_VARIABLE
from support.cluster.kube import Kube, Manifest, condition, outline, wait_for
from support.cluster.pipeline import START_SECONDS

pytestmark = pytest.mark.skipif(IPV6_VARIABLE not in os.environ, reason="a cluster of its own: make test-ipv6")
NAMESPACE, NAME, TABLES = "ingest", "rate", "/tables"


def test_a_pipeline_commits_and_is_healed_where_there_is_no_ipv4(kube: Kube, tables: Path, release: Cluster) -> None:
    assert release.kubeconfig == kube.kubeconfig
    kube.apply(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"namespace": NAMESPACE, "name": NAME},
            "spec": {
                "source": {"rate": {"rowsPerSecond": 10}},
                "table": {"path": f"{TABLES}/{NAME}", "recordKey": ["value"], "index": {"buckets": 2}},
                "commit": {"interval": "2s", "trigger": "2s"},
                "spark": {
                    "driver": {"cores": "200m", "memory": "512Mi"},
                    "executor": {"instances": 1, "cores": "1", "memory": "512Mi"},
                    "conf": {"spark.kubernetes.executor.request.cores": "200m"},
                },
            },
        }
    )

    def found() -> Manifest:
        return kube.resource(NAMESPACE, NAME) or {}

    def commits(attempt: int) -> bool:
        status = found().get("status") or {}
        ready = condition(found(), "Ready") if status.get("conditions") else {}
        return status.get("attempt") == attempt and "lastCommit" in status and ready.get("status") == "True"

    def state() -> str:
        return outline(found())

    wait_for(lambda: commits(1), within=START_SECONDS * 2, description="it commits", state=state)
    pods = kube.pods(NAMESPACE, {"app.kubernetes.io/managed-by": "bucketingest-operator"})
    roles = {each["metadata"]["labels"].get("bucketingest.dev/role"): each for each in pods}
    assert {"driver", "executor"} <= set(roles)
    for each in pods:
        assert [ipaddress.ip_address(one["ip"]).version for one in each["status"]["podIPs"]] == [6]
    assert found()["status"]["executors"] == 1, "the driver was asked, by IPv6"
    assert any((tables / NAME / ".hoodie" / "timeline").iterdir())

    kube.delete_pod(NAMESPACE, roles["driver"]["metadata"]["name"], grace=0)
    wait_for(lambda: commits(2), within=START_SECONDS * 2, description="another driver commits", state=state)
