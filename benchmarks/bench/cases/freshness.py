"""From the moment that a message is produced to the commit that shows its row, at a steady rate of messages."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult, row_count
from bench.cases.steady_producer import Block, SteadyProducer, Tick
from bench.data import ORDERS, write_input
from bench.messages import message_format, messages
from bench.results_format import Case, Measured
from bench.sides.client import clean_environment, wait_until_quiet
from bench.sides.process_tree import process_tree
from bench.sides.start import MASTER
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import open_storage
from bucketingest.write.instants.position import ranges_of
from devservers.kafka import KafkaBroker

RATE: Final = 100_000
"""Messages a second."""
AIM_SECONDS: Final = 4.0
COMMIT_SECONDS: Final = 2
_MINUTES_OF_ROWS: Final = 30
"""The stream has this many times the rows of the other cases: 2M rows a repetition are ten minutes."""
_KEYS: Final = 500_000
_TICK_SECONDS: Final = 0.02
_TICK_ROWS: Final = int(RATE * _TICK_SECONDS)
_PARTITIONS: Final = 4
_WARM_UP_SECONDS: Final = 40.0
_WAIT_SECONDS: Final = 180.0
_TOPIC: Final = "orders"
_NAME: Final = "freshness"


@dataclass(frozen=True, slots=True)
class Visible:
    """A commit."""

    ends: Mapping[int, int]
    """The offset behind the last committed message of each Kafka partition."""
    at: float
    """When its completed file was there, seconds since 1970."""


def latencies(ticks: Sequence[Tick], commits: Sequence[Visible]) -> list[float]:
    """Seconds from each tick to the first commit that has its last message. Pure.

    Raises WrongResult if a tick is in no commit.
    """
    ordered = sorted(commits, key=lambda commit: commit.at)
    ends: defaultdict[int, list[int]] = defaultdict(list)
    for commit in ordered:
        for partition in range(_PARTITIONS):
            seen = ends[partition]
            seen.append(max(commit.ends.get(partition, 0), seen[-1] if seen else 0))
    found = []
    for tick in ticks:
        place = bisect.bisect_left(ends[tick.partition], tick.end)
        if place == len(ordered):
            raise WrongResult(f"offset {tick.end} of partition {tick.partition} was never committed")
        found.append(ordered[place].at - tick.at)
    return found


def freshness_case(name: str, options: Options) -> Case:
    """One stream: its first part warms up, each minute of the rest is a repetition."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_input(ORDERS, folder / "rows", rows=_KEYS, seed=2)
    blocks = _blocks(folder / "rows")
    count = options.rows * _MINUTES_OF_ROWS // _TICK_ROWS
    load = wait_until_quiet(options.load_max, options.wait_seconds_max)
    table = folder / "table"
    with KafkaBroker(folder / "kafka", heap="1g") as broker:
        broker.create_topic(
            _TOPIC,
            partitions=_PARTITIONS,
            config={"retention.bytes": str(1 << 30), "segment.bytes": str(1 << 28)},
        )
        (folder / "resource.json").write_text(json.dumps(_resource(folder, broker.bootstrap_servers)))
        with _job(folder) as job:
            producing = SteadyProducer(broker.bootstrap_servers, _TOPIC, _PARTITIONS, blocks)
            ends = producing.send(1, pause=0.0)
            _wait_for(job, folder, ends[-1:])
            options.say(f"  first commit; {count * _TICK_ROWS:,} messages at {RATE:,}/s follow")
            ticks = producing.send(count, pause=_TICK_SECONDS)
            _wait_for(job, folder, ticks[-_PARTITIONS:])
    commits = _commits(table)
    found = latencies(ticks, commits)
    if (rows := row_count(table)) != _KEYS:
        raise WrongResult(f"{table} holds {rows} rows, {_KEYS} keys were sent")
    case = _case(name, ticks, found, commits, load)
    shutil.rmtree(folder)
    options.say("  " + "; ".join(case.notes))
    return case


