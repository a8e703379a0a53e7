"""A pipeline that reads messages as they come, run as `bucketingest run` runs it, and the commits that it makes."""

from __future__ import annotations

import bisect
import json
import os
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.cases.comparison import WrongResult
from bench.cases.steady.producer import Block, Tick
from bench.data import ORDERS
from bench.messages import message_format, messages
from bench.sides.client import clean_environment
from bench.sides.process_tree import process_tree
from bench.sides.start import MASTER
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import open_storage
from bucketingest.write.instants.position import ranges_of
from devservers.kafka import KafkaBroker

TOPIC: Final = "orders"
PARTITIONS: Final = 4
NAME: Final = "steady"
_WAIT_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Visible:
    """A commit."""

    ends: Mapping[int, int]
    """The offset behind the last committed message of each Kafka partition."""
    at: float
    """When its completed file was there, seconds since 1970."""
    micro_batches: int = 1
    files: int = 0
    completion: str = ""
    """Completion time on the timeline."""


def latencies(ticks: Sequence[Tick], commits: Sequence[Visible]) -> list[float]:
    """Seconds from each tick to the first commit that has its last message. Pure.

    Raises WrongResult if a tick is in no commit.
    """
    ordered = sorted(commits, key=lambda commit: commit.at)
    ends: defaultdict[int, list[int]] = defaultdict(list)
    for commit in ordered:
        for partition in range(PARTITIONS):
            seen = ends[partition]
            seen.append(max(commit.ends.get(partition, 0), seen[-1] if seen else 0))
    found = []
    for tick in ticks:
        place = bisect.bisect_left(ends[tick.partition], tick.end)
        if place == len(ordered):
            raise WrongResult(f"offset {tick.end} of partition {tick.partition} was never committed")
        found.append(ordered[place].at - tick.at)
    return found


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Of values in ascending order."""
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def new_topic(broker: KafkaBroker) -> None:
    """The topic; the broker keeps its last gigabyte."""
    broker.create_topic(
        TOPIC, partitions=PARTITIONS, config={"retention.bytes": str(1 << 30), "segment.bytes": str(1 << 28)}
    )


def blocks_of(rows: Path, size: int) -> list[Block]:
    """The messages of an input folder, so many for each tick of a cycle."""
    batch = [{"key": key, "value": value} for key, value in messages(rows, ORDERS, "json")]
    return [batch[first : first + size] for first in range(0, len(batch), size)]


def resource(
    folder: Path, broker: KafkaBroker, *, commit: Mapping[str, Any], buckets: int, partitioned: bool, **kafka: Any
) -> dict[str, Any]:
    """The BucketIngest of the stream, its table below the folder; `kafka`: more fields of its source."""
    source = {"bootstrapServers": broker.bootstrap_servers, "topics": [TOPIC], "startingOffsets": "earliest", **kafka}
    spec = {
        "source": {"kafka": source},
        "format": message_format(ORDERS, "json"),
        "table": {
            "path": str(folder / "table"),
            "recordKey": [ORDERS.record_key],
            "partitionBy": [ORDERS.partition_by] if partitioned else [],
            "orderingField": ORDERS.ordering,
            "index": {"buckets": buckets},
        },
        "commit": commit,
        "checkpoint": {"path": str(folder / "checkpoint")},
        "spark": {"driver": {"memory": "4Gi"}, "executor": {"memory": "4Gi"}},
        "services": {"mode": "off"},
    }
    return {
        "apiVersion": "bucketingest.dev/v1alpha1",
        "kind": "BucketIngest",
        "metadata": {"name": NAME},
        "spec": spec,
    }


@contextmanager
def running_job(folder: Path, document: Mapping[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """The pipeline of a resource, its log in the folder; killed with all its processes in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "resource.json"
    file.write_text(json.dumps(document))
    environment = clean_environment(
        MASTER=MASTER,
        SPARK_LOCAL_DIRS=str(folder / "spark"),
        BUCKETINGEST_CLASS_ARCHIVE=str(Path(sys.prefix) / "spark.jsa"),
    )
    command = [str(Path(sys.prefix) / "bin" / "bucketingest"), "run", str(file)]
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


def wait_for(job: subprocess.Popen[bytes], folder: Path, ticks: Sequence[Tick]) -> None:
    """Until all of these are committed. Raises WrongResult if they are not in time."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            latencies(ticks, commits_of(folder / "table"))
        except WrongResult:
            if job.poll() is not None or time.monotonic() > deadline:
                log = (folder / "job.log").read_text()[-3000:]
                raise WrongResult(f"what was sent is not committed after {_WAIT_SECONDS:.0f} s:\n{log}") from None
            time.sleep(0.2)
        else:
            return


def commits_of(table: Path) -> list[Visible]:
    """The table's commits; a completed file's time of change is when it was put there."""
    if not (table / ".hoodie" / "hoodie.properties").exists():
        return []
    storage = open_storage(str(table))
    found = []
    for instant in Timeline.load(storage).completed_commits:
        path = path_of(instant)
        ranges = ranges_of(storage, path, NAME)
        if not ranges:  # a table service
            continue
        end = json.loads(ranges[-1].end)[TOPIC]
        file = table / path
        files = len(CommitMetadata.decode_files(file.read_bytes(), path))
        ends = {int(partition): offset for partition, offset in end.items()}
        found.append(Visible(ends, file.stat().st_mtime, len(ranges), files, instant.completion_time or ""))
    return found
