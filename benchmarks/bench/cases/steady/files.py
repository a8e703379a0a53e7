"""Files of an instant, and CPU time of a row, at a rate that takes a fraction of the cores: with pauses between micro-
batches, and with a micro-batch every trigger.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult, row_count
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
from bench.results_format import Case, Measured
from bench.sides.client import wait_until_quiet
from bench.sides.process_tree import cpu_seconds
from bench.sides.start import MASTER
from devservers.kafka import KafkaBroker

_RATE: Final = 20_000
"""Messages a second."""
_SECONDS: Final = 190
"""Of messages: six instants."""
_KEYS: Final = 200_000
_TICK_SECONDS: Final = 0.05
_TICK_ROWS: Final = int(_RATE * _TICK_SECONDS)
_BUCKETS: Final = 64
_TRIGGER_SECONDS: Final = 2
_INTERVAL_SECONDS: Final = 30


@dataclass(frozen=True, slots=True)
class Side:
    """One of two jobs that read the same topic at the same time."""

    folder: Path
    job: subprocess.Popen[bytes]

    @property
    def table(self) -> Path:
        """Base path of its table."""
        return self.folder / "table"


@dataclass(frozen=True, slots=True)
class Result:
    """What a side has made of the messages."""

    instants: Sequence[Visible]
    """But for the first, which warmed up, and the last, which has what was left."""
    ages: Sequence[float]
    """Seconds from a message to the commit that has it, in ascending order."""
    cpu_micros: float
    """Of a message."""


def instant_files_case(name: str, options: Options) -> Case:
    """Both jobs read the same messages, at the same time."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    write_input(ORDERS, folder / "rows", rows=_KEYS, seed=2)
    blocks = blocks_of(folder / "rows", _TICK_ROWS)
    count = int(_SECONDS / _TICK_SECONDS)
    load = wait_until_quiet(options.load_max, options.wait_seconds_max)
    with contextlib.ExitStack() as running:
        broker = running.enter_context(KafkaBroker(folder / "kafka", heap="1g"))
        new_topic(broker)
        # A micro-batch that is full leaves input behind as far as anybody knows, so nothing waits for the next one.
        full = {"maxOffsetsPerTrigger": _RATE * _TRIGGER_SECONDS}
        sides = [_start(running, folder / "ours", broker, {}), _start(running, folder / "every-trigger", broker, full)]
        producing = SteadyProducer(broker.bootstrap_servers, TOPIC, PARTITIONS, blocks)
        ends = producing.send(1, pause=0.0)
        for side in sides:
            wait_for(side.job, side.folder, ends[-1:])
        before = [cpu_seconds(side.job.pid) for side in sides]
        options.say(f"  first commits; {count * _TICK_ROWS:,} messages at {_RATE:,}/s follow")
        ticks = producing.send(count, pause=_TICK_SECONDS)
        for side in sides:
            wait_for(side.job, side.folder, ticks[-PARTITIONS:])
        ours, fixed = (
            _result(side, ticks, cpu_seconds(side.job.pid) - earlier)
            for side, earlier in zip(sides, before, strict=True)
        )
    case = _case(name, ours, fixed, load)
    shutil.rmtree(folder)
    options.say("  " + "; ".join(case.notes))
    return case


def _start(running: contextlib.ExitStack, folder: Path, broker: KafkaBroker, kafka: dict[str, int]) -> Side:
    commit = {"mode": "interval", "interval": f"{_INTERVAL_SECONDS}s", "trigger": f"{_TRIGGER_SECONDS}s"}
    document = resource(folder, broker, commit=commit, buckets=_BUCKETS, partitioned=False, **kafka)
    return Side(folder, running.enter_context(running_job(folder, document)))


def _result(side: Side, ticks: Sequence[Tick], used: float) -> Result:
    commits = sorted(commits_of(side.table), key=lambda commit: commit.at)
    if (rows := row_count(side.table)) != _KEYS:
        raise WrongResult(f"{side.table} holds {rows} rows, {_KEYS} keys were sent")
    if len(commits) < 4:
        raise WrongResult(f"{side.table} has {len(commits)} commits: too few to leave the first and the last out")
    return Result(commits[1:-1], sorted(latencies(ticks, commits)), used / (len(ticks) * _TICK_ROWS) * 1e6)


def _case(name: str, ours: Result, fixed: Result, load: float) -> Case:
    count = min(len(ours.instants), len(fixed.instants))
    return Case.of(
        case=name,
        what=(
            f"JSON messages of 11 columns at {_RATE:,} a second, in a topic of {PARTITIONS} partitions; an instant "
            f"every {_INTERVAL_SECONDS} s, a trigger of {_TRIGGER_SECONDS} s, {_BUCKETS} buckets in one partition, on "
            f"the local file system; Spark {MASTER}. Two jobs read the topic at the same time, the peer with a "
            "micro-batch every trigger. Figures are files of an instant, the first and the last one left out. At the "
            "end hudi-rs must find every key in both tables."
        ),
        unit="files",
        rows=_SECONDS * _RATE,
        ours=Measured.of("bucketingest", [each.files for each in ours.instants[:count]]),
        peer=Measured.of("a micro-batch every trigger", [each.files for each in fixed.instants[:count]]),
        loads=(round(load, 2),),
        notes=(_said("ours", ours), _said("every trigger", fixed)),
        versions={"pyarrow (ours)": pa.__version__, "python": sys.version.split()[0]},
    )


def _said(side: str, result: Result) -> str:
    batches = statistics.median(each.micro_batches for each in result.instants)
    return (
        f"{side}: {batches:g} micro-batches an instant, {result.cpu_micros:.1f} µs of CPU a message; from a message to "
        f"its commit {statistics.median(result.ages):.1f} s (median), {percentile(result.ages, 99):.1f} s "
        "(99th percentile)"
    )
