"""A table with ten thousand commits against the same one when it was young, and a day of commits against a table that
was just compacted: table services must keep it small and fast.

The clock is simulated; commits, compactions, cleans and archivals are those of the job.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult
from bench.results_format import Case, Measured
from bench.sides.client import Side, wait_until_quiet
from bench.sides.start import start_hudi, versions
from bucketingest.cli.inspection.command import inspected
from bucketingest.cli.inspection.services import Rules
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.schedule import LOOK_EVERY
from bucketingest.storage import open_storage
from support.tables.services.aged_table import AgedTable

_COMMIT_EVERY: Final = timedelta(seconds=30)
_YOUNG: Final = 3_000
"""Commits from which on nothing may grow: what is kept longest is kept for a day, 2,880 commits."""
_OLD: Final = 10_000
_DAY: Final = timedelta(days=1) // _COMMIT_EVERY
_KEYS: Final = 200
_RETAIN: Final = timedelta(hours=1)
"""Superseded files of a day would make it slow to make the commits; `_day_case` measures a table with these."""
_LOOK_EVERY: Final = timedelta(minutes=10)
"""Looks each minute, as a job's, would make it slow to make the commits; `_day_case` has these."""
_PENDING_LIMIT: Final = timedelta(minutes=10)


@dataclass(slots=True)
class Figures:
    """Repeated figures of one table, by what was measured."""

    by_name: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, figure: float) -> None:
        """One more."""
        self.by_name.setdefault(name, []).append(figure)


UNITS: Final[Mapping[str, str]] = {"snapshot": "ms", "start": "ms", "inspect": "ms", "objects": "objects"}


def services_flat_cases(name: str, options: Options) -> Iterator[Case]:
    """The cases of a table with many commits. `rows` of the options limits the commits."""
    folder = options.scratch / name
    with _hudi_in(folder) as hudi:
        yield from _old_cases(name, folder / "old", hudi, options)


def services_day_cases(name: str, options: Options) -> Iterator[Case]:
    """The case of a table after a day. `rows` of the options limits the commits."""
    folder = options.scratch / name
    with _hudi_in(folder) as hudi:
        yield _day_case(name, folder / "day", hudi, options)


@contextmanager
def _hudi_in(folder: Path) -> Iterator[Side]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with start_hudi(folder) as hudi:
        yield hudi
    shutil.rmtree(folder)


def _old_cases(name: str, path: Path, hudi: Side, options: Options) -> Iterator[Case]:
    commits = max(2 * _YOUNG, min(_OLD, options.rows))
    aged = _table(path, commits, _RETAIN, _LOOK_EVERY)
    young = _measured(aged, _YOUNG, path, hudi=hudi, options=options)
    old = _measured(aged, commits, path, hudi=hudi, options=options)
    for what, unit in UNITS.items():
        sides = (old.by_name[what], young.by_name[what])
        yield _case(
            f"{name}-{what}",
            f"{_WHATS[what]} of a table with {commits:,} commits against the same table with {_YOUNG} (the peer). "
            f"{_MADE} Each 10 min a look at what is to be compacted; superseded files are retained for an hour.",
            (Measured.of(f"{commits:,} commits", sides[0]), Measured.of(f"{_YOUNG} commits", sides[1])),
            unit=unit,
            rows=commits,
            loads=old.by_name["load"],
            hudi=hudi,
            notes=(f"simulated: {aged.commits:,} commits, {aged.now - aged.began} of table time",),
        )


