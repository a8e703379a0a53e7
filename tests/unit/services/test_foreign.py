"""Which services of another writer are seen on a timeline; ours, and old ones, are not taken for it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.services.clean.execute import CleanDecisions, clean_table
from bucketingest.services.foreign import RECENT, ForeignServices, foreign_services
from support.tables.other_writers import schedule_compaction
from support.tables.services.cleanable import three_slices
from support.tables.services.compactions import compact, finish, roll_back, started, written
from support.tables.services.named_slices import HOUR


def test_our_own_compaction_is_not_another_writers() -> None:
    given = written(base_files=True)
    assert foreign_services(given.storage, utc_now()) == ForeignServices()
    work = started(given.storage)
    assert foreign_services(given.storage, utc_now()) == ForeignServices()
    roll_back(given, work, finished=True)
    finish(given.storage)
    assert foreign_services(given.storage, utc_now()) == ForeignServices()


def test_a_newer_compaction_of_another_writer_is_seen_for_a_day() -> None:
    given = written(base_files=True)
    time = schedule_compaction(given.table)
    assert foreign_services(given.storage, utc_now()) == ForeignServices(compaction=time)
    assert foreign_services(given.storage, utc_now() + RECENT + timedelta(minutes=1)) == ForeignServices()


@pytest.mark.parametrize("ours", [True, False])
def test_another_writers_clean_is_seen_and_ours_is_not(ours: bool) -> None:
    table = three_slices()
    cleaned = clean_table(table.guarded(), HOUR)
    (clean,) = cleaned.results
    if not ours:  # another writer keeps no decision in the table
        CleanDecisions(table.storage).forget(int(clean.request_time))
    expected = None if ours else clean.request_time
    assert foreign_services(table.storage, table.clock()).clean == expected


def test_without_any_service_nothing_is_seen() -> None:
    given = written(base_files=False)
    assert foreign_services(given.storage, utc_now()) == ForeignServices()
    assert compact(given.storage)
