"""What users see of a pipeline in a terminal: `top`, and a bundle of `diagnose` without secrets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from devcluster.cluster import Cluster
from support.cluster.faults import kill_first_process
from support.cluster.people import bucketingest, unpacked
from support.cluster.pipeline import Pipeline

SECRET = "kafka-options"
VALUE = "a-secret-value"


def test_a_pipeline_with_options_in_a_secret_runs_and_its_bundle_explains_it_without_them(
    on_volume: Callable[..., Pipeline], cluster: Cluster, tmp_path: Path
) -> None:
    mails = on_volume("mails")
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": SECRET, "namespace": mails.namespace}}
    mails.kube.apply({**secret, "stringData": {"kafka.client.id": f"{VALUE}\n"}})
    mails.load(seed=7)
    applied = time.time()
    mails.kube.apply(mails.manifest({"source": {"kafka": {"secretRef": {"name": SECRET}}}}))
    mails.wait_for_commit(applied, "apply")
    mails.wait_for_condition("Ready", "True")

    (line,) = [
        line
        for line in bucketingest(cluster.kubeconfig, "top", "--once", "-n", mails.namespace).splitlines()
        if "mails" in line
    ]
    assert line.split()[0] == "mails"
    assert "True" in line.split()

    path = tmp_path / "bundle.tar.gz"
    bucketingest(cluster.kubeconfig, "diagnose", "mails", "-n", mails.namespace, "-o", str(path))
    files = unpacked(path)
    assert "missing.txt" not in files, files["missing.txt"]
    assert json.loads(files["progress.json"])["name"] == "mails"
    assert json.loads(files["timeline.json"])
    assert "AttemptStarting" in files["events.txt"]
    logs = [name for name in files if name.startswith("logs/")]
    assert any("driver" in name for name in logs)
    assert any("executor" in name for name in logs)
    assert VALUE not in "".join(files.values())

    assert ", 0 others" in bucketingest(cluster.kubeconfig, "diagnose", "--replay", str(path))

    # Commands in the job's container left no termination message: a driver that is killed now is started again.
    killed = time.time()
    kill_first_process(mails.drivers()[-1])
    mails.wait("attempt 2", lambda: mails.attempt() == 2)
    mails.wait_for_commit(killed, "driver SIGKILL")
    mails.judge()