def _day_case(name: str, path: Path, hudi: Side, options: Options) -> Case:
    commits = min(_DAY, options.rows) - 1  # a compaction follows the next one: there is most to merge
    aged = _table(path, commits, timedelta(hours=24), LOOK_EVERY)
    aged.run(commits)
    fresh = path.with_name("fresh")
    shutil.copytree(path, fresh)
    compacted = AgedTable(open_storage(str(fresh)), aged.now, commits=aged.commits)
    compacted.compact(CompactionTriggers(log_files=1))
    found = inspected(open_storage(str(path)), Rules(), instants=1, pending_limit=_PENDING_LIMIT).services
    times: tuple[list[float], list[float]] = ([], [])
    loads = []
    for repetition in range(options.repeats + 1):
        load = wait_until_quiet(options.load_max, options.wait_seconds_max)
        pair = _snapshot_ms(hudi, path), _snapshot_ms(hudi, fresh)
        options.say(f"  {_counted(repetition)}: day {pair[0]:,.0f} ms, compacted {pair[1]:,.0f} ms, load {load:.1f}")
        if repetition:
            loads.append(round(load, 2))
            for side, milliseconds in zip(times, pair, strict=True):
                side.append(milliseconds)
    return _case(
        name,
        f"Spark's snapshot read of a table after {commits:,} commits against a copy that was just compacted (the "
        f"peer). {_MADE} All at its defaults: a look each minute, superseded files are retained for 24 hours. The aim: "
        "at most 1.5 times as long, a ratio of 0.67.",
        (Measured.of("after the commits", times[0]), Measured.of("just compacted", times[1])),
        unit="ms",
        rows=commits,
        loads=loads,
        hudi=hudi,
        notes=(f"objects: {aged.objects()}; {found.log_files} log files in {found.unmerged_groups} file groups",),
    )


_MADE: Final = (
    f"A commit every 30 s by a simulated clock, each with {_KEYS} rows of the same keys in 8 file groups of 2 "
    "partitions on the local file system; compactions, and every 30 min a clean and an archival, by the job's own code."
)
_WHATS: Final[Mapping[str, str]] = {
    "snapshot": "Spark's snapshot read (Hudi 1.2.0, count and maximum of a column)",
    "start": "What a job's start does on the table: open it, settle what is left, find the position, without Spark",
    "inspect": "`bucketingest inspect`, without the start of its process,",
    "objects": "Objects on the timeline and of our own (`.hoodie/timeline`, `.hoodie/.bucketingest`)",
}


def _table(path: Path, commits: int, retain: timedelta, look_every: timedelta) -> AgedTable:
    began = datetime.now(UTC) - commits * _COMMIT_EVERY
    return AgedTable(
        open_storage(str(path)), began, commit_every=_COMMIT_EVERY, look_every=look_every, retain=retain, keys=_KEYS
    )


def _measured(aged: AgedTable, commits: int, path: Path, *, hudi: Side, options: Options) -> Figures:
    started = time.perf_counter()
    aged.run(commits - aged.commits)
    options.say(f"  {commits:,} commits made in {time.perf_counter() - started:,.0f} s: {aged.objects()}")
    figures = Figures()
    for repetition in range(options.repeats + 1):
        load = wait_until_quiet(options.load_max, options.wait_seconds_max)
        counts = aged.objects()
        measured = {
            "snapshot": _snapshot_ms(hudi, path),
            "start": _milliseconds(lambda: aged.table.attempt(clock=lambda: aged.now)),
            "inspect": _milliseconds(
                lambda: inspected(open_storage(str(path)), Rules(), instants=10, pending_limit=_PENDING_LIMIT)
            ),
            "objects": float(counts["timeline"] + counts["own"]),
        }
        said = ", ".join(f"{name} {figure:,.0f} {UNITS[name]}" for name, figure in measured.items())
        options.say(f"  {_counted(repetition)}: {said}, load {load:.1f}")
        if repetition:
            figures.add("load", round(load, 2))
            for name, figure in measured.items():
                figures.add(name, figure)
    aged.attempt = aged.table.attempt(clock=lambda: aged.now)
    return figures


def _snapshot_ms(hudi: Side, path: Path) -> float:
    answer = hudi.ask(op="snapshot", path=str(path), column="_hoodie_commit_time")
    if answer["rows"] != _KEYS:
        raise WrongResult(f"{path} holds {answer['rows']} rows, {_KEYS} keys were written")
    return float(answer["seconds"]) * 1000


def _milliseconds(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return (time.perf_counter() - started) * 1000


def _counted(repetition: int) -> str:
    return f"run {repetition}" if repetition else "warm-up"


def _case(
    name: str,
    what: str,
    sides: tuple[Measured, Measured],
    *,
    unit: str,
    rows: int,
    loads: list[float],
    hudi: Side,
    notes: tuple[str, ...],
) -> Case:
    return Case.of(
        case=name,
        what=what,
        unit=unit,
        rows=rows,
        ours=sides[0],
        peer=sides[1],
        loads=loads,
        notes=notes,
        versions=versions({"pyarrow": pa.__version__}, hudi.ask(op="versions")),
    )
