"""A log file of an aborted instant that comes a day late, from a task that was paused before its request: a row that
was deleted meanwhile stays deleted, and its file group is compacted again. Hudi and hudi-rs judge.
"""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

from bucketingest.cli.main import call
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.journal import Journal
from support.oracle import hudi_rs
from support.oracle.client import HudiOracle
from support.tables.local_writer import PIPELINE, LocalWriter
from support.tables.services.compactions import compact

pytestmark = pytest.mark.hudi

SCHEMA: Final = pa.schema([("id", pa.string()), ("at", pa.int64()), ("gone", pa.bool_())])
DEFINITION: Final = TableDefinition("late", ("id",), (), "at", buckets=1)
LATER: Final = KEPT_FOR + timedelta(hours=1)


def row(key: str, at: int, *, gone: bool = False) -> pa.Table:
    return pa.table({"id": [key], "at": [at], "gone": [gone]}, schema=SCHEMA)


def log_files(storage: Storage, instant: str) -> dict[str, bytes]:
    names = {info.path: LogFileName.try_parse(info.path.rpartition("/")[2]) for info in storage.list("")}
    return {path: storage.get(path) for path, name in names.items() if name is not None and name.instant == instant}


@pytest.mark.parametrize("archived", [False, True], ids=["before the archive has passed its time", "after"])
def test_a_deleted_row_stays_deleted_and_its_file_group_is_compacted(
    hudi: HudiOracle, tmp_path: Path, archived: bool
) -> None:
    path = tmp_path / "table"
    storage = open_storage(str(path))

    def tidy(after: timedelta = timedelta()) -> None:
        guarded = Guarded(storage, nullcontext, lambda: None, lambda: utc_now() + after)
        clean(guarded, Retention(retain=timedelta()))
        archive_old(guarded, ArchiveRules(keep_min=1, min_age=timedelta()))

    def seen() -> list[tuple[str, int]]:
        by_hudi, by_rs = (
            sorted(zip(rows["id"].to_pylist(), rows["at"].to_pylist(), strict=True))
            for rows in (hudi.snapshot(path), hudi_rs.snapshot(path))
        )
        assert by_hudi == by_rs
        return by_hudi

    LocalWriter(path, DEFINITION, SCHEMA, "gone").commit(row("k0", 1))
    paused = LocalWriter(path, DEFINITION, SCHEMA, "gone", commit_interval=timedelta(hours=1)).commit(row("k0", 20))
    instant, journal = paused.instant_time or "", Journal(storage, PIPELINE)
    late = log_files(storage, instant)
    assert late

    assert call(["rollback", str(path), "--force"]) == 0
    writer = LocalWriter(path, DEFINITION, SCHEMA, "gone")
    writer.commit(row("k1", 2))
    assert journal.is_aborted(instant)
    assert log_files(storage, instant) == {}
    writer.commit(row("k0", 10, gone=True))
    assert compact(storage) == [End.COMPLETED]
    for at in (11, 12, 13):
        writer.commit(row("k1", at))
    assert compact(storage) == [End.COMPLETED]
    writer.commit(row("k1", 14))
    if archived:
        journal.forget([instant])
    tidy(LATER if archived else timedelta())
    assert Timeline.load(storage).is_archived(instant) is archived

    for file, content in late.items():
        storage.create(file, content)
    if not archived:
        assert seen() == [("k1", 14)], "nobody takes it for committed"
        journal.forget([instant])
    tidy(LATER)
    assert log_files(storage, instant) == {}
    assert seen() == [("k1", 14)]
    writer.commit(row("k2", 15))
    assert compact(storage) == [End.COMPLETED]
    assert seen() == [("k1", 14), ("k2", 15)]
