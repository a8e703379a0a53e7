"""A rollback of another writer lands after its instant was archived: finishing it deletes the instant's files."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.rollback.plan import RollbackMetadata, RollbackPlan
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, ROLLBACK
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.position import read_position
from support.tables.instants.abandoned import plan_of
from support.tables.other_writers import archive, commit, earlier, later, next_time, plan_clean, roll_back_completed
from support.tables.table_runs import PIPELINE, Attempt, TestTable, offsets
from support.tables.write_plans import row

ALL = [(offsets(0, 1), [row("k0")]), (offsets(1, 3), [row("k1"), row(None)]), (offsets(3, 5), [row("k2"), row(None)])]


FORGOTTEN = pytest.mark.parametrize("forgotten", [False, True], ids=["remembered", "forgotten"])
"""Whether the journal has no object of the archived instant any more."""


def archive_two(table: TestTable, *, forgotten: bool = False) -> tuple[Attempt, str]:
    """Two archived instants of the pipeline and one that is not; the attempt that wrote them, and the first one.
    `forgotten`: the journal has nothing of the first one any more.
    """
    attempt = table.attempt()
    attempt.go_on(*ALL[:2])
    first = table.timeline().completed_commits[0].request_time
    archive(table)
    commit(table, CommitMetadata())
    attempt.run(*ALL[2])
    if forgotten:
        Journal(table.storage, PIPELINE).forget([first])
    return attempt, first


def finish(table: TestTable, rollback: str, instant: str) -> None:
    """The other writer completes the rollback that it had requested."""
    create_inflight(table.storage, rollback, ROLLBACK)
    complete(table.storage, rollback, next_time(table, rollback), named(table, rollback, instant), ROLLBACK)


def named(table: TestTable, rollback: str, instant: str) -> bytes:
    """Content of the completed rollback."""
    return RollbackMetadata(rollback, RollbackPlan(instant, DELTA_COMMIT, ())).encode(table.storage.absolute)


@FORGOTTEN
def test_its_rows_are_ingested_again_by_the_next_start(table: TestTable, forgotten: bool) -> None:
    _, first = archive_two(table, forgotten=forgotten)
    plan_of(table, first)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert again.coordinator.position is not None
    assert again.coordinator.position.end == ALL[0][0].start
    assert table.published_letters() == [], "they come again, also those of archived instants"
    again.go_on(*ALL)
    assert again.coordinator.position == offsets(3, 5)
    assert len(table.published_letters()) == 2
    for _ in range(2):
        last = table.attempt()
        assert last.start.verdict is StartVerdict.IN_STEP, "once"
        assert last.coordinator.position == offsets(3, 5)
        Journal(table.storage, PIPELINE).forget([first])


def test_letters_of_all_instants_after_it_come_again_however_many_are_on_the_timeline(table: TestTable) -> None:
    attempt, first = archive_two(table)
    attempt.go_on(*((offsets(start, start + 1), [row("k3")]) for start in range(5, 26)))
    plan_of(table, first)
    assert table.attempt().start.verdict is StartVerdict.REWOUND
    assert table.published_letters() == []


def test_letters_of_archived_instants_come_again_once_though_their_journal_is_forgotten(table: TestTable) -> None:
    _, first = archive_two(table)
    journal = Journal(table.storage, PIPELINE)
    journal.forget(journal.instants()[1:2])
    plan_of(table, first)
    late = format_time(parse_time(first) + timedelta(milliseconds=1))  # then the archived ones are not the oldest
    table.storage.create(f"{TIMELINE_DIRECTORY}/{late}.deltacommit.requested", b"")
    again = table.attempt()
    assert table.published_letters() == [], "they come again"
    again.go_on(*ALL)
    assert len(table.published_letters()) == 2


def test_one_whose_rows_came_again_before_it_was_archived_is_of_no_concern(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.go_on(*ALL[:2])
    first = table.timeline().completed_commits[0].request_time
    roll_back_completed(table, first)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(*ALL)
    archive(table, rollbacks=False)
    commit(table, CommitMetadata())
    last = table.attempt()
    assert last.start.verdict is StartVerdict.IN_STEP
    assert last.coordinator.position == offsets(3, 5)
    assert len(table.published_letters()) == 2


def test_one_that_was_archived_before_its_rows_came_again_still_counts(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.go_on(*ALL[:2])
    first = table.timeline().completed_commits[0].request_time
    roll_back_completed(table, first)
    table.attempt()
    archive(table, rollbacks=False)
    commit(table, CommitMetadata())
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(*ALL)
    assert again.coordinator.position == offsets(3, 5)
    assert len(table.published_letters()) == 2


@FORGOTTEN
@pytest.mark.parametrize("came_again", [False, True], ids=["missing", "came again"])
def test_one_that_is_archived_before_the_pipeline_looks_still_counts_once(
    table: TestTable, forgotten: bool, came_again: bool
) -> None:
    attempt = table.attempt()
    attempt.go_on(*ALL[:2])
    first = table.timeline().completed_commits[0].request_time
    pending = plan_of(table, first)
    if came_again:
        with pytest.raises(PositionLost):
            attempt.run(*ALL[2])
        table.attempt().go_on(*ALL)
    finish(table, pending, first)
    archive(table)
    commit(table, CommitMetadata())
    if forgotten:
        Journal(table.storage, PIPELINE).forget([first])
    again = table.attempt()
    assert again.start.verdict is (StartVerdict.IN_STEP if came_again else StartVerdict.REWOUND)
    if not came_again:
        again.go_on(*ALL)
    last = table.attempt()
    assert last.start.verdict is StartVerdict.IN_STEP
    assert last.coordinator.position == offsets(3, 5)


@FORGOTTEN
def test_one_of_a_writer_whose_clock_is_behind_counts_though_it_seems_to_end_before_the_look(
    table: TestTable, forgotten: bool
) -> None:
    table.attempt().go_on(*ALL[:2])
    first, second = table.timeline().completed_commits
    pending = later(second.request_time)
    complete(
        table.storage,
        pending,
        earlier(second.completion_time or ""),
        named(table, pending, first.request_time),
        ROLLBACK,
    )
    archive(table)
    commit(table, CommitMetadata())
    if forgotten:
        Journal(table.storage, PIPELINE).forget([first.request_time])
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(*ALL)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


@FORGOTTEN
@pytest.mark.parametrize("old_clean", [False, True], ids=["", "an old clean stays on the timeline"])
def test_one_that_is_archived_between_two_looks_of_a_running_attempt_counts(
    table: TestTable, forgotten: bool, old_clean: bool
) -> None:
    attempt = table.attempt()
    if old_clean:
        plan_clean(table, "another")
    attempt.go_on(*ALL[:2])
    first = table.timeline().completed_commits[0].request_time
    roll_back_completed(table, first)
    archive(table)
    commit(table, CommitMetadata())
    if forgotten:
        Journal(table.storage, PIPELINE).forget([first])
    with pytest.raises(PositionLost, match=first):
        attempt.run(*ALL[2])
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(*ALL)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


def test_letters_that_came_again_are_not_withdrawn_by_an_attempt_that_was_paused(table: TestTable) -> None:
    """It read the timeline, paused, and looks at the journal after others have ingested the rows again."""
    table.attempt().go_on(*ALL[:2])
    roll_back_completed(table, table.timeline().completed_commits[0].request_time)
    before = table.timeline()
    again = table.attempt()
    again.go_on(*ALL)
    position = read_position(table.storage, before, Journal(table.storage, PIPELINE))
    after = {each.request_time for each in table.timeline().completed_commits}
    new = after - {each.request_time for each in before.completed_commits}
    assert new
    assert not position.superseded & new


@FORGOTTEN
def test_its_rows_are_ingested_again_by_the_attempt_that_runs(table: TestTable, forgotten: bool) -> None:
    attempt, first = archive_two(table, forgotten=forgotten)
    attempt.run(offsets(5, 6), [row("k5")])
    plan_of(table, first)
    with pytest.raises(PositionLost, match=first):
        attempt.run(offsets(6, 7), [row("k6")])


def test_a_rollback_of_an_instant_that_never_completed_is_of_no_concern(table: TestTable) -> None:
    attempt, first = archive_two(table)
    plan_of(table, str(int(first) - 1))
    attempt.run(offsets(5, 6), [row("k5")])
    assert table.attempt().start.verdict is StartVerdict.IN_STEP
