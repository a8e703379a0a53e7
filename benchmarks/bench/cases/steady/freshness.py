"""From the moment that a message is produced to the commit that shows its row, at a steady rate of messages."""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
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
from bench.sides.start import MASTER
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
_WARM_UP_SECONDS: Final = 40.0


def freshness_case(name: str, options: Options) -> Case:
    """One stream: its first part warms up, each minute of the rest is a repetition."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_input(ORDERS, folder / "rows", rows=_KEYS, seed=2)
    blocks = blocks_of(folder / "rows", _TICK_ROWS)
    count = options.rows * _MINUTES_OF_ROWS // _TICK_ROWS
    load = wait_until_quiet(options.load_max, options.wait_seconds_max)
    table = folder / "table"
    with KafkaBroker(folder / "kafka", heap="1g") as broker:
        new_topic(broker)
        commit = {"mode": "checkpoint", "trigger": f"{COMMIT_SECONDS}s"}
        with running_job(folder, resource(folder, broker, commit=commit, buckets=8, partitioned=True)) as job:
            producing = SteadyProducer(broker.bootstrap_servers, TOPIC, PARTITIONS, blocks)
            ends = producing.send(1, pause=0.0)
            wait_for(job, folder, ends[-1:])
            options.say(f"  first commit; {count * _TICK_ROWS:,} messages at {RATE:,}/s follow")
            ticks = producing.send(count, pause=_TICK_SECONDS)
            wait_for(job, folder, ticks[-PARTITIONS:])
    commits = commits_of(table)
    found = latencies(ticks, commits)
    if (rows := row_count(table)) != _KEYS:
        raise WrongResult(f"{table} holds {rows} rows, {_KEYS} keys were sent")
    case = _case(name, ticks, found, commits, load)
    shutil.rmtree(folder)
    options.say("  " + "; ".join(case.notes))
    return case


def _case(name: str, ticks: Sequence[Tick], seconds: Sequence[float], commits: Sequence[Visible], load: float) -> Case:
    start = ticks[0].at + _WARM_UP_SECONDS
    minutes: defaultdict[int, list[float]] = defaultdict(list)
    for tick, took in zip(ticks, seconds, strict=True):
        if tick.at >= start:
            minutes[int((tick.at - start) // 60)].append(took)
    if not minutes:
        raise WrongResult(f"the stream ended before its warm-up of {_WARM_UP_SECONDS:.0f} s")
    counted = sorted(took for minute in minutes.values() for took in minute)
    ours = Measured.of("99th percentile of each minute", [percentile(sorted(each), 99) for each in minutes.values()])
    aim = Measured.of("aim", [AIM_SECONDS] * len(minutes))
    rate = (len(ticks) - 1) * _TICK_ROWS / (ticks[-1].at - ticks[0].at)
    committed = sorted(commit.at for commit in commits)
    pauses = [later - earlier for earlier, later in itertools.pairwise(committed)]
    return Case.of(
        case=name,
        what=(
            f"JSON messages of 11 columns at {RATE:,} a second, in a topic of {PARTITIONS} partitions; broker and "
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
                f"{percentile(counted, 99):.2f} s, longest {counted[-1]:.2f} s"
            ),
            (
                f"{rate:,.0f} messages a second were produced; from commit to commit {statistics.median(pauses):.2f} s "
                f"(median), at most {max(pauses):.2f} s"
            ),
        ),
        versions={"pyarrow (ours)": pa.__version__, "python": sys.version.split()[0]},
    )
