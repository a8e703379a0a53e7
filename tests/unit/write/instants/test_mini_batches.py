"""An instant that spans micro-batches: when it is committed, and what a crash or another writer leaves of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from bucketingest.hudi.rollback.rollback import RollbackOptions, roll_back
from bucketingest.hudi.timeline.instant import State
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import FencedOut, PositionLost
from bucketingest.write.instants.journal import Journal
from support.tables.table_runs import PIPELINE, Attempt, Rows, TestTable, offsets
from support.tables.write_plans import row

INTERVAL = timedelta(seconds=30)
BATCHES: list[Rows] = [[row(f"k{batch}-{n}", amount=n) for n in range(3)] for batch in range(4)]


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Crash(Exception):
    """The tasks die."""


def crash() -> None:
    raise Crash


@pytest.fixture
def clock() -> Clock:
    return Clock()


def attempt(table: TestTable, clock: Clock) -> Attempt:
    return table.attempt(commit_interval=INTERVAL, clock=clock)


def write(to: Attempt, batch: int) -> str | None:
    outcome = to.run(offsets(batch * 3, batch * 3 + 3), BATCHES[batch])
    assert outcome.commit is None
    return outcome.instant_time


def keys(*batches: int) -> list[str]:
    return sorted(each["id"] for batch in batches for each in BATCHES[batch])


def test_micro_batches_before_the_interval_has_passed_share_an_instant(table: TestTable, clock: Clock) -> None:
    writer = attempt(table, clock)
    assert write(writer, 0) == write(writer, 1)
    (pending,) = table.timeline().pending
    assert pending.state is State.INFLIGHT
    assert table.visible_keys() == []


def test_the_micro_batch_that_ends_after_the_interval_commits_all(table: TestTable, clock: Clock) -> None:
    writer = attempt(table, clock)
    write(writer, 0)
    clock.passes(31)
    outcome = writer.run(offsets(3, 6), BATCHES[1])
    assert outcome.commit is not None
    assert (outcome.commit.micro_batches, outcome.commit.rows, outcome.commit.open_seconds) == (2, 6, 31.0)
    assert outcome.rows == 3
    assert table.visible_keys() == keys(0, 1)
    assert table.leftovers() == []


def test_an_instant_with_as_many_files_as_allowed_is_committed_before_its_time(table: TestTable, clock: Clock) -> None:
    writer = table.attempt(commit_interval=INTERVAL, clock=clock, max_files=4)
    first = writer.run(offsets(0, 3), BATCHES[0])
    assert first.commit is None
    second = writer.run(offsets(3, 6), BATCHES[1])
    assert second.commit is not None
    assert second.commit.micro_batches == 2


def test_an_idle_source_s_instant_is_committed_by_the_timer_and_not_before(table: TestTable, clock: Clock) -> None:
    writer = attempt(table, clock)
    write(writer, 0)
    clock.passes(29)
    assert writer.coordinator.commit_if_due() is None
    clock.passes(1)
    commit = writer.coordinator.commit_if_due()
    assert commit is not None
    assert commit.micro_batches == 1
    assert table.visible_keys() == keys(0)
    assert writer.coordinator.commit_if_due() is None


def test_nothing_is_on_the_timeline_while_there_is_no_input(table: TestTable, clock: Clock) -> None:
    writer = attempt(table, clock)
    clock.passes(60)
    assert writer.coordinator.commit_if_due() is None
    assert writer.coordinator.commit_open() is None
    assert table.timeline().instants == ()


def test_a_stop_commits_what_is_written(table: TestTable, clock: Clock) -> None:
    writer = attempt(table, clock)
    write(writer, 0)
    assert writer.coordinator.commit_open() is not None
    assert table.visible_keys() == keys(0)


def test_whole_micro_batches_that_a_crash_left_are_committed_at_the_next_start(table: TestTable, clock: Clock) -> None:
    first = attempt(table, clock)
    write(first, 0)
    write(first, 1)
    second = attempt(table, clock)
    assert second.start.verdict is StartVerdict.RESUMED
    assert (second.start.position, second.start.replay) == (offsets(3, 6), None)
    assert table.visible_keys() == keys(0, 1)


def test_a_started_micro_batch_comes_again_in_the_same_instant(table: TestTable, clock: Clock) -> None:
    first = attempt(table, clock)
    instant = write(first, 0)
    with pytest.raises(Crash):
        first.run(offsets(3, 6), BATCHES[1], then=crash)
    second = attempt(table, clock)
    assert second.start.verdict is StartVerdict.RESUMED
    assert (second.start.position, second.start.replay) == (offsets(0, 3), offsets(3, 6))
    assert second.coordinator.commit_open() is None, "its last micro-batch is incomplete"
    assert write(second, 1) == instant
    assert write(second, 2) == instant
    second.coordinator.commit_open()
    assert table.visible_keys() == keys(0, 1, 2)
    assert table.leftovers() == []


def test_another_range_than_the_started_one_rolls_back_the_whole_instant(table: TestTable, clock: Clock) -> None:
    first = attempt(table, clock)
    write(first, 0)
    with pytest.raises(Crash):
        first.run(offsets(3, 6), BATCHES[1], then=crash)
    second = attempt(table, clock)
    with pytest.raises(PositionLost, match="started with other rows"):
        second.run(offsets(3, 9), [*BATCHES[1], *BATCHES[2]])
    start = second.coordinator.start()
    assert (start.verdict, start.position, start.replay) == (StartVerdict.NEW, None, None)
    second.run(offsets(0, 9), [*BATCHES[0], *BATCHES[1], *BATCHES[2]])
    second.coordinator.commit_open()
    assert table.visible_keys() == keys(0, 1, 2)
    assert table.leftovers() == []


@pytest.mark.parametrize("then", ["next micro-batch", "timer"])
def test_an_instant_that_another_writer_rolled_back_sends_the_query_to_the_table(
    table: TestTable, clock: Clock, then: str
) -> None:
    writer = attempt(table, clock)
    write(writer, 0)
    writer.coordinator.commit_open()
    instant = write(writer, 1)
    write(writer, 2)
    assert instant is not None
    roll_back(table.storage, instant, RollbackOptions(clock=clock))
    clock.passes(31)
    notices = writer.coordinator.commit_if_due if then == "timer" else partial(write, writer, 3)
    with pytest.raises(PositionLost):
        notices()
    start = writer.coordinator.start()
    assert start.position == offsets(0, 3)
    for batch in (1, 2, 3):
        write(writer, batch)
    writer.coordinator.commit_open()
    assert table.visible_keys() == keys(0, 1, 2, 3)
    assert table.leftovers() == []


def test_an_instant_whose_only_micro_batch_was_rolled_back_is_written_again_immediately(
    table: TestTable, clock: Clock
) -> None:
    writer = attempt(table, clock)
    instant = write(writer, 0)
    assert instant is not None
    roll_back(table.storage, instant, RollbackOptions(clock=clock))
    with pytest.raises(PositionLost):
        write(writer, 1)
    writer.coordinator.start()
    write(writer, 0)
    write(writer, 1)
    writer.coordinator.commit_open()
    assert table.visible_keys() == keys(0, 1)


def test_the_heartbeat_is_renewed_while_the_source_is_idle(table: TestTable, clock: Clock) -> None:
    writer = table.attempt(commit_interval=timedelta(hours=1), clock=clock)
    instant = write(writer, 0)
    heartbeat = f".hoodie/.heartbeat/{instant}"
    before = table.storage.head(heartbeat).modified
    writer.coordinator.commit_if_due()
    renewed = table.storage.head(heartbeat).modified
    assert renewed > before
    clock.passes(10)
    writer.coordinator.commit_if_due()
    assert table.storage.head(heartbeat).modified == renewed, "half the interval has not passed"
    clock.passes(30)
    writer.coordinator.commit_if_due()
    assert table.storage.head(heartbeat).modified > renewed


def test_a_zombie_cannot_begin_a_micro_batch_in_an_instant_that_is_closed_for_its_commit(
    table: TestTable, clock: Clock
) -> None:
    zombie = attempt(table, clock)
    write(zombie, 0)
    second = attempt(table, clock)  # commits what the zombie left
    assert second.start.verdict is StartVerdict.RESUMED
    with pytest.raises(FencedOut):
        write(zombie, 1)
    assert not Journal(table.storage, PIPELINE).close("20261121120000000", 1), "its first micro-batch is real"
    assert Journal(table.storage, PIPELINE).close("20261121120000000", 2)
    write(second, 1)
    second.coordinator.commit_open()
    assert table.visible_keys() == keys(0, 1)


def test_a_micro_batch_that_starts_as_another_attempt_commits_is_not_committed_over(
    table: TestTable, clock: Clock
) -> None:
    writer = attempt(table, clock)
    instant = write(writer, 0)
    assert instant is not None
    journal = Journal(table.storage, PIPELINE)
    started = journal.intent(instant, 1)
    assert started is not None
    journal.put_intent(instant, 2, replace(started, source_range=offsets(3, 6)))
    with pytest.raises(PositionLost, match="started micro-batch 2"):
        writer.coordinator.commit_open()
    start = writer.coordinator.start()
    assert (start.position, start.replay) == (offsets(0, 3), offsets(3, 6))


def test_a_later_micro_batch_is_never_written_after_the_instant_before_it_was_rolled_back(
    table: TestTable, clock: Clock
) -> None:
    writer = attempt(table, clock)
    instant = write(writer, 0)
    assert instant is not None
    with pytest.raises(Crash):
        writer.run(offsets(3, 6), BATCHES[1], then=crash)
    roll_back(table.storage, instant, RollbackOptions(clock=clock))
    with pytest.raises(PositionLost):
        write(writer, 1)
    assert writer.coordinator.start().position is None
