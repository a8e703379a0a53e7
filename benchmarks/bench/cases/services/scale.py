"""How long table services hold up the query's thread when a compaction of very many file groups is requested and ends.

The merges are simulated: their results and empty base files are put there. All else is real: the process beside the
job, the plan, its request, the commit.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult
from bench.cases.simulated_table import SimulatedTable, empty_files
from bench.results_format import Case, Measured
from bench.sides.client import wait_until_quiet
from bucketingest.hudi.naming import BaseFileName
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.services.inline import InlineServices
from bucketingest.services.protocol.records import Result
from bucketingest.services.schedule import LOOK_EVERY
from bucketingest.services.state import ServicesState
from bucketingest.services.worker import Execute, Request
from bucketingest.services.worker_process import WorkerProcess
from bucketingest.storage import Storage, open_storage
from devservers.s3 import S3Server

FILE_GROUPS: Final = 10_000
BAR_MS: Final = 1_000.0
_LOGS: Final = 4
"""Log files of each file group."""
_POLL_SECONDS: Final = 0.005
_STEPS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Shape:
    """What table is compacted, and where it is."""

    partitions: int
    on_s3: bool

    @property
    def name(self) -> str:
        """As in the names of cases."""
        return f"{'s3' if self.on_s3 else 'files'}-{self.partitions}-partitions"


SHAPES: Final = tuple(Shape(partitions, on_s3) for on_s3 in (False, True) for partitions in (100, 1_000))


@dataclass(slots=True)
class Compacting:
    """The services of a job on a table all of whose file groups are due."""

    storage: Storage
    folder: Path
    now: float = 0.0
    steps: list[tuple[str, float, float]] = field(default_factory=list)
    """What the process beside the job had done, then seconds and CPU seconds of the query's thread."""
    worker_seconds: dict[str, float] = field(default_factory=dict)
    _asked: str = "start"
    _asked_at: float = 0.0
    _compactions: int = 0
    _simulated: float = 0.0
    _simulated_cpu: float = 0.0
    """Seconds and CPU seconds of a step that the made-up merges took."""

    def run(self) -> None:
        """Until the compaction has ended."""
        holder = CompactionHolder(self.storage, nullcontext, lambda: None)
        triggers = CompactionTriggers(log_files=_LOGS)
        services = InlineServices(
            self.storage, holder, triggers, forward=lambda: self.now, start=self._start, report=self._note
        )
        self.now += LOOK_EVERY / timedelta(seconds=1) + 1
        try:
            for _ in range(_STEPS_MAX):
                while not services.is_due():
                    time.sleep(_POLL_SECONDS)
                done = self._asked
                if self._asked_at:
                    self.worker_seconds[done] = time.perf_counter() - self._asked_at
                self._simulated = self._simulated_cpu = 0.0
                started, cpu_started = time.perf_counter(), time.thread_time()
                services.step()
                seconds = time.perf_counter() - started - self._simulated
                self.steps.append((done, seconds, time.thread_time() - cpu_started - self._simulated_cpu))
                if self._compactions:
                    return
        finally:
            services.stop()
        raise WrongResult(f"{self.storage.url}: no compaction in {_STEPS_MAX} steps")

    def _note(self, state: ServicesState) -> None:
        self._compactions = state.compactions

    def _start(self, request: Request) -> WorkerProcess:
        started, cpu_started = time.perf_counter(), time.thread_time()
        self._asked = type(request).__name__.lower()
        if isinstance(request, Execute):
            self._merge(request)
            self._asked = str(request.work.task)
        self._asked_at = time.perf_counter()
        self._simulated = self._asked_at - started
        self._simulated_cpu = time.thread_time() - cpu_started
        return WorkerProcess(request)

    def _merge(self, request: Execute) -> None:
        """What executors leave behind."""
        work, journal = request.work, CompactionJournal(self.storage)
        if journal.result_chunks(work.number, work.round_number):
            return
        record = journal.plan(work.number)
        if record is None or work.round_number != 1:
            raise WrongResult(f"{self.storage.url}: round {work.round_number} of compaction {work.number}")
        stats = []
        for operation in record.plan("here").operations:
            name = BaseFileName(operation.file_id, work.compaction, "1-0-0")
            stats.append(WriteStat.of_base_file(operation.partition_path, name, size=0, inserts=1))
        empty_files(self.folder / str(stat.path) for stat in stats)
        for chunk, places in enumerate(record.chunks()):
            results = [Result(stats[place]) for place in places]
            journal.put_results(work.number, results, round_number=work.round_number, chunk=chunk)


def services_scale_cases(name: str, options: Options) -> Iterator[Case]:
    """One case for each shape."""
    for shape in SHAPES:
        yield _measure(name, shape, options)


def _measure(name: str, shape: Shape, options: Options) -> Case:
    longest: list[float] = []
    loads: list[float] = []
    notes: list[str] = []
    for repetition in range(options.repeats):
        folder = options.scratch / name
        shutil.rmtree(folder, ignore_errors=True)
        with _opened(folder, shape) as at:
            buckets = FILE_GROUPS // shape.partitions
            table = SimulatedTable(at.folder, FILE_GROUPS, buckets_max=buckets, storage=at.storage)
            for _ in range(_LOGS):
                table.commit()
                table.touch_files()
            loads.append(round(wait_until_quiet(options.load_max, options.wait_seconds_max), 2))
            compacting = Compacting(at.storage, at.folder)
            compacting.run()
        shutil.rmtree(folder)
        longest.append(max(seconds for _, seconds, _ in compacting.steps) * 1000)
        steps = ", ".join(
            f"after {what} {seconds * 1000:,.0f} ms ({cpu * 1000:,.0f} ms CPU)"
            for what, seconds, cpu in compacting.steps
        )
        beside = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in compacting.worker_seconds.items())
        notes.append(f"steps of the query's thread: {steps}; beside the job: {beside}")
        options.say(f"  {shape.name}, run {repetition + 1}: {notes[-1]}")
    ours, aim = Measured.of("longest step", longest), Measured.of("aim", [BAR_MS] * len(longest))
    where = "an S3 server on this machine" if shape.on_s3 else "the local file system"
    return Case.of(
        case=f"{name}-{shape.name}",
        what=(
            f"A job's table services compact a table of {FILE_GROUPS:,} file groups in {shape.partitions:,} partitions "
            f"on {where}, with {_LOGS} log files each. The data files are empty and the merges' results are made up; "
            "the rest is real: the process beside the job, what it hands over, plan, request, commit, end. Measured: "
            "the longest step that the query's thread takes, in which no micro-batch can start. The peer is the aim."
        ),
        unit="ms",
        rows=FILE_GROUPS,
        ours=ours,
        peer=aim,
        loads=loads,
        notes=notes,
        versions={"pyarrow (ours)": pa.__version__},
    )


@dataclass(frozen=True, slots=True)
class _Opened:
    """Where a table is."""

    storage: Storage
    folder: Path
    """Of its files."""


@contextmanager
def _opened(folder: Path, shape: Shape) -> Iterator[_Opened]:
    if not shape.on_s3:
        yield _Opened(open_storage(str(folder / "table")), folder / "table")
        return
    with S3Server(folder / "s3") as server:
        url = server.create_bucket("tables")
        files = folder / "s3" / "buckets" / "tables" / "table"
        yield _Opened(open_storage(f"{url}/table", server.options()), files)
