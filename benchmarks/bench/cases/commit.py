"""How long a commit takes on the driver: against the rows of its instant, and against the file groups it wrote to.

Both need no Spark: the coordinator, the write path and the disk are real.
"""

from __future__ import annotations

import functools
import json
import multiprocessing
import shutil
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from hudi import HudiTableBuilder

from bench.cases.comparison import Options, WrongResult, row_count
from bench.cases.simulated_table import CommitTimes, SimulatedTable
from bench.data import ORDERS, rows_of
from bench.results_format import Case, Measured
from bench.sides.client import wait_until_quiet
from bucketingest.cli.inspection.command import inspected
from bucketingest.cli.inspection.services import Rules
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.spec.quantity import parse_duration
from bucketingest.storage import open_storage
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.writer import run_tasks
from support.tables.local_writer import LocalWriter

_MILLISECONDS: Final = 1000.0
_FACTOR: Final = 10
_COMMITS_PER_REPETITION: Final = 11
_BUCKETS: Final = 8

BARS_MS: Final = {10_000: 1_000.0, 100_000: 10_000.0}
"""File groups to the milliseconds in which they must be committed."""
_SIZES: Final = (100, 1_000, 10_000, 100_000)
_INSPECTED: Final = 10_000


@dataclass
class _TimedWriter(LocalWriter):
    """Runs the write tasks in a separate process, as Spark does, and records when they ended."""

    tasks: Executor = field(kw_only=True)
    tasks_ended: float = field(default=0.0, init=False)

    def write(self, rows: pa.Table, assignment: Assignment) -> list[WriteStatus]:
        statuses = self.tasks.submit(_run_tasks, rows.num_rows, self.plan(assignment)).result()
        self.tasks_ended = time.perf_counter()
        return statuses

    def commit_ms(self, rows: pa.Table) -> float:
        """Commit the rows as one instant; milliseconds from the last task's report to the return of the call."""
        self.commit(rows)
        return (time.perf_counter() - self.tasks_ended) * _MILLISECONDS


@functools.cache
def _rows(number: int) -> pa.Table:
    return rows_of(ORDERS, pa.array(range(number)), seed=1)


def _run_tasks(number: int, plan: WritePlan) -> list[WriteStatus]:
    return run_tasks(_rows(number), plan)


def commit_rows_case(name: str, options: Options) -> Case:
    """Instants of 1x and of 10x the rows into the same file groups of one table, in turns."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    many = max(_FACTOR, options.rows // 2)
    rows, few = _rows(many), _rows(many // _FACTOR)
    definition = TableDefinition(
        name="orders",
        record_key=(ORDERS.record_key,),
        partition_fields=(ORDERS.partition_by or "",),
        ordering_field=ORDERS.ordering,
        buckets=_BUCKETS,
    )
    ours: list[float] = []
    peer: list[float] = []
    loads: list[float] = []
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as tasks:
        writer = _TimedWriter(folder, definition, rows.schema, tasks=tasks)
        for repetition in range(options.repeats + 1):
            load = wait_until_quiet(options.load_max, options.wait_seconds_max)
            pairs = [(writer.commit_ms(few), writer.commit_ms(rows)) for _ in range(_COMMITS_PER_REPETITION)]
            low, high = (statistics.median(side) for side in zip(*pairs, strict=True))
            counted = f"run {repetition}" if repetition else "warm-up"
            options.say(f"  {counted}: {few.num_rows:,} rows {low:.2f} ms, {rows.num_rows:,} rows {high:.2f} ms")
            if repetition:
                peer.append(low)
                ours.append(high)
                loads.append(round(load, 2))
    if (found := row_count(folder)) != many:
        raise WrongResult(f"{folder} holds {found} rows, {many} were written")
    shutil.rmtree(folder)
    return _case(
        name,
        f"Commit of an instant of {rows.num_rows:,} rows against one of {few.num_rows:,} (11 columns, Parquet blocks) "
        f"into the same 4 partitions x {_BUCKETS} buckets of one table on the local file system, in turns without "
        "Spark, the write tasks in a process of their own. Measured: from the last write task's report to the "
        "completed instant, that is ledger entry, checks, decision, completed file, each flushed to the disk. A "
        "repetition's figure is the "
        f"median of {_COMMITS_PER_REPETITION} commits. The aim: at most 1.1 times as long, a ratio of 0.91.",
        (Measured.of(f"{_FACTOR}x the rows", ours), Measured.of("1x the rows", peer)),
        rows=many,
        loads=loads,
    )


def commit_file_groups_cases(name: str, options: Options) -> list[Case]:
    """Instants that wrote to 100 to 100,000 file groups, each number in a table of its own, in turns."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    tables = {size: SimulatedTable(folder / str(size), size) for size in _SIZES}
    times: dict[int, list[CommitTimes]] = {size: [] for size in _SIZES}
    loads: list[float] = []
    for repetition in range(options.repeats + 1):
        load = wait_until_quiet(options.load_max, options.wait_seconds_max)
        loads += [round(load, 2)] * (repetition > 0)
        for size, table in tables.items():
            measured = table.commit()
            times[size] += [measured] * (repetition > 0)
            counted = f"run {repetition}" if repetition else "warm-up"
            options.say(f"  {counted}: {size:,} file groups {measured.commit:.3f} s, load {load:.1f}")
    notes = {size: _after(table) for size, table in tables.items()}
    notes[_INSPECTED] += _seen_by_others(tables[_INSPECTED])
    shutil.rmtree(folder)
    every_size = "; ".join(f"{size:,} file groups {_spread([each.commit for each in times[size]])}" for size in _SIZES)
    return [
        _case(
            f"{name}-{size}",
            f"Commit of an instant with one log file in each of {size:,} file groups ({min(size, 1000):,} to a "
            "partition), on the local file system. The write statuses are made up and no log file is written, only "
            "their markers; the rest is real: coordinator, ledger entry, checks, decision, commit metadata, completed "
            "file, each flushed to the disk, removal of the markers. Measured: from the last write task's report until "
            "nothing is left to do for the instant. The peer is the aim.",
            (
                Measured.of("commit", [each.commit * _MILLISECONDS for each in times[size]]),
                Measured.of("aim", [bar] * options.repeats),
            ),
            rows=size,
            loads=loads,
            notes=(f"all sizes: {every_size}", *notes[size]),
        )
        for size, bar in BARS_MS.items()
    ]


