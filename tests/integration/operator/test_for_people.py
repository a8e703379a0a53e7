"""`top` and `diagnose` with a real API server, and replays of a real operator's decisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from bucketingest_operator.cli.collect import OperatorLog
from bucketingest_operator.cli.diagnose import replay
from support.cluster.kube import wait_for
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

    it_is_scaled_like_a_deployment(scene, 2)

    found = OperatorLog(scene.namespace, "orders")
    found.take(json.dumps(line) for line in operator.lines())
    replayed = list(replay(found.ordered()))
    assert [each.difference for each in replayed] == [()] * len(replayed)
    assert not any(each.unreadable for each in replayed)
    decided = [action for each in replayed for action in each.actions]
    assert {"StartAttempt 1", "StartAttempt 2"} <= set(decided)


def it_is_scaled_like_a_deployment(scene: Scene, attempt: int) -> None:
    """By `kubectl scale`, HorizontalPodAutoscalers and KEDA: they need the count, and its pods."""
    url = f"/apis/bucketingest.dev/v1alpha1/namespaces/{scene.namespace}/bucketingests/orders/scale"

    def scale() -> tuple[Any, ...]:
        found = json.loads(scene.kube.kubectl("get", "--raw", url))
        return found["spec"].get("replicas", 0), found["status"]["replicas"], found["status"].get("selector", "")

    wanted, running, selector = scale()
    assert (wanted, running) == (2, 0)
    scene.add_executor(1, attempt)
    scene.add_executor(2, attempt)
    wait_for(lambda: scale()[1] == 2, within=scene.within, description="two executors run", state=scene.state)
    found = scene.kube.kubectl("get", "pods", "-n", scene.namespace, "-l", selector, "-o", "name").split()
    assert found == ["pod/orders-exec-1", "pod/orders-exec-2"], "not the driver"

    scene.kube.kubectl("scale", "bi/orders", "-n", scene.namespace, "--replicas", "3")
    assert scene.resource()["spec"]["spark"]["executor"]["instances"] == 3

    # Kubernetes' own controller, by its rights alone. Without metrics it takes the least number that it may.
    target = {"apiVersion": "bucketingest.dev/v1alpha1", "kind": "BucketIngest", "name": "orders"}
    busy = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    scene.kube.apply(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "orders", "namespace": scene.namespace},
            "spec": {
                "scaleTargetRef": target,
                "minReplicas": 4,
                "maxReplicas": 6,
                "metrics": [{"type": "Resource", "resource": busy}],
            },
        }
    )

    def said() -> dict[str, Any]:
        found = json.loads(scene.kube.kubectl("get", "hpa/orders", "-n", scene.namespace, "-o", "json"))
        return dict(found.get("status") or {})

    def scaled() -> bool:
        return scene.resource()["spec"]["spark"]["executor"]["instances"] == 4

    wait_for(scaled, within=scene.within, description="the autoscaler scales", state=lambda: str(said()))
    # It then asks for the load of the pods that the selector names: a target without one is an InvalidSelector.
    wait_for(
        lambda: (
            [each["reason"] for each in said()["conditions"] if each["type"] == "ScalingActive"]
            == ["FailedGetResourceMetric"]
        ),
        within=scene.within,
        description="its view",
        state=lambda: str(said()),
    )
