"""What a job reports as holding its clean and archive: not what each table has, and not what passes by itself."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import create_inflight, create_requested
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.archive.choose import Pin as ArchivePin
from bucketingest.services.clean.choose import Choice, Kept, Limit, Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.worker import pins
from bucketingest.spec.job_report import Pin
from support.tables.other_writers import next_time
from support.tables.services.compactions import compact
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
DAY = Retention(retain=timedelta(days=1))
NOTHING = Choice(None, Limit(None, ""), ())
ORPHAN = ArchivePin("", "left a file", ("eu", "a file group"), waits=True)


def ago(hours: float) -> str:
    return format_time(NOW - timedelta(hours=hours))


def found(*archived: ArchivePin, clean: Choice = NOTHING, retention: Retention = DAY) -> list[tuple[str, float]]:
    return [(each.service, each.seconds / 3600) for each in pins(clean, archived, retention, NOW)]


@pytest.mark.parametrize(
    ("pin", "retention", "hours"),
    [
        (ArchivePin(ago(9), "its deltacommit is pending"), DAY, [9]),
        (ArchivePin(ago(99), "it is the last compaction", is_usual=True), DAY, []),
        (replace(ORPHAN, instant=ago(47)), DAY, []),
        (replace(ORPHAN, instant=ago(50)), DAY, [2]),
        (replace(ORPHAN, instant=ago(25), group=None), Retention(versions=3), [1]),
        (replace(ORPHAN, instant=ago(999)), Retention(versions=3), []),
    ],
    ids=["pending", "usual", "passes by itself", "does not pass", "by versions", "a file that versions keep"],
)
def test_what_holds_the_archive(pin: ArchivePin, retention: Retention, hours: list[float]) -> None:
    assert found(pin, retention=retention) == [("archive", each) for each in hours]


def test_what_holds_a_clean_is_named_once_for_each_reason_the_oldest_first() -> None:
    kept = tuple(Kept("eu", f"group {hours}", "", "savepoint 1 keeps it", ago(hours)) for hours in (26, 30, 28))
    held = pins(Choice(None, Limit(None, "commit 7 is pending", ago(5)), kept), (), DAY, NOW)
    assert [each.seconds / 3600 for each in held] == [6, 5]
    assert held[0].by == "file group group 30 of partition 'eu': savepoint 1 keeps it"
    assert held[1].by == "commit 7 is pending"


def test_a_dead_writers_instant_is_named_and_a_table_at_work_has_nothing_to_report() -> None:
    table = TestTable()
    attempt = table.attempt()

    def tidied(later: timedelta) -> tuple[Pin, ...]:
        guarded = Guarded(table.storage, nullcontext, lambda: None, lambda: utc_now() + later)
        cleaned = clean(guarded, DAY)
        archived = archive_old(guarded, ArchiveRules(keep_min=1, min_age=timedelta()))
        return pins(cleaned.choice, archived[-1].pins, DAY, utc_now() + later)

    for number in range(6):
        attempt.run(offsets(number, number + 1), [row("k0", at=number)])
        compact(table.storage)
    assert tidied(timedelta(hours=7)) == ()
    dead = next_time(table)
    create_requested(table.storage, dead)
    create_inflight(table.storage, dead)
    attempt.run(offsets(6, 8), [row("k0", at=9)])
    attempt.run(offsets(8, 9), [row("k0", at=10)])
    (pin,) = tidied(timedelta(hours=7))
    assert (pin.service, dead in pin.by, round(pin.seconds / 3600)) == ("archive", True, 7)
    held = tidied(timedelta(hours=30))
    assert {each.service for each in held} == {"clean", "archive"}
    assert all(dead in each.by and round(each.seconds / 3600) == 30 for each in held)