def _after(table: SimulatedTable) -> list[str]:
    """Check that the commits are readable; what they cost the next reader and the next attempt."""
    storage = open_storage(str(table.path))
    started = time.perf_counter()
    timeline = Timeline.load(storage)
    loaded = time.perf_counter()
    path = path_of(timeline.completed_commits[-1])
    content = storage.get(path)
    decoding = time.perf_counter()
    metadata = CommitMetadata.decode(content, path)
    decoded = time.perf_counter()
    if len(metadata.files) != table.file_groups:
        raise WrongResult(f"{path} names {len(metadata.files)} files, {table.file_groups} were reported")
    other = SimulatedTable(table.path, table.file_groups, pipeline="other")
    table.commit()
    fold = other.commit(1)
    return [
        f"completed file: {len(content) / 1e6:.1f} MB, decoded in {decoded - decoding:.3f} s",
        f"Timeline.load: {(loaded - started) * _MILLISECONDS:.1f} ms ({len(timeline.instants)} instants)",
        f"the pipeline's next instant, of 1 file group: {_times(table.commit(1))}",
        f"another pipeline's next instant, of 1 file group, with the large commit to take in: {_times(fold)}",
        f"and its next one: {_times(other.commit(1))}",
    ]


def _times(times: CommitTimes) -> str:
    return f"begin {times.begin * _MILLISECONDS:.1f} ms, commit {times.commit * _MILLISECONDS:.1f} ms"


def _seen_by_others(table: SimulatedTable) -> list[str]:
    """hudi-rs and `bucketingest inspect` on a table whose last commit's files exist, empty."""
    table.commit()
    table.touch_files()
    assert table.last is not None, "committed above"
    snapshot = HudiTableBuilder.from_base_uri(str(table.path)).build()
    timeline = snapshot.get_timeline()
    newest = timeline.get_completed_deltacommits()[-1]
    partitions = json.loads(timeline.get_instant_metadata_in_json(newest))["partitionToWriteStats"]
    counts = (sum(map(len, partitions.values())), len(snapshot.get_file_slices()))
    if newest.timestamp != table.last.instant_time or counts != (table.file_groups, table.file_groups):
        raise WrongResult(f"hudi-rs sees instant {newest.timestamp} with {counts[0]} files, {counts[1]} file slices")
    started = time.perf_counter()
    report = inspected(open_storage(str(table.path)), Rules(), instants=10, pending_limit=parse_duration("10m"))
    seconds = time.perf_counter() - started
    if report.files.file_groups != table.file_groups:
        raise WrongResult(f"inspect sees {report.files.file_groups} file groups, not {table.file_groups}")
    started = time.perf_counter()
    table.open()
    opened = time.perf_counter() - started
    return [
        f"hudi-rs reads the commit ({counts[0]:,} write stats) and lists {counts[1]:,} file slices",
        f"`bucketingest inspect`, newest commits of {table.file_groups:,} file groups each: {seconds:.2f} s",
        f"open_table (a new attempt's listing and index): {opened:.2f} s",
    ]


def _spread(seconds: Sequence[float]) -> str:
    low, middle, high = min(seconds), statistics.median(seconds), max(seconds)
    return f"{middle:.3f} s ({low:.3f} to {high:.3f})"


def _case(
    name: str,
    what: str,
    sides: tuple[Measured, Measured],
    *,
    rows: int,
    loads: Sequence[float],
    notes: Sequence[str] = (),
) -> Case:
    ours, peer = sides
    return Case.of(
        case=name,
        what=what,
        unit="ms",
        rows=rows,
        ours=ours,
        peer=peer,
        loads=loads,
        notes=notes,
        versions={"pyarrow (ours)": pa.__version__},
    )
