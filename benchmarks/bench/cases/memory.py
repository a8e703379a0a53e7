"""Resident memory of our Python workers during one micro-batch that is far larger than the budget."""

from __future__ import annotations

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.cases.comparison import Options, check_rows
from bench.data import ORDERS, write_input
from bench.results_format import Case, Measured
from bench.sides.client import Side
from bench.sides.process_tree import peak_rss_bytes, process_tree, pss_bytes
from bench.sides.start import Source, Target, start_ours, versions

BUDGET_BYTES: Final = 256 * 1024**2
"""The default of spec.table.memoryPerTask."""
_FACTOR: Final = 10
"""The micro-batch has this many times the rows of the other cases."""
_MIB: Final = 1024**2
_INTERVAL_SECONDS: Final = 0.1
_DAEMON: Final = "bucketingest.stream.spark.worker_daemon"


@dataclass(slots=True)
class WorkerMemory:
    """Samples the Python workers below a process from a separate thread, while the context lasts."""

    root: int
    peak_rss: dict[int, int] = field(default_factory=dict)
    """Worker's pid to the kernel's own high-water mark, pages shared with its parent included."""
    peak_pss: dict[int, int] = field(default_factory=dict)
    """Worker's pid to the highest sample of its proportional share."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None, "started on entry"
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._ended.wait(_INTERVAL_SECONDS):
            for pid in python_workers(self.root):
                self.peak_rss[pid] = max(self.peak_rss.get(pid, 0), peak_rss_bytes(pid))
                self.peak_pss[pid] = max(self.peak_pss.get(pid, 0), pss_bytes(pid))


def python_workers(root: int) -> list[int]:
    """The Python workers below a Spark driver: children of the worker daemon, which is a child of the JVM."""
    tree = process_tree(root)
    daemons = {process.pid for process in tree if _DAEMON in process.command}
    return [process.pid for process in tree if process.parent in daemons]


def memory_case(name: str, options: Options) -> Case:
    """One micro-batch of ten times the usual rows, each key ten times, at the default budget; the first run counts."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    rows = options.rows * _FACTOR
    write_input(ORDERS, folder / "rows", rows=rows, seed=2, keys=options.rows)
    idle_input = folder / "idle"
    write_input(ORDERS, idle_input, rows=1000, seed=3)
    target = Target(folder / "ours", ORDERS)
    target.folder.mkdir()
    with start_ours(target.folder) as ours:
        idle = _idle_bytes(ours, Target(folder, ORDERS), idle_input)
        with WorkerMemory(ours.pid) as memory:
            seconds = ours.ask(**target.ours(Source("files", path=str(folder / "rows")), 1))["seconds"]
        check_rows(target, options.rows)
        ran = versions(ours.ask(op="versions"), {})
    shutil.rmtree(folder)
    return _case(name, rows=rows, idle=idle, memory=memory, seconds=seconds, ran=ran)


def _idle_bytes(ours: Side, target: Target, source: Path) -> int:
    """Memory of a worker's interpreter and libraries after it wrote a few rows: no budget can lower it."""
    ours.ask(**target.ours(Source("files", path=str(source)), 0))
    workers = python_workers(ours.pid)
    return max(peak_rss_bytes(pid) for pid in workers)


def _case(name: str, *, rows: int, idle: int, memory: WorkerMemory, seconds: float, ran: dict[str, str]) -> Case:
    above_idle = [max(0, peak - idle) / _MIB for peak in memory.peak_rss.values()]
    ours = Measured.of("highest worker, above idle", [max(above_idle)])
    budget = Measured.of("memoryPerTask", [BUDGET_BYTES / _MIB])
    listed = ", ".join(f"{peak / _MIB:.0f}" for peak in sorted(memory.peak_rss.values(), reverse=True))
    shares = ", ".join(f"{peak / _MIB:.0f}" for peak in sorted(memory.peak_pss.values(), reverse=True))
    return Case.of(
        case=name,
        what=(
            f"{rows:,} rows of 11 columns go through ours in one micro-batch with table.memoryPerTask at its default. "
            "The figure is the highest resident memory (VmHWM) of any Python worker, less what a worker's interpreter "
            "and libraries take after writing 1,000 rows; the peer is the budget."
        ),
        unit="MiB",
        rows=rows,
        ours=ours,
        peer=budget,
        notes=(
            f"idle worker (interpreter, pyarrow, the job's modules): {idle / _MIB:.0f} MiB",
            f"VmHWM of all workers: {listed} MiB",
            f"highest sampled PSS of all workers: {shares} MiB",
            f"the micro-batch took {seconds:.1f} s, {rows / seconds:,.0f} rows/s",
        ),
        versions=ran,
    )