@contextmanager
def _job(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline as `bucketingest run` runs it; killed with all its processes in the end."""
    environment = clean_environment(
        MASTER=MASTER,
        SPARK_LOCAL_DIRS=str(folder / "spark"),
        BUCKETINGEST_CLASS_ARCHIVE=str(Path(sys.prefix) / "spark.jsa"),
    )
    command = [str(Path(sys.prefix) / "bin" / "bucketingest"), "run", str(folder / "resource.json")]
    with (folder / "job.log").open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield process
    finally:
        for each in process_tree(process.pid):
            try:
                os.kill(each.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        process.wait()


def _blocks(rows: Path) -> list[Block]:
    """The messages of an input folder, a block for each tick of a cycle."""
    batch = [{"key": key, "value": value} for key, value in messages(rows, ORDERS, "json")]
    return [batch[first : first + _TICK_ROWS] for first in range(0, len(batch), _TICK_ROWS)]


def _wait_for(job: subprocess.Popen[bytes], folder: Path, ticks: Sequence[Tick]) -> None:
    """Until all of these are committed."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            latencies(ticks, _commits(folder / "table"))
        except WrongResult:
            if job.poll() is not None or time.monotonic() > deadline:
                log = (folder / "job.log").read_text()[-3000:]
                raise WrongResult(f"what was sent is not committed after {_WAIT_SECONDS:.0f} s:\n{log}") from None
            time.sleep(0.2)
        else:
            return


def _commits(table: Path) -> list[Visible]:
    """The table's commits; a completed file's time of change is when it was put there."""
    if not (table / ".hoodie" / "hoodie.properties").exists():
        return []
    storage = open_storage(str(table))
    found = []
    for instant in Timeline.load(storage).completed_commits:
        path = path_of(instant)
        end = json.loads(ranges_of(storage, path, _NAME)[-1].end)[_TOPIC]
        at = (table / path).stat().st_mtime
        found.append(Visible({int(partition): offset for partition, offset in end.items()}, at))
    return found


def _resource(folder: Path, bootstrap_servers: str) -> dict[str, Any]:
    spec = {
        "source": {
            "kafka": {"bootstrapServers": bootstrap_servers, "topics": [_TOPIC], "startingOffsets": "earliest"},
        },
        "format": message_format(ORDERS, "json"),
        "table": {
            "path": str(folder / "table"),
            "recordKey": [ORDERS.record_key],
            "partitionBy": [ORDERS.partition_by],
            "orderingField": ORDERS.ordering,
            "index": {"buckets": 8},
        },
        "commit": {"mode": "checkpoint", "trigger": f"{COMMIT_SECONDS}s"},
        "checkpoint": {"path": str(folder / "checkpoint")},
        "spark": {"driver": {"memory": "4Gi"}, "executor": {"memory": "4Gi"}},
        "services": {"mode": "off"},
    }
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": _NAME},
        "spec": spec,
    }


def _case(name: str, ticks: Sequence[Tick], seconds: Sequence[float], commits: Sequence[Visible], load: float) -> Case:
    start = ticks[0].at + _WARM_UP_SECONDS
    minutes: defaultdict[int, list[float]] = defaultdict(list)
    for tick, took in zip(ticks, seconds, strict=True):
        if tick.at >= start:
            minutes[int((tick.at - start) // 60)].append(took)
    if not minutes:
        raise WrongResult(f"the stream ended before its warm-up of {_WARM_UP_SECONDS:.0f} s")
    counted = sorted(took for minute in minutes.values() for took in minute)
    ours = Measured.of("99th percentile of each minute", [_percentile(sorted(each), 99) for each in minutes.values()])
    aim = Measured.of("aim", [AIM_SECONDS] * len(minutes))
    rate = (len(ticks) - 1) * _TICK_ROWS / (ticks[-1].at - ticks[0].at)
    committed = sorted(commit.at for commit in commits)
    pauses = [later - earlier for earlier, later in itertools.pairwise(committed)]
    return Case.of(
        case=name,
        what=(
            f"JSON messages of 11 columns at {RATE:,} a second, in a topic of {_PARTITIONS} partitions; broker and "
            f"producer on the same cores as the job. Upserts of {_KEYS:,} keys into 4 partitions x 8 buckets on the "
            f"local file system; an instant per micro-batch, a micro-batch every {COMMIT_SECONDS} s; Spark {MASTER}. "
            "Measured: from the hand-over of a message to the producer to the completed file of the commit that has "
            f"it, after {_WARM_UP_SECONDS:.0f} s of warm-up. At the end hudi-rs must find every key. The peer is the "
            "aim."
        ),
        unit="s",
        rows=len(counted) * _TICK_ROWS,
        ours=ours,
        peer=aim,
        loads=(round(load, 2),),
        notes=(
            (
                f"of all messages: median {statistics.median(counted):.2f} s, 99th percentile "
                f"{_percentile(counted, 99):.2f} s, longest {counted[-1]:.2f} s"
            ),
            (
                f"{rate:,.0f} messages a second were produced; from commit to commit {statistics.median(pauses):.2f} s "
                f"(median), at most {max(pauses):.2f} s"
            ),
        ),
        versions={"pyarrow (ours)": pa.__version__, "python": sys.version.split()[0]},
    )


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
