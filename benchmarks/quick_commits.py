"""From a message's produce to its visible row where commits are less than a second apart, and what a commit costs.

Kafka, the producer and the job share this machine. Run it with PYTHONPATH=tests:benchmarks:tools from the project's
folder; it takes a minute longer than --seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.cases.steady.job import (
    PARTITIONS,
    TOPIC,
    blocks_of,
    commits_of,
    latencies,
    new_topic,
    percentile,
    resource,
    running_job,
    wait_for,
)
from bench.cases.steady.producer import SteadyProducer
from bench.data import ORDERS, write_input
from bench.sides.process_tree import cpu_seconds
from devservers.kafka import KafkaBroker

_TICK_SECONDS = 0.02
_WARM_UP_SECONDS = 20.0


def main() -> None:
    """Print a line for each rate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[1_000, 30_000, 100_000], help="messages a second")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", default="200ms")
    parser.add_argument("--trigger", default="100ms")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--services", default="off", help="services.mode")
    given = parser.parse_args()
    for rate in given.rates:
        with TemporaryDirectory() as name:
            print(_measured(Path(name), rate, given), flush=True)


def _measured(folder: Path, rate: int, given: Any) -> str:
    write_input(ORDERS, folder / "rows", rows=given.keys, seed=2)
    blocks = blocks_of(folder / "rows", round(rate * _TICK_SECONDS))
    with KafkaBroker(folder / "kafka", heap="512m") as broker:
        new_topic(broker)
        commit = {"interval": given.interval, "trigger": given.trigger}
        document = resource(folder, broker, commit=commit, buckets=8, partitioned=False)
        document["spec"]["services"] = {"mode": given.services}
        if given.services != "off":  # the only ones with which a timeline stays short
            document["spec"]["services"] |= {"clean": {"versions": 2}, "archive": {"retain": "1m"}}
        with running_job(folder, document) as job:
            producing = SteadyProducer(broker.bootstrap_servers, TOPIC, PARTITIONS, blocks)
            wait_for(job, folder, producing.send(1, pause=0.0))
            producing.send(round(_WARM_UP_SECONDS / _TICK_SECONDS), pause=_TICK_SECONDS)
            used = cpu_seconds(job.pid)
            ticks = producing.send(round(given.seconds / _TICK_SECONDS), pause=_TICK_SECONDS)
            used = cpu_seconds(job.pid) - used
            wait_for(job, folder, ticks[-PARTITIONS:])
    commits = commits_of(folder / "table")
    ages = sorted(latencies(ticks, commits))
    counted = [each for each in commits if ticks[0].at <= each.at <= ticks[-1].at]
    p50, p99 = (percentile(ages, each) for each in (50, 99))
    seconds, files = ticks[-1].at - ticks[0].at, statistics.mean(each.files for each in counted)
    return (
        f"{rate:,} messages a second: p50 {p50:.2f} s, p99 {p99:.2f} s, longest {ages[-1]:.2f} s; {len(counted)} "
        f"commits in {seconds:.0f} s of {files:.1f} files, "
        f"{used / max(1, len(counted)) * 1000:.0f} ms of CPU each; load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
