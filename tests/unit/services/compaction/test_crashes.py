"""A compaction and a crash at any of its changes: the next process ends it, and no row is lost or doubled."""

from __future__ import annotations

from contextlib import suppress

import pytest

from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.services.protocol.records import End
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.services.compactions import (
    Written,
    compact,
    written,
)
from support.tables.services.snapshot import snapshot


def test_a_compaction_leaves_base_files_only_and_the_same_rows(given: Written) -> None:
    assert compact(given.storage) == [End.COMPLETED]
    given.unchanged()
    slices = [group.latest for group in load_file_view(given.storage, given.table.timeline()).groups]
    assert all(each is not None and each.base_file is not None and not each.log_files for each in slices)
    assert compact(given.storage) == [], "nothing is due"
    given.goes_on()


@pytest.mark.parametrize("base_files", [False, True], ids=["logs only", "base files"])
def test_a_crash_at_any_change_is_finished_by_the_next_process(base_files: bool) -> None:
    dies_at, died = 0, True
    while died:
        its = written(base_files=base_files)
        crashing = CrashingStorage(its.storage, dies_at)
        with suppress(Crash):
            compact(crashing)
        died = crashing.dead
        assert snapshot(its.storage) == its.rows, dies_at
        ends = compact(its.storage)
        assert len(ends) <= 2
        its.unchanged()
        if dies_at % 4 == 0:
            its.goes_on()
        dies_at += 1
    assert dies_at > 20
