"""A write task that was paused looks whether its instant is still open before it changes the table."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import InstantAborted, WriteError
from bucketingest.write.instant_look import LOOK_MAX, InstantLook
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision, Intent
from bucketingest.write.rows.write_status import WriteStatus
from support.storage.passing_storage import PassingStorage
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import INSTANT, row, write, write_plan

MADE_AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
INTENT = Intent(offsets(0, 1), "work")


class Counting(PassingStorage):
    reads = 0

    def _before_read(self) -> None:
        self.reads += 1


class Task:
    """A task with a plan, its look, and clocks that a test moves."""

    def __init__(self, *, started: datetime = MADE_AT, sequence: int = 1) -> None:
        self.storage = Counting(open_storage(f"memory://{uuid.uuid4()}"))
        self.journal = Journal(self.storage, PIPELINE)
        self.journal.claim(INSTANT, INTENT)
        self.seconds = 100.0
        plan = write_plan(made_at=MADE_AT, sequence=sequence)
        self.look = InstantLook(plan, self.storage, lambda: started, lambda: self.seconds)

    def wait(self, time: timedelta) -> None:
        self.seconds += time.total_seconds()


def test_a_task_that_was_not_paused_asks_nothing() -> None:
    task = Task()
    task.journal.decide(INSTANT, AbortDecision("a test"))
    before = task.storage.reads
    task.wait(LOOK_MAX - timedelta(seconds=1))
    task.look.renew()
    assert task.storage.reads == before


@pytest.mark.parametrize("end", ["decided", "forgotten"])
def test_a_task_that_was_paused_until_its_instant_had_ended_changes_nothing(end: str) -> None:
    task = Task()
    if end == "decided":
        task.journal.decide(INSTANT, AbortDecision("a test"))
    else:
        task.journal.forget([INSTANT])
    task.wait(LOOK_MAX)
    with pytest.raises(InstantAborted, match=f"instant {INSTANT} was decided while this task was paused"):
        task.look.renew()


def test_a_driver_that_was_paused_before_the_intent_of_a_forgotten_instant_gets_no_file_written() -> None:
    """The intent that it then creates is the only one there is."""
    task = Task(sequence=2)
    task.journal.forget([INSTANT])
    task.journal.put_intent(INSTANT, 2, INTENT)
    task.wait(LOOK_MAX)
    with pytest.raises(InstantAborted):
        task.look.renew()


def test_a_task_of_hours_goes_on_with_a_look_now_and_then() -> None:
    task = Task()
    for _ in range(3):
        task.wait(LOOK_MAX)
        before = task.storage.reads
        task.look.renew()
        assert task.storage.reads == before + 2
        task.look.renew()
        assert task.storage.reads == before + 2


@pytest.mark.parametrize("ahead", [LOOK_MAX, -LOOK_MAX], ids=["started late", "clock behind"])
def test_a_task_whose_plan_is_old_or_comes_from_the_future_looks_first(ahead: timedelta) -> None:
    task = Task(started=MADE_AT + ahead)
    task.journal.decide(INSTANT, AbortDecision("a test"))
    with pytest.raises(InstantAborted):
        task.look.renew()


def test_a_writer_puts_neither_marker_nor_file_of_an_instant_that_has_ended(table_storage: Storage) -> None:
    plan = write_plan(made_at=datetime.now(UTC) - 2 * LOOK_MAX)
    with pytest.raises(InstantAborted):
        write([row("k0")], plan, table_storage)
    assert not [info.path for info in table_storage.list() if ".log." in info.path or "MARKERS" in info.path]


@pytest.fixture
def table_storage() -> Storage:
    return open_storage(f"memory://{uuid.uuid4()}")


def test_a_writer_whose_instant_is_open_writes_however_old_its_plan_is(table_storage: Storage) -> None:
    Journal(table_storage, PIPELINE).claim(INSTANT, INTENT)
    write([row("k0")], write_plan(made_at=datetime.now(UTC) - 2 * LOOK_MAX), table_storage)
    assert [info.path for info in table_storage.list() if ".log." in info.path]


class Pausing(PassingStorage):
    """The process stands still for a day within the creation of the instant's inflight file."""

    seconds = 0.0

    def now(self) -> datetime:
        return MADE_AT + timedelta(seconds=self.seconds)

    def _change(self, path: str, act: Callable[[], None]) -> None:
        act()
        if path.endswith(".inflight"):
            self.seconds += timedelta(days=1).total_seconds()


def test_tasks_of_a_driver_that_was_paused_while_it_began_the_instant_look_first(table: TestTable) -> None:
    storage = Pausing(table.storage)
    attempt = table.attempt(storage, clock=storage.now, forward=lambda: storage.seconds)
    looked = []

    def write_nothing(assignment: Assignment) -> list[WriteStatus]:
        looked.append(assignment.made_at)
        raise WriteError("a test")

    with pytest.raises(WriteError, match="a test"):
        attempt.coordinator.run(offsets(0, 1), write_nothing)
    assert looked == [MADE_AT]
    assert storage.now() - MADE_AT > LOOK_MAX
