"""What a row costs with more tasks, executor processes, buckets and partitions, and the cores that a rate takes."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from bench.cases.comparison import Options, Pair, Sources, alternate, check_rows
from bench.cases.inputs import make_inputs
from bench.data import ORDERS, Dataset
from bench.results_format import Case, Measured
from bench.sides.client import Run, Side
from bench.sides.start import BUCKETS, MASTER, Target, start_ours, versions

TASKS_AT_LEAST: Final = 0.85
BUCKETS_AT_LEAST: Final = 0.75
_RATE: Final = 2_000_000
"""Rows a second, of which each case says how many cores they take."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from the base: two tasks in one process, four partitions of eight buckets."""

    name: str
    at_least: float | None
    """The least share of the base's rows per CPU second; None: no target."""
    master: str = MASTER
    buckets: int = BUCKETS
    partitions: int = ORDERS.partitions
    rows_times: int = 1
    """The case has so many times the rows of the others, on both sides: a table of many file groups gets many rows."""


VARIANTS: Final = (
    Variant("1-task", TASKS_AT_LEAST, master="local[1]"),
    # As much memory for each as the executors of `Target.resource` have.
    Variant("2-executors", TASKS_AT_LEAST, master="local-cluster[2,1,6144]"),
    Variant("64-buckets", BUCKETS_AT_LEAST, buckets=64),
    Variant("512-buckets", BUCKETS_AT_LEAST, buckets=512),
    Variant("512-buckets-4-times-the-rows", BUCKETS_AT_LEAST, buckets=512, rows_times=4),
    Variant("4096-buckets", BUCKETS_AT_LEAST, buckets=4096, partitions=1),
    Variant("4096-buckets-4-times-the-rows", BUCKETS_AT_LEAST, buckets=4096, partitions=1, rows_times=4),
    Variant("1-partition", None, partitions=1),
    Variant("100-partitions", None, partitions=100),
    Variant("1000-partitions", None, partitions=1000),
)


def scaling_cases(name: str, options: Options) -> Iterator[Case]:
    """One case for each variant, in turns with the base."""
    folders = {variant.name: options.scratch / f"{name}-{variant.name}" for variant in VARIANTS}
    for folder in folders.values():
        shutil.rmtree(folder, ignore_errors=True)
    for variant in VARIANTS:
        options.say(f"  {variant.name}")
        rows = options.rows * variant.rows_times
        yield _measured(f"{name}-{variant.name}", variant, folders[variant.name], replace(options, rows=rows))
    # Not before: thousands of files that were just deleted make ext4 search for each new one's inode, for minutes.
    for folder in folders.values():
        shutil.rmtree(folder)


def _measured(name: str, variant: Variant, folder: Path, options: Options) -> Case:
    with contextlib.ExitStack() as running:

        def started(side: str, kind: Variant) -> Callable[[int], Run]:
            dataset = _dataset(kind.partitions)
            sources, _ = make_inputs(dataset, options)
            target = Target(folder / side, dataset, buckets=kind.buckets)
            target.folder.mkdir(parents=True)
            ours = running.enter_context(start_ours(target.folder, master=kind.master))
            ours.ask(**target.ours(sources.load, 0))
            ran.update(versions(ours.ask(op="versions"), {}))
            return _upserts(ours, target, sources, options.rows)

        ran: dict[str, str] = {}
        pair = alternate(options, started("variant", variant), started("base", Variant("base", None)))
    return _case(name, variant, options, pair, ran)


def _dataset(partitions: int) -> Dataset:
    return (
        ORDERS
        if partitions == ORDERS.partitions
        else replace(ORDERS, name=f"{ORDERS.name}-{partitions}-partitions", partitions=partitions)
    )


def _upserts(side: Side, target: Target, sources: Sources, rows: int) -> Callable[[int], Run]:
    def run(number: int) -> Run:
        result = side.measure(**target.ours(sources.measured if number else sources.warm_up, number + 1))
        check_rows(target, rows)
        return result

    return run


def _case(name: str, variant: Variant, options: Options, pair: Pair, ran: dict[str, str]) -> Case:
    rows = options.rows

    def rates(side: str, runs: list[Run]) -> Measured:
        return Measured.of(side, [rows / run.cpu_seconds for run in runs], [round(run.cpu_seconds, 2) for run in runs])

    ours, base = rates("variant", pair.ours), rates("base", pair.peer)
    target = "" if variant.at_least is None else f"; target: at least {variant.at_least} of the base"
    return Case.of(
        case=name,
        what=(
            f"Upsert of {rows:,} rows of 11 columns from Parquet files over the same keys, one instant: Spark "
            f"{variant.master}, {variant.partitions} partitions x {variant.buckets} buckets, against Spark {MASTER}, "
            f"{ORDERS.partitions} partitions x {BUCKETS} buckets, in turns. Figures are rows per CPU second of the "
            f"whole process tree{target}."
        ),
        unit="rows/CPU s",
        higher_is_better=True,
        rows=rows,
        ours=ours,
        peer=base,
        loads=pair.loads,
        notes=(f"{_RATE:,} rows a second would take {_RATE / ours.median:.1f} cores like these",),
        versions=ran,
    )
