"""From the kill of a driver to the first commit of the next attempt, and the stages of that time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

from bench.cases.comparison import Options, WrongResult, row_count
from bench.data import ORDERS, rows_of
from bench.messages import messages
from bench.results_format import Case, Measured
from bench.sides.client import clean_environment, wait_until_quiet
from bench.sides.process_tree import process_tree
from bench.sides.start import MASTER
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import open_storage
from devservers.kafka import KafkaBroker
from devservers.produce import produce

BAR_MS: Final = 10_000.0
ROWS: Final = 10_000
"""Messages that wait for each attempt."""
TOPIC_PARTITIONS: Final = 2
_WAIT_SECONDS: Final = 120.0
_TOPIC: Final = "orders"
FILE: Final = "orders.yaml"


@dataclass(slots=True)
class Attempt:
    """A driver, from the start of its process to its kill. Use it as a context manager."""

    folder: Path
    number: int
    environment: Mapping[str, str] = field(default_factory=dict)
    """More variables."""
    started: float = field(default=0.0, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        project = Path(__file__).resolve().parents[3]
        paths = (project / "benchmarks", project / "sparkjob" / "src")
        environment = clean_environment(
            PYTHONPATH=os.pathsep.join(map(str, paths)),
            MASTER=MASTER,
            SPARK_LOCAL_DIRS=str(self.folder / "spark"),
            BUCKETINGEST_CLASS_ARCHIVE=str(Path(sys.prefix) / "spark.jsa"),
            **self.environment,
        )
        command = [
            sys.executable,
            "-m",
            "bench.cases.restart_driver",
            str(self._marks),
            "run",
            str(self.folder / FILE),
        ]
        self.started = time.monotonic()
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the driver and all its processes, as the end of its container does."""
        assert self._process is not None, "started on entry"
        for process in process_tree(self._process.pid):
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    @property
    def _marks(self) -> Path:
        return self.folder / f"marks-{self.number}.jsonl"

    @property
    def _log(self) -> Path:
        return self.folder / f"attempt-{self.number}.log"

    def stages(self) -> dict[str, float]:
        """Seconds that each stage took up to now, in order."""
        lines = self._marks.read_text().splitlines() if self._marks.exists() else []
        marks = sorted((json.loads(line) for line in lines), key=lambda mark: mark["at"])
        before = [self.started, *(mark["at"] for mark in marks)]
        return {mark["stage"]: mark["at"] - since for mark, since in zip(marks, before, strict=False)}

    def wait_until(self, stage: str) -> float:
        """Seconds from the start of the process to the end of the stage."""
        self._poll(lambda: stage in self.stages(), stage)
        return sum(self.stages().values())

    def wait_for_inflight(self, table: Path) -> None:
        """Until an instant is pending on the table's timeline."""
        storage = open_storage(str(table))
        self._poll(lambda: bool(Timeline.load(storage).pending), "inflight instant")

    def wait_for_rows(self, table: Path, rows: int) -> None:
        """Until hudi-rs finds this number of rows."""
        self._poll(lambda: row_count(table) >= rows, f"table of {rows} rows")

    def _poll(self, reached: Callable[[], bool], what: str) -> None:
        """Raises WrongResult if the process ends before, or takes too long."""
        assert self._process is not None, "started on entry"
        deadline = time.monotonic() + _WAIT_SECONDS
        while not reached():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise WrongResult(f"no {what} in attempt {self.number}:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.02)


def restart_case(name: str, options: Options) -> Case:
    """Kill a driver in the middle of a micro-batch, start the next one, wait for its commit; again and again."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = folder / "table"
    seconds: list[float] = []
    loads: list[float] = []
    splits: list[Mapping[str, float]] = []
    with KafkaBroker(folder / "kafka") as broker:
        broker.create_topic(_TOPIC, partitions=TOPIC_PARTITIONS)
        write_resource(folder, broker.bootstrap_servers, _TOPIC, {"buckets": 8})
        sent = 0
        for number in range(options.repeats + 1):
            load = wait_until_quiet(options.load_max, options.wait_seconds_max)
            sent += send(folder, broker, _TOPIC, first=sent)
            with Attempt(folder, number) as attempt:
                took = attempt.wait_until("committed")
                split = attempt.stages()
                sent += send(folder, broker, _TOPIC, first=sent)
                attempt.wait_for_inflight(table)
            options.say(f"  {f'restart {number}' if number else 'first start'}: {took:.2f} s, load {load:.1f}")
            options.say("    " + medians([split]))
            if number:
                seconds.append(took)
                loads.append(round(load, 2))
                splits.append(split)
        with Attempt(folder, options.repeats + 1) as last:
            last.wait_until("committed")
            last.wait_for_rows(table, sent)
        if (found := row_count(table)) != sent:
            raise WrongResult(f"{table} holds {found} rows, {sent} keys were sent")
    shutil.rmtree(folder)
    return _case(name, seconds, splits, loads, options)


def send(folder: Path, broker: KafkaBroker, topic: str, *, first: int) -> int:
    """Send new keys, numbers from `first` on; returns how many."""
    parquet = folder / "rows"
    parquet.mkdir(exist_ok=True)
    pq.write_table(rows_of(ORDERS, pa.array(range(first, first + ROWS)), seed=first), parquet / "rows.parquet")
    return produce(broker.bootstrap_servers, topic, messages(parquet, ORDERS, "json"))


def write_resource(
    folder: Path, bootstrap_servers: str, topic: str, index: Mapping[str, Any], *, services: str = "auto"
) -> None:
    """The file that an attempt in this folder runs."""
    spec = {
        "source": {
            "kafka": {"bootstrapServers": bootstrap_servers, "topics": [topic], "startingOffsets": "earliest"},
        },
        "format": {"type": "json", "schema": ORDERS.schema_ddl},
        "table": {
            "path": str(folder / "table"),
            "recordKey": [ORDERS.record_key],
            "partitionBy": [ORDERS.partition_by],
            "orderingField": ORDERS.ordering,
            "index": index,
        },
        "commit": {"mode": "checkpoint", "trigger": "0s"},
        "checkpoint": {"path": str(folder / "checkpoint")},
        "spark": {"driver": {"memory": "2Gi"}, "executor": {"memory": "2Gi"}},
        "services": {"mode": services},
    }
    resource = {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": "restart"},
        "spec": spec,
    }
    (folder / FILE).write_text(json.dumps(resource))  # YAML, too


def medians(splits: Sequence[Mapping[str, float]]) -> str:
    """Those of each stage, as text."""
    stages = dict.fromkeys(stage for split in splits for stage in split)
    middle = {stage: statistics.median(split.get(stage, 0.0) for split in splits) for stage in stages}
    return "; ".join(f"{stage} {seconds:.2f} s" for stage, seconds in middle.items())


def _case(
    name: str, seconds: Sequence[float], splits: Sequence[Mapping[str, float]], loads: Sequence[float], options: Options
) -> Case:
    ours = Measured.of("restart", [each * 1000 for each in seconds])
    aim = Measured.of("aim", [BAR_MS] * options.repeats)
    return Case.of(
        case=name,
        what=(
            "A driver and all its processes are killed (SIGKILL) while an instant is inflight; the next attempt is "
            f"started at once. Spark {MASTER}, JSON from a Kafka topic of {TOPIC_PARTITIONS} partitions with {ROWS:,} "
            f"to {2 * ROWS:,} messages waiting, 11 columns, 4 partitions x 8 buckets on the local file system, an "
            "instant per micro-batch. Measured: from the start of the driver's process (interpreter, JVM, session, "
            "recovery, query) to the commit of its first micro-batch. The JVM has a class archive, as in the image. At "
            "the end hudi-rs must find every key that was sent. The peer is the aim."
        ),
        unit="ms",
        rows=ROWS,
        ours=ours,
        peer=aim,
        loads=loads,
        notes=(f"medians of the stages: {medians(splits)}",),
        versions={"pyarrow (ours)": pa.__version__, "python": sys.version.split()[0]},
    )
