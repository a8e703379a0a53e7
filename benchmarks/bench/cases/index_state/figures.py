"""The state of an index without buckets against its targets: look-ups, start, memory, and loading from base files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bench.cases.comparison import Options, WrongResult
from bench.results_format import Case, Measured
from bench.sides.client import Side
from bench.sides.start import start_state, versions

_MIB: Final = 1024**2
_KEYS_FACTOR: Final = 25
"""Keys of the state for each row of an upsert of the other cases: 50 million."""
_LOAD_FACTOR: Final = 10
_FILES: Final = 10
_BATCHES: Final = 5
"""Look-ups in a repetition, each of half as many keys as an upsert has rows."""


@dataclass(frozen=True, slots=True)
class Target:
    """What one case has to reach."""

    unit: str
    figure: float
    higher_is_better: bool


LOOK_UPS: Final = Target("look-ups/s and core", 2_000_000, higher_is_better=True)
OPEN: Final = Target("ms", 2000, higher_is_better=False)
MEMORY: Final = Target("MiB", 200, higher_is_better=False)
LOAD: Final = Target("CPU s", 12, higher_is_better=False)


def state_cases(name: str, options: Options) -> Iterator[Case]:
    """Look-ups in one run, then loads of a partition; a process of its own for both."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    core = max(os.sched_getaffinity(0))
    with start_state(core) as ours:
        yield from _look_up_cases(name, options, ours, str(folder))
    with start_state(core) as ours:
        yield _load_case(f"{name}-load", options, ours, str(folder))
    shutil.rmtree(folder)


def _look_up_cases(name: str, options: Options, ours: Side, folder: str) -> Iterator[Case]:
    keys, batch = options.rows * _KEYS_FACTOR, max(1, options.rows // 2)
    made = ours.ask(op="make_run", folder=folder, keys=keys)
    rates, opened, memory = [], [], []
    opening_cpu: list[float] = []
    for repetition in range(options.repeats):
        cold = ours.ask(op="open_cold", folder=folder, digest=made["digest"])
        opened.append(cold["seconds"] * 1000)
        opening_cpu.append(cold["cpu_seconds"])
        answers = [
            ours.ask(op="look_up", keys=keys, rows=batch, seed=repetition * _BATCHES + number)
            for number in range(_BATCHES)
        ]
        rates.append(batch * _BATCHES / sum(answer["cpu_seconds"] for answer in answers))
        memory.append(max(answer["private_bytes"] for answer in answers) / _MIB)
    state = f"A run of {keys:,} keys ({made['size'] / _MIB:,.0f} MiB on disk, one partition, 1,000 file groups). "
    yield _case(
        f"{name}-look-up",
        f"{state}{_BATCHES} look-ups of {batch:,} texts like UUIDs each, half of them known, from Arrow strings to "
        "numbers of file groups, hashing included, on one core; each answer is checked. The first look-up follows the "
        "opening at once. Figures are by CPU seconds.",
        LOOK_UPS,
        rates,
        rows=batch,
    )
    yield _case(
        f"{name}-open",
        f"{state}It is opened, and each byte checked, while nothing of it is in the page cache; wall time.",
        OPEN,
        opened,
        rows=keys,
        cpu_seconds=opening_cpu,
    )
    yield _case(
        f"{name}-memory",
        f"{state}Memory of the process that is no page cache of a file, after look-ups of {batch:,} keys; interpreter, "
        "libraries and the keys that it asks for are included.",
        MEMORY,
        memory,
        rows=batch,
    )


def _load_case(name: str, options: Options, ours: Side, folder: str) -> Case:
    keys = options.rows * _LOAD_FACTOR // _FILES * _FILES
    names = ours.ask(op="make_base_files", folder=folder, keys=keys, files=_FILES)["names"]
    answers: list[dict[str, Any]] = []
    for _ in range(options.repeats):
        answers.append(ours.ask(op="load", folder=folder, names=names))
        if answers[-1]["rows"] != keys:
            raise WrongResult(f"{answers[-1]['rows']} of {keys} keys were loaded")
    private = max(answer["private_bytes"] for answer in answers) / _MIB
    return _case(
        name,
        f"The keys of a partition of {_FILES} base files of {keys // _FILES:,} rows are loaded into a run: read, "
        "hashed, sorted in pieces on disk, merged, checked for duplicates; CPU seconds on one core.",
        LOAD,
        [answer["cpu_seconds"] for answer in answers],
        rows=keys,
        notes=(f"memory of the process afterwards, page cache left out: {private:,.0f} MiB",),
    )


def _case(
    name: str,
    what: str,
    target: Target,
    runs: Sequence[float],
    *,
    rows: int,
    cpu_seconds: Sequence[float] = (),
    notes: tuple[str, ...] = (),
) -> Case:
    ours, peer = Measured.of("bucketingest", runs, cpu_seconds), Measured.of("target", [target.figure] * len(runs))
    return Case.of(
        case=name,
        what=what,
        unit=target.unit,
        higher_is_better=target.higher_is_better,
        rows=rows,
        ours=ours,
        peer=peer,
        notes=notes,
        versions=versions({"pyarrow": pa.__version__, "numpy": np.__version__}, {}),
    )
