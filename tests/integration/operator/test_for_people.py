"""`top` and `diagnose` with a real API server, and replays of a real operator's decisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import yaml

from bucketingest_operator.cli.decisions import OperatorLog
from bucketingest_operator.cli.replay import replay
from support.cluster.people import bucketingest, unpacked
from support.operator.process import OperatorProcess
from support.operator.scene import Scene


def test_top_and_diagnose_show_a_pipeline_and_its_decisions_are_replayed(
    scene: Scene, start: Callable[..., OperatorProcess], tmp_path: Path
) -> None:
    operator = start()
    source = {
        "kafka": {"bootstrapServers": "kafka:9092", "topics": ["t"], "options": {"kafka.sasl.jaas.config": "odd"}}
    }
    scene.apply(source=source, format={"type": "json", "schema": "value BIGINT"})
    pod, job = scene.run()
    with job:
        scene.await_condition("Ready", "True")
        head, line = bucketingest(scene.kube.kubeconfig, "top", "--once", "-n", scene.namespace).splitlines()
        assert head.split()[:2] == ["NAME", "PHASE"]
        assert line.split()[:3] == ["orders", "Running", "True"]
        scene.node.remove(scene.namespace, pod)
    second = scene.driver(2)

    path = tmp_path / "bundle.tar.gz"
    bucketingest(scene.kube.kubeconfig, "diagnose", "orders", "-n", scene.namespace, "-o", str(path))
    files = unpacked(path)
    assert yaml.safe_load(files["resource.yaml"])["status"]["attempt"] == 2
    assert f"pods/{second}.yaml" in files
    assert "AttemptStarting" in files["events.txt"]
    assert "DriverLost" in files["events.txt"]
    for part in ("decisions.jsonl: no pod has the labels", "progress.json, timeline.txt: no driver pod is running"):
        assert part in files["missing.txt"]
    assert "odd" not in yaml.safe_load(files["resource.yaml"])["spec"]["source"]["kafka"]["options"].values()

    found = OperatorLog(scene.namespace, "orders")
    found.take(json.dumps(line) for line in operator.lines())
    replayed = list(replay(found.ordered()))
    assert [each.difference for each in replayed] == [()] * len(replayed)
    assert not any(each.unreadable for each in replayed)
    decided = [action for each in replayed for action in each.actions]
    assert {"StartAttempt 1", "StartAttempt 2"} <= set(decided)
