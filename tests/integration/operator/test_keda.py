"""KEDA scales a pipeline by the lag of the group whose offsets follow its commits: its processes, and a real broker."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer

from devcluster.cluster import EmbeddedCluster
from devcluster.instance import instance
from devservers.kafka import KafkaBroker
from support.cluster.kube import Kube, wait_for
from support.jobs.command_process import CommandProcess
from support.operator.keda import keda
from support.operator.scene import Scene, Start

PAGE = Path(__file__).parents[3] / "docs" / "sizing.md"
TOPIC, GROUP = "orders", "orders-to-hudi"
PARTITIONS = 6

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif("BUCKETINGEST_KEDA" not in os.environ, reason="KEDA is built for `make test-keda` only"),
]


def test_keda_scales_by_the_lag_of_the_pipelines_group(
    kube: Kube, scene: Scene, start: Start, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    scene.within = 180
    kafka_broker.create_topic(TOPIC, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    kafka_source = {
        "kafka": {
            "bootstrapServers": kafka_broker.bootstrap_servers,
            "topics": [TOPIC],
            "startingOffsets": "earliest",
            "commitGroup": GROUP,
        }
    }
    pipeline: dict[str, Any] = {"source": kafka_source, "format": {"type": "json", "schema": "value BIGINT"}}

    def produce(count: int) -> None:
        for partition in range(PARTITIONS):
            for each in range(count):
                producer.produce(TOPIC, json.dumps({"value": each}), partition=partition)
        producer.flush(60)

    def ingest() -> None:
        """All that is in the topic, by the pipeline's own job: its commits move the group."""
        manifest = scene.manifest(**pipeline)
        manifest["spec"]["table"]["path"] = str(tmp_path / "table")
        (file := tmp_path / "orders.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
        job = CommandProcess("run", file, "--once", log=tmp_path / "run.log")
        assert job.wait() == 0, job.output

    def executors() -> int:
        return int(scene.resource()["spec"]["spark"]["executor"]["instances"])

    start()
    produce(10)
    ingest()
    scene.apply(**pipeline, spark={"executor": {"instances": 1}})
    scene.driver()
    cluster = EmbeddedCluster(instance(f"api-{os.environ.get('PYTEST_XDIST_WORKER', 'one')}"))
    with keda(kube, kube.kubeconfig, scene.namespace, cluster.host_ip, tmp_path) as processes:

        def said() -> str:
            found = kube.kubectl("get", "hpa,scaledobject", "-n", scene.namespace, "-o", "json")
            statuses = [each.get("status") for each in json.loads(found)["items"]]
            return "\n".join([json.dumps(statuses), *(each.log_tail() for each in processes)])

        kube.apply(scaled_object(scene.namespace, kafka_broker.bootstrap_servers))
        produce(50)  # 300 messages wait, and 100 are an executor's
        wait_for(lambda: executors() == 3, within=scene.within, description="three executors", state=said)
        ingest()
        wait_for(lambda: executors() == 1, within=scene.within, description="one executor again", state=said)


def scaled_object(namespace: str, brokers: str) -> dict[str, Any]:
    """That of the page, with this broker, a small threshold, and without its patience."""
    (text,) = re.findall(r"```yaml\n(apiVersion: keda.sh/.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(text)
    found["metadata"]["namespace"] = namespace
    found["spec"]["pollingInterval"] = 5
    behavior = found["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    for each in behavior.values():
        each["stabilizationWindowSeconds"] = 0
    (trigger,) = found["spec"]["triggers"]
    assert (trigger["metadata"]["topic"], trigger["metadata"]["consumerGroup"]) == (TOPIC, GROUP)
    trigger["metadata"] |= {"bootstrapServers": brokers, "lagThreshold": "100"}
    return found
