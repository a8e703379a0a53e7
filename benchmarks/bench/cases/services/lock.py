"""How long an archival holds the table's lock at a time: nobody can commit meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult
from bench.results_format import Case, Measured
from bench.sides.client import wait_until_quiet
from bucketingest.hudi.history.archived import archived_instants
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage, open_storage
from devservers.s3 import S3Server
from support.storage.far_storage import FarStorage
from support.tables.services.aged_table import AgedTable

BAR_MS: Final = 1_000.0
_COMMITS: Final = 600
_COMPACT_AT: Final = 20
"""Log files of a file group: so often it is compacted."""
_KEPT: Final = 20
_AWAY: Final = timedelta(milliseconds=20)


@dataclass(slots=True)
class _Lock:
    """Notes how long it is held."""

    seconds: list[float] = field(default_factory=list)

    @contextmanager
    def held(self) -> Iterator[None]:
        """As long as the context lasts."""
        started = time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - started)


WHERE: Final = {
    "files": "the local file system",
    "s3": "an S3 server on this machine",
    "s3-away": f"an S3 server whose answers take {_AWAY // timedelta(milliseconds=1)} ms longer",
}


def services_lock_cases(name: str, options: Options) -> Iterator[Case]:
    """One case for each kind of storage."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    made = folder / "made"
    made.mkdir(parents=True)
    _make(made)
    for where in WHERE:
        yield _measure(f"{name}-{where}", where, made, options)
    shutil.rmtree(folder)


def _make(path: Path) -> None:
    """Nothing keeps its instants on the timeline but the newest ones."""
    never = timedelta(days=1000)
    aged = AgedTable(
        open_storage(str(path)),
        datetime.now(UTC) - timedelta(days=1),
        tidy_every=never,
        triggers=CompactionTriggers(log_files=_COMPACT_AT),
    )
    aged.run(_COMMITS)
    aged.table.attempt(clock=lambda: aged.now)  # its start checks the last compaction
    clean(Guarded(open_storage(str(path))), Retention(versions=1))


@contextmanager
def _copied(made: Path, where: str) -> Iterator[Storage]:
    """A fresh copy of the table, there."""
    folder = made.with_name("copy")
    if where == "files":
        yield open_storage(str(shutil.copytree(made, folder)))
    else:
        with S3Server(folder) as server:
            storage = open_storage(f"{server.create_bucket('tables')}/table", server.options())
            source = open_storage(str(made))
            for info in source.list():
                storage.put(info.path, source.get(info.path))
            yield FarStorage(storage, _AWAY) if where == "s3-away" else storage
    shutil.rmtree(folder)


def _measure(name: str, where: str, made: Path, options: Options) -> Case:
    longest: list[float] = []
    loads: list[float] = []
    notes: list[str] = []
    rules = ArchiveRules(keep_min=_KEPT, min_age=timedelta(0))
    archived = 0
    for repetition in range(options.repeats):
        with _copied(made, where) as storage:
            loads.append(round(wait_until_quiet(options.load_max, options.wait_seconds_max), 2))
            lock, started = _Lock(), time.perf_counter()
            archive_old(Guarded(storage, lock.held, lambda: None), rules)
            seconds = time.perf_counter() - started
            archived = len(archived_instants(storage))
        if archived < _COMMITS // 2:
            raise WrongResult(f"{name}: only {archived} instants are archived")
        longest.append(max(lock.seconds) * 1000)
        notes.append(
            f"{archived} instants in {seconds:.1f} s; the lock was taken {len(lock.seconds)} times, "
            f"{sum(lock.seconds):.1f} s in all, at most {longest[-1]:,.0f} ms"
        )
        options.say(f"  {where}, run {repetition + 1}: {notes[-1]}")
    ours, aim = Measured.of("longest hold", longest), Measured.of("aim", [BAR_MS] * len(longest))
    return Case.of(
        case=name,
        what=(
            f"The archive takes all instants but the newest {_KEPT} off the timeline of a table with {_COMMITS} "
            f"commits, on {WHERE[where]}, {ArchiveRules().instants_max} at a time at most. Measured: the longest time "
            "for which it holds the table's lock, in which nobody can commit. The peer is the aim."
        ),
        unit="ms",
        rows=archived,
        ours=ours,
        peer=aim,
        loads=loads,
        notes=notes,
        versions={"pyarrow (ours)": pa.__version__},
    )
