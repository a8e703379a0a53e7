"""Five commits a second, all day: what a commit lists and asks for, and how many objects there are, does not grow if
table services run as the job's do.

A clock that the test moves; times after which objects go are shortened with it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.protocol.holder import Guarded
from bucketingest.write.instants import journal
from support.storage.counted_memory import CountedMemory
from support.tables.services.compactions import compact
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

INTERVAL = timedelta(seconds=0.2)
KEPT_FOR = timedelta(seconds=10)
"""Of the journal: 50 commits. For real 15 minutes, which are 4,500."""
BETWEEN_SERVICES = 50
"""Commits. For real 500."""
ROUNDS = 8
FOR_HOURS = ("/services/", "/audited/", "/history/")
"""What is left of each compaction, clean and archival, of which there is one a minute."""


def test_a_commit_costs_the_same_at_the_end_of_a_long_run_as_at_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "KEPT_FOR", KEPT_FOR)
    now = datetime.now(UTC)

    def clock() -> datetime:
        return now

    table = TestTable()
    storage = table.storage = CountedMemory(clock)
    attempt = table.attempt(clock=clock)
    guarded = Guarded(table.storage, clock=clock)
    costs = []
    at = 0
    for _ in range(ROUNDS):
        storage.counts.clear()
        for _commit in range(BETWEEN_SERVICES):
            now += INTERVAL
            attempt.run(offsets(at, at + 1), [row(f"k{at % 5}", at=at)])
            at += 1
        counts = dict(storage.counts)
        compact(table.storage, clock)
        clean(guarded, Retention(versions=1))
        archive_old(guarded, ArchiveRules(min_age=timedelta(seconds=2)))
        objects = sum(not any(map(each.path.__contains__, FOR_HOURS)) for each in table.storage.list())
        costs.append((counts["requests"], counts["names"], objects))
    for later, earlier in zip(costs[-1], costs[ROUNDS // 2 - 1], strict=True):
        assert later <= earlier * 1.05, costs
    assert len(table.timeline().instants) < 3 * BETWEEN_SERVICES
