"""Starts the two sides of a comparison, and builds the requests that give both the same task."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from bench.data import Dataset
from bench.messages import Encoding, message_format
from bench.sides.client import Side, clean_environment
from devservers.locations import require
from support.jobs.spark_home import make_spark_home
from support.oracle.environment import find_environment
from support.oracle.writer import HudiWriter

MASTER: Final = "local[2]"
HEAP: Final = "6g"
"""Of each side's JVM: with less, Hudi's writer spends a fifth of its time on garbage collection."""
BUCKETS: Final = 8
_PROJECT: Final = Path(__file__).resolve().parents[3]
_OUR_PATH: Final = f"{_PROJECT / 'benchmarks'}:{_PROJECT / 'sparkjob' / 'src'}"


@dataclass(frozen=True, slots=True)
class Source:
    """The input: a folder of Parquet files or a Kafka topic of messages."""

    kind: Literal["files", "kafka"]
    path: str = ""
    files_at_once: int = 1000
    """Of a folder, as one micro-batch."""
    bootstrap: str = ""
    topic: str = ""
    encoding: Encoding = "json"


@dataclass(frozen=True, slots=True)
class Target:
    """One table of one side, written by pipelines of consecutive numbers: each reads its source from the start."""

    folder: Path
    dataset: Dataset
    log_block: Literal["parquet", "avro"] = "parquet"
    buckets: int = BUCKETS
    state: bool = False
    """Whether ours looks keys up in a state; then Hudi must have another index, by `extra`."""
    is_global: bool = False
    """With a state: whether a key is in one partition only."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """More options of Hudi's writer."""

    @property
    def table(self) -> Path:
        """Base path of the table."""
        return self.folder / "table"

    def checkpoint(self, number: int) -> str:
        """Spark's checkpoint of one pipeline."""
        return str(self.folder / f"checkpoint-{number}")

    def ours(self, source: Source, number: int) -> dict[str, Any]:
        """Request that our side upserts the source."""
        return {"op": "write", "resource": self.resource(source, number)}

    def resource(self, source: Source, number: int) -> dict[str, Any]:
        """The BucketIngest of one repetition: every field at its default, unless it must differ."""
        dataset = self.dataset
        index: dict[str, Any] = {"type": "state", "global": self.is_global} if self.state else {"buckets": self.buckets}
        spec: dict[str, Any] = {
            "table": {
                "path": str(self.table),
                "recordKey": [dataset.record_key],
                "partitionBy": [dataset.partition_by] if dataset.partition_by else [],
                "orderingField": dataset.ordering,
                "index": index,
                "logBlock": self.log_block,
            },
            "checkpoint": {"path": self.checkpoint(number)},
            "spark": {"driver": {"memory": "6Gi"}, "executor": {"memory": "6Gi"}},
            # As on Hudi's side: what they take is measured by itself.
            "services": {"mode": "off"},
        }
        if source.kind == "files":
            spec["source"] = {
                "files": {"path": source.path, "format": "parquet", "maxFilesPerTrigger": source.files_at_once}
            }
        else:
            topic = {"bootstrapServers": source.bootstrap, "topics": [source.topic], "startingOffsets": "earliest"}
            spec["source"] = {"kafka": topic | {"maxOffsetsPerTrigger": 1_000_000_000}}
            spec["format"] = message_format(dataset, source.encoding)
        metadata = {"name": f"bench-{dataset.name}-{number}"}
        return {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": metadata,
            "spec": spec,
        }

    def hudi(self, source: Source, number: int) -> dict[str, Any]:
        """Request that Hudi's side upserts the source."""
        dataset = self.dataset
        writer = HudiWriter(
            name="bench",
            record_key=[dataset.record_key],
            partition_by=[dataset.partition_by] if dataset.partition_by else [],
            ordering=dataset.ordering,
            buckets=self.buckets,
            log_block=self.log_block,
            extra=self.extra,
        )
        options = writer.options("upsert") | {
            "hoodie.datasource.compaction.async.enable": "false",
            "hoodie.clean.async.enabled": "false",
            "hoodie.datasource.write.streaming.ignore.failed.batch": "false",
            "hoodie.datasource.write.streaming.checkpoint.identifier": f"pipeline-{number}",
        }
        described = {"kind": source.kind, "path": source.path, "bootstrap": source.bootstrap, "topic": source.topic}
        return {
            "op": "write",
            "source": described | {"format": message_format(dataset, source.encoding)},
            "path": str(self.table),
            "options": options,
            "checkpoint": self.checkpoint(number),
        }


def start_ours(scratch: Path, *, core: int | None = None, master: str = MASTER) -> Side:
    """Our side, under this interpreter. `core`: the only one it may use, with one task; None: all."""
    source = Source("files", path=str(scratch / "input"))
    settings = scratch / "ours.json"
    dataset = Dataset("session", "key", None, "value", "")
    settings.write_text(json.dumps({"resource": Target(scratch, dataset).resource(source, 0)}))
    tasks = master if core is None else "local[1]"
    environment = clean_environment(PYTHONPATH=_OUR_PATH, MASTER=tasks, SPARK_LOCAL_DIRS=str(scratch / "spark-ours"))
    if tasks.startswith("local-cluster"):
        environment["SPARK_HOME"] = str(make_spark_home(scratch / "spark-home"))
    command = [sys.executable, "-m", "bench.sides.ours", str(settings)]
    return Side(command if core is None else [*command, str(core)], environment)


def start_hudi(scratch: Path, *, core: int | None = None) -> Side:
    """Hudi's side, under the oracle's interpreter. `core`: the only one it may use, and no Kafka source; None: all."""
    oracle = find_environment()
    jars = [oracle.bundle]
    if core is None:
        jars += [jar for name in ("kafka-spark-3.5", "spark-protobuf") for jar in sorted(require(name).glob("*.jar"))]
    command = [str(oracle.python), "-m", "bench.sides.hudi", "--jars", ",".join(map(str, jars))]
    command += ["--scratch", str(scratch / "spark-hudi"), "--heap", HEAP]
    command += [] if core is None else ["--core", str(core)]
    return Side(command, clean_environment(MASTER=MASTER if core is None else "local[1]"))


def start_compaction(core: int | None, *, niceness: int = 0) -> Side:
    """A process that merges, under this interpreter. `core`: the only one it may use; None: all."""
    command = [sys.executable, "-m", "bench.sides.compaction", "" if core is None else str(core), str(niceness)]
    return Side(command, clean_environment(PYTHONPATH=_OUR_PATH))


def start_state(core: int) -> Side:
    """The process of the state benchmark, under this interpreter, on one core."""
    return Side([sys.executable, "-m", "bench.sides.state", str(core)], clean_environment(PYTHONPATH=_OUR_PATH))


def versions(ours: Mapping[str, Any], hudi: Mapping[str, Any]) -> dict[str, str]:
    """Versions of both sides, for the results file."""
    named = {f"{name} (ours)": str(value) for name, value in ours.items() if name != "ok"}
    named |= {f"{name} (hudi)": str(value) for name, value in hudi.items() if name != "ok"}
    return named | ({"hudi": "1.2.0"} if hudi else {}) | {"python": sys.version.split()[0]}
