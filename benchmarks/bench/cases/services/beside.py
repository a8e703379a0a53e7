"""Ingestion while a compaction is merged beside it, against ingestion alone."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.cases.comparison import Options, Sources, WrongResult, alternate, check_rows
from bench.cases.inputs import make_inputs
from bench.cases.services.compaction_memory import Logs, write_base, write_logs
from bench.cases.services.compaction_table import ORDERING, Shape
from bench.data import ORDERS
from bench.results_format import Case
from bench.sides.client import Run, Side
from bench.sides.start import Target, start_compaction, start_ours, versions
from bucketingest.services.worker import PRIORITY

_BASE: Final = "base.parquet"
_LOGS: Final = Logs("beside", "parquet", share=40, distinct=False)
_SLICE: Final = "slice"
_MEMORY: Final = Path("/dev/shm")
_ALONE: Final = "without a compaction"


@dataclass(frozen=True, slots=True)
class Home:
    """Where the compaction is merged."""

    name: str
    target: float
    """The least share of the rate that ingestion must keep."""
    apart: bool
    """Whether ingestion and merge each have a core of their own, as with the pods of a Job on another node."""

    @property
    def what(self) -> str:
        """In words."""
        if self.apart:
            return (
                "Ingestion (Spark local[1]) and the merge each have a core of their own, and the merge's files are in "
                "memory, so they share no disk, as with a Job's pods on another node"
            )
        return f"Both share two cores (Spark local[2]); the merge has the niceness of mode inline, {PRIORITY}"


HOMES: Final = (Home("inline", 0.85, apart=False), Home("job", 0.95, apart=True))


def services_beside_cases(name: str, options: Options) -> Iterator[Case]:
    """One case for each home. Raises WrongResult on a machine with one core."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise WrongResult("this benchmark needs two cores")
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    sliced = folder / _SLICE
    sliced.mkdir(parents=True)
    shape = Shape("parquet", wide=True, base_rows=max(options.rows // 2, 1), log_rows=0)
    write_base(shape, sliced / _BASE)
    logs = write_logs(shape, _LOGS, sliced, max(options.rows // _LOGS.share, 1))
    merge = {"op": "merge", "base_file": _BASE, "log_files": logs, "ordering": ORDERING}
    sources, _ = make_inputs(ORDERS, options)
    for home in HOMES:
        options.say(f"  {home.name}")
        (folder / home.name).mkdir()
        with tempfile.TemporaryDirectory(dir=_MEMORY if home.apart else folder) as merging:
            path = shutil.copytree(sliced, Path(merging) / _SLICE)
            place = _Place(folder / home.name, merge | {"path": str(path)}, cores)
            yield _case(f"{name}-{home.name}", home, options, sources, place)
    shutil.rmtree(folder)


@dataclass(frozen=True, slots=True)
class _Place:
    folder: Path
    """For the table."""
    merge: dict[str, Any]
    """The request that merges the slice."""
    cores: list[int]


def _case(name: str, home: Home, options: Options, sources: Sources, place: _Place) -> Case:
    folder, cores = place.folder, place.cores
    target = Target(folder, ORDERS)
    numbers = iter(range(1, 10_000))
    with (
        start_ours(folder, core=cores[0] if home.apart else None) as ours,
        start_compaction(cores[-1]) if home.apart else start_compaction(None, niceness=PRIORITY) as merging,
    ):
        ours.ask(**target.ours(sources.load, 0))

        def alone(_: int) -> Run:
            run = ours.measure(**target.ours(sources.measured, next(numbers)))
            check_rows(target, options.rows)
            return run

        def beside(number: int) -> Run:
            with _busy(merging, place.merge):
                return alone(number)

        pair = alternate(options, beside, alone)
        ran = versions(ours.ask(op="versions"), {"pyarrow": pa.__version__})
    shutil.rmtree(folder)
    what = (
        f"Upsert of {options.rows:,} rows ({ORDERS.name}, Parquet files, Parquet log blocks) while another process "
        f"merges one file slice after the other. {home.what}. The peer is the same upsert alone. Target: at least "
        f"{home.target:.2f} of its rate."
    )
    return pair.case(name, what, rows=options.rows, peer=_ALONE, ran=ran)


@contextmanager
def _busy(side: Side, merge: dict[str, Any]) -> Iterator[None]:
    """The side merges, again and again, as long as the context lasts."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            side.ask(**merge)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
