"""Dead letters stay with their instants: published once, wherever they were staged, and withdrawn with the rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.rollback.plan import RollbackPlan
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, ROLLBACK
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import create_requested
from bucketingest.storage import StorageUnavailable
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.dead_letters.writer import staged_path
from bucketingest.write.errors import WriteError
from bucketingest.write.instants.journal import Journal
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.tables.other_writers import archive, commit, next_time, roll_back_completed
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row

ROWS = [row("k0"), row(None, amount=1)]


def die_before_publishing(table: TestTable) -> str:
    """An attempt that dies between the completed file and its dead letters; the instant."""
    with pytest.raises(Crash):
        table.attempt(dead_letters=CrashingStorage(table.dead_letters, 0, after_effect=False)).run(offsets(0, 2), ROWS)
    (instant,) = table.timeline().completed_commits
    assert table.published_letters() == []
    assert len(table.staged_letters()) == 1
    return instant.request_time


def test_letters_of_an_instant_that_others_archived_meanwhile_are_published(table: TestTable) -> None:
    die_before_publishing(table)
    archive(table)
    commit(table, CommitMetadata())
    table.attempt()
    assert len(table.published_letters()) == 1
    assert table.staged_letters() == []


@pytest.mark.parametrize("reject", ["elsewhere", "fail"])
def test_letters_are_published_where_they_were_staged_though_the_place_was_changed(
    table: TestTable, reject: str
) -> None:
    die_before_publishing(table)
    if reject == "fail":
        table.attempt(reject="fail")
    else:
        other = TestTable().dead_letters
        table.attempt(dead_letters=other)
        assert list(other.list("")) == []
    assert len(table.published_letters()) == 1
    assert table.staged_letters() == []


def test_letters_of_rows_that_are_ingested_again_are_not_there_twice(table: TestTable) -> None:
    table.attempt().run(offsets(0, 2), ROWS)
    (instant,) = table.timeline().completed_commits
    assert len(table.published_letters()) == 1
    roll_back_completed(table, instant.request_time)
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert table.published_letters() == [], "they come again with the rows"
    attempt.run(offsets(0, 2), ROWS)
    assert len(table.published_letters()) == 1


def test_published_letters_go_with_an_instant_whose_rollback_is_finished(table: TestTable) -> None:
    """It was complete, but not yet marked as done."""
    with pytest.raises(StorageUnavailable):
        table.attempt(FlakyStorage(table.storage, lambda path: path.endswith("/done"))).run(offsets(0, 2), ROWS)
    (instant,) = table.timeline().completed_commits
    assert len(table.published_letters()) == 1
    plan = RollbackPlan(instant.request_time, DELTA_COMMIT, ())
    create_requested(table.storage, next_time(table), ROLLBACK, plan.encode(table.storage.absolute))
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert table.published_letters() == [], "they come again with the rows"
    attempt.run(offsets(0, 2), ROWS)
    assert len(table.published_letters()) == 1


def test_letters_of_instants_after_a_hole_are_withdrawn_too_and_those_before_it_stay(table: TestTable) -> None:
    attempt = table.attempt()
    for start in range(0, 6, 2):
        attempt.run(offsets(start, start + 2), ROWS)
    middle = sorted(instant.request_time for instant in table.timeline().completed_commits)[1]
    roll_back_completed(table, middle)
    again = table.attempt()
    assert len(table.published_letters()) == 1
    again.go_on((offsets(2, 4), ROWS), (offsets(4, 6), ROWS))
    assert len(table.published_letters()) == 3


def test_letters_in_an_earlier_place_are_withdrawn_though_the_journal_has_forgotten_their_instants(
    table: TestTable,
) -> None:
    """A writer without the table's lock may roll back, or leave out of a plan, what is hours old."""
    attempt = table.attempt()
    for start in range(0, 6, 2):
        attempt.run(offsets(start, start + 2), ROWS)
    times = sorted(instant.request_time for instant in table.timeline().completed_commits)
    Journal(table.storage, PIPELINE).forget(times)
    roll_back_completed(table, times[1])
    table.attempt(dead_letters=TestTable().dead_letters)
    assert len(table.published_letters()) == 1, "the two that come again are still in the place of before"


def test_an_earlier_place_that_is_gone_keeps_no_start_back(table: TestTable, caplog: pytest.LogCaptureFixture) -> None:
    table.attempt().run(offsets(0, 2), ROWS)
    (instant,) = table.timeline().completed_commits
    roll_back_completed(table, instant.request_time)
    Journal(table.storage, PIPELINE).keep_letters_place("gone://letters")
    assert table.attempt().start.verdict is StartVerdict.REWOUND
    assert table.published_letters() == []
    assert "gone://letters" in [getattr(record, "place", None) for record in caplog.records]


