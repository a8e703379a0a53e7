"""What is left of a compaction whose objects are being deleted keeps nothing else from its work."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.clean_and_archive import Guarded, clean_options
from bucketingest.services.compaction.holder import KEPT, KEPT_FOR
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import End
from bucketingest.storage import Storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.services.compactions import Written, compact, holder, written
from support.tables.table_runs import offsets
from support.tables.write_plans import row

LATER = KEPT_FOR + timedelta(hours=1)


@pytest.fixture
def old() -> Written:
    """A table with one compaction more than are kept."""
    given = written(base_files=False)
    for number in range(KEPT + 1):
        given.table.attempt().run(offsets(9 + number, 10 + number), [row("k0", at=50 + number)])
        assert compact(given.storage) == [End.COMPLETED]
    return given


def sweep(storage: Storage) -> None:
    holder(storage, lambda: utc_now() + LATER).sweep_old()


def numbers(storage: Storage) -> list[int]:
    return CompactionJournal(storage).numbers()


def test_old_compactions_are_forgotten(old: Written) -> None:
    assert numbers(old.storage) == [1, 2, 3, 4]
    sweep(old.storage)
    assert numbers(old.storage) == [2, 3, 4]


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("dies_at", range(6))
def test_a_crash_meanwhile_keeps_no_clean_from_its_work(old: Written, dies_at: int, *, after_effect: bool) -> None:
    storage = old.storage
    with pytest.raises(Crash):
        CompactionJournal(CrashingStorage(storage, dies_at, after_effect=after_effect)).forget(1)
    clean_options(Guarded(storage, nullcontext, lambda: None, utc_now))
    sweep(storage)
    assert numbers(storage) == [2, 3, 4]
    clean_options(Guarded(storage, nullcontext, lambda: None, utc_now))
