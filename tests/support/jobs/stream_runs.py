"""Runs of the job in tests: a resource in few words, one run until the source is read, what is there afterwards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream import ingest_resource
from bucketingest.stream.report.progress import Progress
from bucketingest.stream.running import RunningIngest
from devservers.kafka import KafkaBroker
from devservers.produce import CHOOSE_PARTITION, produce
from support.oracle import hudi_rs
from support.oracle.compare import without_meta_columns

WAIT_SECONDS_MAX = 90.0
Message: TypeAlias = tuple[bytes | None, bytes | None]
"""Key and value."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder with one table, its dead letters and its checkpoint."""

    folder: Path
    name: str = "orders"

    @property
    def table(self) -> Path:
        return self.folder / self.name

    @property
    def checkpoint(self) -> Path:
        return self.folder / f"{self.name}_checkpoints" / self.name

    @property
    def dead_letters(self) -> Path:
        return self.folder / f"{self.name}_dead_letters"

    def resource(self, source: Mapping[str, Any], *, table: Mapping[str, Any], **spec: Any) -> BucketIngest:
        """A BucketIngest for this table with an instant per micro-batch and without table services; `table` and `spec`
        as in its YAML.
        """
        return BucketIngest.from_document(
            {
                "apiVersion": "bucketingest.dev/v1alpha1",
                "kind": "BucketIngest",
                "metadata": {"name": self.name},
                "spec": {
                    "source": source,
                    "table": {"path": str(self.table), "index": {"buckets": 4}, **table},
                    "commit": {"mode": "checkpoint"},
                    "services": {"mode": "off"},
                    **spec,
                },
            }
        )

    def rows(self) -> pa.Table:
        """The table's own columns as hudi-rs reads them."""
        return without_meta_columns(hudi_rs.snapshot(self.table))

    def letters(self) -> list[dict[str, Any]]:
        """The dead-letter table, as a reader of its directory sees it."""
        files = sorted(self.dead_letters.glob("*.parquet"))
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def instants(self) -> list[str]:
        """Request times of the completed commits."""
        timeline = Timeline.load(open_storage(str(self.table)))
        return [instant.request_time for instant in timeline.completed_commits]

    def log_files(self) -> list[Path]:
        """Every log file, whether its instant has completed or not."""
        return sorted(path for path in self.table.rglob(".*.log.*") if ".hoodie" not in path.parts)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a running broker."""

    broker: KafkaBroker
    name: str

    def send(self, messages: Iterable[Message], *, partition: int = CHOOSE_PARTITION) -> None:
        produce(self.broker.bootstrap_servers, self.name, messages, partition=partition)

    def source(self, **kafka: Any) -> dict[str, Any]:
        """`spec.source` that reads this topic, with further fields."""
        return {"kafka": {"bootstrapServers": self.broker.bootstrap_servers, "topics": [self.name], **kafka}}


class NewTopic(Protocol):
    """Creates a topic; several in one test have names that begin alike."""

    def __call__(self, *, partitions: int = 1) -> Topic: ...


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs resources in one Spark session."""

    session: SparkSession

    def once(self, resource: BucketIngest) -> Progress:
        """Take all there is and end. Raises what ended the run."""
        return finish(ingest_resource(self.session, resource, once=True))


def finish(running: RunningIngest) -> Progress:
    """Wait for the end of a run that ends by itself."""
    try:
        assert running.wait(WAIT_SECONDS_MAX), f"still running after {WAIT_SECONDS_MAX:g} s"
    finally:
        if running.query is not None and running.query.isActive:
            running.query.stop()
    return running.progress()


@contextmanager
def job(spark: SparkSession, resource: BucketIngest) -> Iterator[Callable[[Callable[[Progress], bool]], Progress]]:
    """A running one; what it gives waits until its progress is so."""
    running: RunningIngest = ingest_resource(spark, resource)

    def until(reached: Callable[[Progress], bool]) -> Progress:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not reached(now := running.progress()):
            assert time.monotonic() < deadline, now
            assert not running.wait(0.05), "the query has ended"
        return now

    yield until
    running.request_stop()
    assert running.wait(WAIT_SECONDS_MAX)


def messages(rows: Iterable[Mapping[str, Any]], key: str) -> list[Message]:
    """Rows as JSON messages for Kafka; their key is the value of a column."""
    return [(str(row[key]).encode(), json.dumps(row, ensure_ascii=False, default=str).encode()) for row in rows]
