"""The on-call engineer's tools: panels with data, and an alert that fires and resolves."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from devcluster.cluster import Cluster, EmbeddedCluster
from devcluster.release import NAMESPACE as OPERATORS
from devservers.prometheus import Prometheus
from support.cluster.faults import stop_processes
from support.cluster.kube import Kube, wait_for
from support.cluster.pipeline import Pipeline
from support.monitoring.panel_queries import without_data
from support.monitoring.promtool import rules_file

NewPipeline = Callable[..., Pipeline]
STUCK = {"BucketIngestStuckInflight", "BucketIngestCommitsLate"}
ALERT_SECONDS = 240.0
DRIVER_PORT, OPERATOR_PORT = 9808, 9810
CHANGES = {
    "commit": {"interval": "10s", "trigger": "3s"},
    "health": {"maxCommitLag": "30s", "maxInflightAge": "30s"},
    "slo": {"commitLatency": "30s", "freshness": "2m", "readOptimizedFreshness": "10m"},
    "services": {"mode": "inline"},
}


@pytest.fixture
def prometheus(cluster: Cluster, release: Cluster, tmp_path: Path) -> Iterator[Prometheus]:
    """Scrapes the cluster's pods, with the chart's rules, in which alerts wait seconds instead of minutes."""
    assert release is cluster
    if not isinstance(cluster, EmbeddedCluster):
        pytest.skip("only the embedded node has pods that this machine can reach")
    rules = tmp_path / "rules.yaml"
    rules.write_text(re.sub(r"(?m)^(\s+for:) .*$", r"\1 3s", rules_file().read_text()))
    assert yaml.safe_load(rules.read_text())["groups"]
    with Prometheus([], [rules]) as server:
        yield server


def follow_pods(prometheus: Prometheus, kube: Kube, pipeline: Pipeline) -> None:
    """Scrape the current pods that the chart's PodMonitors select: drivers and operators."""
    operators = kube.pods(OPERATORS, {"app.kubernetes.io/name": "bucketingest-operator"})
    pods = [(pod, DRIVER_PORT) for pod in pipeline.drivers()] + [(pod, OPERATOR_PORT) for pod in operators]
    running = [(pod, port) for pod, port in pods if pod["status"]["phase"] == "Running"]
    prometheus.scrape([f"{pod['status']['podIP']}:{port}" for pod, port in running if pod["status"].get("podIP")])


def firing(prometheus: Prometheus, pipeline: Pipeline) -> set[str]:
    follow_pods(prometheus, pipeline.kube, pipeline)
    return {
        each["labels"]["alertname"]
        for each in prometheus.alerts()
        if each["state"] == "firing" and each["labels"].get("name") == pipeline.name
    }


def test_panels_have_data_and_the_alert_for_a_stuck_job_fires_and_resolves(
    on_volume: NewPipeline, prometheus: Prometheus, kube: Kube
) -> None:
    watched = on_volume("watched")
    watched.load(seed=21)
    applied = time.time()
    kube.apply(watched.manifest(CHANGES))
    watched.wait_for_commit(applied, "apply")

    def all_have_data() -> bool:
        follow_pods(prometheus, kube, watched)
        return not without_data(prometheus, watched.namespace, watched.name)

    wait_for(
        all_have_data,
        within=ALERT_SECONDS,
        description="every panel has data",
        state=lambda: str(without_data(prometheus, watched.namespace, watched.name)),
    )
    # A start that takes longer than the limits above is late by right; its alert resolves with the commit.
    watched.wait("no alert", lambda: not firing(prometheus, watched) & STUCK, within=ALERT_SECONDS)

    # No repair: the operator only watches, and the driver hangs with an open instant.
    kube.kubectl(
        "annotate", "bi", watched.name, "--namespace", watched.namespace, "bucketingest.dev/pause=true", "--overwrite"
    )
    watched.wait("an open instant in the status", lambda: ((watched.get() or {}).get("status") or {}).get("inflight"))
    stop_processes(watched.drivers()[-1])
    watched.wait("SIGSTOP -> alert", lambda: firing(prometheus, watched) & STUCK, within=ALERT_SECONDS)

    freed = time.time()
    kube.kubectl("annotate", "bi", watched.name, "--namespace", watched.namespace, "bucketingest.dev/pause-")
    watched.wait_for_commit(freed, "operator may repair", within=ALERT_SECONDS)
    watched.wait("alert resolved", lambda: not firing(prometheus, watched) & STUCK, within=ALERT_SECONDS)
    watched.judge()
