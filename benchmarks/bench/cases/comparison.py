"""Runs the two sides in turns on the same input and checks after each repetition that their tables hold its rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hudi import HudiReadOptions, HudiTableBuilder

from bench.data import Dataset, write_input
from bench.results_format import Case, Measured
from bench.sides.client import Run, Side, wait_until_quiet
from bench.sides.start import Source, Target

Request = Callable[[Source, int], dict[str, Any]]


class WrongResult(Exception):
    """A side wrote rows that are not its input."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a benchmark is run."""

    scratch: Path
    rows: int
    repeats: int
    load_max: float
    """Each repetition waits until the machine's load is below this, ..."""
    wait_seconds_max: float
    """... but no longer than that."""
    say: Callable[[str], None]


_WAKE_UPS: Final = 1000
"""Numbers of the pipelines that wake a side up start here."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What the sides read: all with the same keys, one row each; warming up takes as much work as is measured."""

    load: Source
    warm_up: Source
    measured: Source
    wake_up: Source
    """A tenth of the rows, read right before each measured run: a side that was idle while the other ran
    has lost its pages and caches; a continuous stream never does.
    """


@dataclass(slots=True)
class Pair:
    """The results of the repetitions."""

    ours: list[Run] = field(default_factory=list)
    peer: list[Run] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)

    def case(self, name: str, what: str, *, rows: int, peer: str, ran: Mapping[str, str]) -> Case:
        """As a case in rows per second. `ran`: versions of what ran."""
        ours_rates = Measured.of("bucketingest", [rows / run.seconds for run in self.ours], _cpu(self.ours))
        peer_rates = Measured.of(peer, [rows / run.seconds for run in self.peer], _cpu(self.peer))
        return Case.of(
            case=name,
            what=what,
            unit="rows/s",
            higher_is_better=True,
            rows=rows,
            ours=ours_rates,
            peer=peer_rates,
            versions=ran,
            loads=self.loads,
        )


def alternate(options: Options, ours: Callable[[int], Run], peer: Callable[[int], Run]) -> Pair:
    """Both in turns: repetition 0 of both is the warm-up and not counted."""
    pair = Pair()
    for number in range(options.repeats + 1):
        load = wait_until_quiet(options.load_max, options.wait_seconds_max)
        first, second = ours(number), peer(number)
        counted = "warm-up" if number == 0 else f"run {number}"
        options.say(
            f"  {counted}: ours {first.seconds:.2f} s ({first.cpu_seconds:.1f} s CPU), "
            f"peer {second.seconds:.2f} s ({second.cpu_seconds:.1f} s CPU), load {load:.1f}"
        )
        if number:
            pair.ours.append(first)
            pair.peer.append(second)
            pair.loads.append(round(load, 2))
    return pair


def upsert_pair(options: Options, sources: Sources, ours: tuple[Side, Target], hudi: tuple[Side, Target]) -> Pair:
    """Both sides load a new table once, upsert all of it to warm up, and then again and again."""
    ours[0].ask(**ours[1].ours(sources.load, 0))
    hudi[0].ask(**hudi[1].hudi(sources.load, 0))
    loaded = (row_count(ours[1].table), row_count(hudi[1].table))
    options.say(f"  loaded: ours {loaded[0]} rows, Hudi {loaded[1]} rows")

    def measured(side: Side, target: Target, request: Request) -> Callable[[int], Run]:
        def run(number: int) -> Run:
            if number:
                side.ask(**request(sources.wake_up, _WAKE_UPS + number))
            result = side.measure(**request(sources.measured if number else sources.warm_up, number + 1))
            check_rows(target, options.rows)
            return result

        return run

    return alternate(options, measured(*ours, ours[1].ours), measured(*hudi, hudi[1].hudi))


def check_rows(target: Target, expected: int) -> None:
    """Raises WrongResult unless the table, read by hudi-rs, holds as many rows as there are keys."""
    found = row_count(target.table)
    if found != expected:
        raise WrongResult(f"{target.table} holds {found} rows, its input has {expected} keys")


def row_count(table: Path) -> int:
    """Rows of the newest snapshot of a Hudi table, as hudi-rs merges them; it may be larger than memory."""
    snapshot = HudiTableBuilder.from_base_uri(str(table)).build()
    keys = HudiReadOptions().with_projection(["_hoodie_record_key"])
    return sum(batch.num_rows for batch in snapshot.read_stream(keys))


def make_input(dataset: Dataset, folder: Path, rows: int, seed: int) -> float:
    """An input folder of the dataset, unless an earlier case made it; returns the bytes of a row in Arrow's form."""
    size = folder / "bytes-per-row"
    if not size.exists():
        shutil.rmtree(folder, ignore_errors=True)
        size_of_row = write_input(dataset, folder / "rows", rows=rows, seed=seed)
        size.write_text(str(size_of_row))
    return float(size.read_text())


def _cpu(runs: list[Run]) -> list[float]:
    return [round(run.cpu_seconds, 2) for run in runs]
