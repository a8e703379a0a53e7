"""Topics of one test, each with a table of one resource."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa

from bucketingest.spec.model import BucketIngest
from devservers.kafka import KafkaBroker
from devservers.produce import produce
from support.jobs.stream_runs import messages
from support.oracle import hudi_rs


class Topics:
    """Topics of one test, their rows, and the resource that reads them."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.prefix = f"t{uuid.uuid4().hex[:8]}."

    def make(self, *names: str, partitions: int = 2) -> None:
        for name in names:
            self.broker.create_topic(self.prefix + name, partitions=partitions)

    def send(self, name: str, first: int, count: int) -> None:
        rows = [{"id": f"{number}", "n": number} for number in range(first, first + count)]
        produce(self.broker.bootstrap_servers, self.prefix + name, messages(rows, "id"))

    def table(self, name: str) -> Path:
        return self.folder / (self.prefix + name)

    def numbers(self, name: str) -> list[int]:
        """What is in the table, as hudi-rs reads it."""
        rows: pa.Table = hudi_rs.snapshot(self.table(name))
        return sorted(rows.column("n").to_pylist())

    def resource(self, *, name: str = "lake", **spec: Any) -> BucketIngest:
        document = {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": name},
            "spec": {
                "source": {
                    "kafka": {
                        "bootstrapServers": self.broker.bootstrap_servers,
                        "topicPattern": self.prefix.replace(".", "[.]") + ".*",
                    }
                },
                "format": {"type": "json", "schema": "id STRING, n BIGINT"},
                "table": {"path": f"{self.folder}/{{topic}}", "recordKey": ["id"]},
                "tables": {},
                "commit": {"interval": "2s", "trigger": "1s"},
                "services": {"mode": "off"},
                **spec,
            },
        }
        return BucketIngest.from_document(document)
