"""Whether `slo.readOptimizedFreshness` is kept: from a message's produce to the base file that has its row.

Kafka, the producer and the job share this machine. Run it with PYTHONPATH=tests:benchmarks:tools from the project's
folder. Each promise takes a minute longer than --seconds; both take 23 minutes.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.cases.steady.job import (
    PARTITIONS,
    TOPIC,
    Visible,
    blocks_of,
    commits_of,
    latencies,
    new_topic,
    percentile,
    resource,
    running_job,
    wait_for,
)
from bench.cases.steady.producer import SteadyProducer, Tick
from bench.data import ORDERS, write_input
from bucketingest.hudi.naming import BaseFileName, parse_data_file_name
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.spec.quantity import parse_duration
from bucketingest.storage import open_storage
from devservers.kafka import KafkaBroker

_TICK_SECONDS = 0.05


def main() -> None:
    """Print the percentiles of both kinds of readers for each promise. Exit code 1 if one was not kept at p99."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--promises", nargs="+", default=["1m", "5m"])
    parser.add_argument("--rate", type=int, default=20_000, help="messages a second")
    parser.add_argument("--seconds", type=int, help="of each; three times the promise, five minutes at least")
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--interval", default="5s")
    given = parser.parse_args()
    kept = []
    for promise in given.promises:
        with TemporaryDirectory() as name:
            kept.append(_is_kept(Path(name), promise, given))
    sys.exit(not all(kept))


def _is_kept(folder: Path, promise: str, given: Any) -> bool:
    limit = parse_duration(promise).total_seconds()
    ticks, table = _run(folder, promise, given.seconds or round(max(300, 3 * limit)), given)
    commits = commits_of(table)
    merged = _merged(table)
    seen = [tick for tick in ticks if any(each.ends[tick.partition] >= tick.end for each in merged)]
    print(f"{promise} promised, {given.rate:,} messages a second, load {os.getloadavg()[0]:.1f}")
    _show("snapshot readers", latencies(ticks, commits))
    p99 = _show("base-file readers", latencies(seen, merged))
    print(f"{len(commits)} commits, {len({each.at for each in merged})} moments at which base files changed")
    for request, took in sorted(_compactions(table)):
        print(f"compaction {request}: completed {took:.0f} s after its request")
    waited = ticks[-1].at - seen[-1].at
    print(f"the last {waited:.0f} s of messages were in no base file when it ended", flush=True)
    return p99 <= limit and waited <= limit


def _run(folder: Path, promise: str, seconds: int, given: Any) -> tuple[list[Tick], Path]:
    write_input(ORDERS, folder / "rows", rows=given.keys, seed=2)
    blocks = blocks_of(folder / "rows", round(given.rate * _TICK_SECONDS))
    with KafkaBroker(folder / "kafka", heap="1g") as broker:
        new_topic(broker)
        commit = {"interval": given.interval, "trigger": "1s"}
        document = resource(folder, broker, commit=commit, buckets=2, partitioned=True)
        document["spec"] |= {"services": {"mode": "inline"}, "slo": {"readOptimizedFreshness": promise}}
        with running_job(folder, document) as job:
            producing = SteadyProducer(broker.bootstrap_servers, TOPIC, PARTITIONS, blocks)
            wait_for(job, folder, producing.send(4, pause=0.0))
            ticks = producing.send(round(seconds / _TICK_SECONDS), pause=_TICK_SECONDS)
            wait_for(job, folder, ticks[-PARTITIONS:])
    return ticks, folder / "table"


def _merged(table: Path) -> list[Visible]:
    """The commits, each from the moment on at which all its log files were merged; those of which none is left out.

    A compaction merges the log files of commits that completed before its request.
    """
    written: defaultdict[str, list[str]] = defaultdict(list)
    compacted: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
    for instant in Timeline.load(open_storage(str(table))).completed_commits:
        path = path_of(instant)
        for file in CommitMetadata.decode_files((table / path).read_bytes(), path):
            name = parse_data_file_name(file.name)
            if isinstance(name, BaseFileName):
                compacted[name.file_id].append((instant.request_time, (table / path).stat().st_mtime))
            elif name is not None:
                written[name.file_id].append(instant.completion_time or "")
    at: defaultdict[str, float] = defaultdict(float)
    for file_id, completions in written.items():
        for completion in completions:
            later = [moment for request, moment in compacted[file_id] if request > completion]
            at[completion] = max(at[completion], min(later, default=float("inf")))
    found = (replace(each, at=at[each.completion]) for each in commits_of(table))
    return [each for each in found if each.at < float("inf")]


def _compactions(table: Path) -> set[tuple[str, float]]:
    """Request time, and seconds to the completed file."""
    return {
        (each.request_time, (parse_time(each.completion_time) - parse_time(each.request_time)).total_seconds())
        for each in Timeline.load(open_storage(str(table))).completed_commits
        if each.action == COMMIT and each.completion_time is not None
    }


def _show(readers: str, seconds: list[float]) -> float:
    """The 99th percentile."""
    ordered = sorted(seconds)
    p50, p99 = (percentile(ordered, each) for each in (50, 99))
    print(f"{readers}: median {p50:.1f} s, p99 {p99:.1f} s, longest {ordered[-1]:.1f} s of {len(ordered)} ticks")
    return p99


if __name__ == "__main__":
    main()