def test_letters_that_a_dead_attempt_publishes_late_go_with_the_next_start(table: TestTable) -> None:
    """Its request was on the way while its instant, after a hole, was ingested again."""
    attempt = table.attempt()
    for start in range(0, 4, 2):
        attempt.run(offsets(start, start + 2), ROWS)
    first, second = sorted(instant.request_time for instant in table.timeline().completed_commits)
    (late,) = [info.path for info in table.dead_letters.list("") if info.path.startswith(second)]
    content = table.dead_letters.get(late)
    roll_back_completed(table, first)
    table.attempt().go_on((offsets(0, 2), ROWS), (offsets(2, 4), ROWS))
    assert len(table.published_letters()) == 2
    table.dead_letters.put(late, content)
    table.attempt()
    assert len(table.published_letters()) == 2
    assert not table.dead_letters.exists(late)


def test_letters_that_a_paused_attempt_publishes_late_are_withdrawn_by_it(table: TestTable) -> None:
    """Meanwhile its instant, after a hole, was ingested again."""

    class Paused(CrashingStorage):
        def _change(self, path: str, act: Callable[[], None]) -> None:
            instants = sorted(instant.request_time for instant in table.timeline().completed_commits)
            if len(instants) == 2 and path.startswith(instants[1]):
                roll_back_completed(table, instants[0])
                table.attempt().go_on((offsets(0, 2), ROWS), (offsets(2, 4), ROWS))
                assert len(table.published_letters()) == 2
            super()._change(path, act)

    paused = table.attempt(dead_letters=Paused(table.dead_letters, -1, after_effect=False))
    paused.run(offsets(0, 2), ROWS)
    with suppress(WriteError):
        paused.run(offsets(2, 4), ROWS)
    assert len(table.timeline().completed_commits) > 2
    assert len(table.published_letters()) == 2


def test_letters_that_were_not_published_when_their_instant_was_rolled_back_come_once(table: TestTable) -> None:
    instant = die_before_publishing(table)
    roll_back_completed(table, instant)
    table.attempt().run(offsets(0, 2), ROWS)
    assert len(table.published_letters()) == 1
    assert table.staged_letters() == []


def test_a_pipeline_keeps_the_staged_letters_of_a_pipeline_whose_name_starts_with_its_own(
    table: TestTable,
) -> None:
    foreign = staged_path("shop/orders", "20261121080000000", "a.parquet")
    table.dead_letters.create(foreign, b"letters")
    table.attempt(pipeline="shop")
    assert table.staged_letters() == [foreign]


def test_letters_that_a_late_task_stages_for_an_instant_that_is_done_are_discarded(table: TestTable) -> None:
    """A second attempt of a task: no ledger names its file, so nothing publishes it."""
    table.attempt().run(offsets(0, 2), ROWS)
    (instant,) = table.timeline().completed_commits
    late = staged_path(PIPELINE, instant.request_time, "late.parquet")
    table.dead_letters.create(late, b"letters")
    table.attempt()
    assert not table.dead_letters.exists(late)
    assert len(table.published_letters()) == 1


def test_those_of_an_instant_that_is_forgotten_are_discarded_when_they_are_a_day_old(table: TestTable) -> None:
    table.attempt().run(offsets(0, 2), ROWS)
    hours = {hours: format_time(utc_now() - timedelta(hours=hours)) for hours in (23, 25)}
    for instant in hours.values():
        table.dead_letters.create(staged_path(PIPELINE, instant, "late.parquet"), b"letters")
    table.attempt()
    assert table.staged_letters() == [staged_path(PIPELINE, hours[23], "late.parquet")]


def test_two_tables_whose_pipelines_have_one_name_may_have_one_place_of_dead_letters(table: TestTable) -> None:
    """As the same resource in two clusters: a start leaves alone what the other has staged."""
    other = TestTable()
    other.dead_letters = table.dead_letters
    with pytest.raises(Crash):
        table.attempt(dead_letters=CrashingStorage(table.dead_letters, 0, after_effect=False)).run(offsets(0, 2), ROWS)
    other.attempt().run(offsets(0, 2), ROWS)
    table.attempt()
    assert len(table.published_letters()) == 2, "one of each table"


def test_letters_staged_for_an_instant_that_is_open_stay(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 2), ROWS, _die)
    staged = table.staged_letters()
    assert staged
    table.attempt()
    assert table.staged_letters() == staged


def _die() -> None:
    raise Crash
