"""Our clean and our archive of a table against Hudi's procedures, each on copies of the same table."""

from __future__ import annotations

import itertools
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa

from bench.cases.comparison import Options, WrongResult, alternate
from bench.results_format import Case
from bench.sides.client import Run, Side
from bench.sides.start import start_hudi, versions
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Storage, open_storage
from support.tables.services.aged_table import AgedTable

_COMMITS: Final = 240
_COMPACT_AT: Final = 20
"""Log files of a file group: so often it is compacted."""
_KEPT: Final = 20
"""Commits that both leave on the timeline."""
_CONF: Final = {"hoodie.metadata.enable": "false", "hoodie.embed.timeline.server": "false"}


@dataclass(slots=True)
class _Copies:
    """What both sides make of copies of one table."""

    folder: Path
    hudi: Side
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def made(self) -> Path:
        """The table that is copied."""
        return self.folder / "made"

    def copy(self) -> Path:
        """A fresh copy."""
        return Path(shutil.copytree(self.made, self.folder / f"copy-{next(self.numbers)}"))

    def by_us(self, count: Callable[[Storage], int], act: Callable[[Guarded], object]) -> Run:
        """Ours, in this process."""
        storage = open_storage(str(path := self.copy()))
        before, started, cpu = count(storage), time.perf_counter(), time.process_time()
        act(Guarded(storage, nullcontext, lambda: None))
        run = Run(time.perf_counter() - started, time.process_time() - cpu, {"gone": before - count(storage)})
        shutil.rmtree(path)
        return run

    def by_hudi(self, count: Callable[[Storage], int], procedure: str, arguments: str) -> Run:
        """Hudi's. It knows tables of the catalog only."""
        storage, name = open_storage(str(path := self.copy())), f"copied_{next(self.numbers)}"
        self.hudi.ask(op="procedure", call=f"CREATE TABLE {name} USING hudi LOCATION '{path}'", conf={})
        before = count(storage)
        run = self.hudi.measure(op="procedure", call=f"call {procedure}(table => '{name}', {arguments})", conf=_CONF)
        self.hudi.ask(op="procedure", call=f"DROP TABLE {name}", conf={})
        run = Run(run.seconds, run.cpu_seconds, {"gone": before - count(storage)})
        shutil.rmtree(path)
        return run


def services_tidy_cases(name: str, options: Options, *, peer: str) -> Iterator[Case]:
    """Clean, then archive of what ours has cleaned."""
    folder = options.scratch / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with start_hudi(folder) as hudi, _quiet():
        copies = _Copies(folder, hudi)
        _make(copies.made)
        retention = Retention(versions=1)
        yield _case(
            f"{name}-clean",
            f"Clean: every file slice but the newest of each file group. {_MADE}",
            options,
            (
                lambda: copies.by_us(_data_files, lambda table: clean(table, retention)),
                lambda: copies.by_hudi(
                    _data_files,
                    "run_clean",
                    "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1",
                ),
            ),
            peer=peer,
            unit="files/s",
            hudi=hudi,
        )
        clean(Guarded(open_storage(str(copies.made)), nullcontext, lambda: None), retention)
        rules = ArchiveRules(keep_min=_KEPT, min_age=timedelta(0))
        yield _case(
            f"{name}-archive",
            f"Archive: all commits but the newest {_KEPT}, of a table that ours has cleaned. {_MADE}",
            options,
            (
                lambda: copies.by_us(_instants, lambda table: archive_old(table, rules)),
                lambda: copies.by_hudi(
                    _instants,
                    "archive_commits",
                    f"min_commits => {_KEPT}, max_commits => {_KEPT + 1}, retain_commits => {_KEPT // 2}, "
                    "enable_metadata => false",
                ),
            ),
            peer=peer,
            unit="instants/s",
            hudi=hudi,
        )
    shutil.rmtree(folder)


_MADE: Final = (
    f"A table of {_COMMITS} commits into 4 file groups, compacted after every {_COMPACT_AT}, on the local file system; "
    "each side works on fresh copies of it. Measured: ours in a process without Spark, Hudi's its "
    "procedure, its session up and warm. The rate is of what was gone from the table afterwards."
)


def _make(path: Path) -> None:
    aged = AgedTable(
        open_storage(str(path)),
        datetime.now(UTC) - timedelta(days=1),
        tidy_every=timedelta(days=1000),
        triggers=CompactionTriggers(log_files=_COMPACT_AT),
    )
    aged.run(_COMMITS)
    aged.table.attempt(clock=lambda: aged.now)  # its start checks the last compaction


def _data_files(storage: Storage) -> int:
    return sum(1 for _ in list_data(storage))


def _instants(storage: Storage) -> int:
    return len(Timeline.load(storage).instants)


@contextmanager
def _quiet() -> Iterator[None]:
    """No log lines between the figures."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _case(
    name: str,
    what: str,
    options: Options,
    sides: tuple[Callable[[], Run], Callable[[], Run]],
    *,
    peer: str,
    unit: str,
    hudi: Side,
) -> Case:
    pair = alternate(options, lambda _: sides[0](), lambda _: sides[1]())
    gone = [sorted({run.answer["gone"] for run in side}) for side in (pair.ours, pair.peer)]
    if len(gone[0]) != 1 or len(gone[1]) != 1 or min(gone[0] + gone[1]) < 1:
        raise WrongResult(f"{name}: ours took {gone[0]} away, Hudi's {gone[1]}")
    # Hudi may leave some more or less: each side's rate is of its own count.
    share = gone[0][0] / gone[1][0]
    pair.peer[:] = [Run(run.seconds * share, run.cpu_seconds, run.answer) for run in pair.peer]
    ran = versions({"pyarrow": pa.__version__}, hudi.ask(op="versions"))
    case = pair.case(name, what, rows=gone[0][0], peer=peer, ran=ran)
    return case.model_copy(update={"unit": unit, "notes": (f"taken away: ours {gone[0][0]}, Hudi's {gone[1][0]}",)})
