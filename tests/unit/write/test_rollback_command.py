"""Rolling back what failed attempts left: the fence first, every step repeatable, and not a row lost or doubled."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, LogFileName, deterministic_file_id, join
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import ROLLBACK, Instant, State, format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import AccessDenied
from bucketingest.storage.interface import Data, Level, Storage
from bucketingest.write.errors import FencedOut
from bucketingest.write.instants.journal import Journal, pipelines
from bucketingest.write.instants.records import AbortDecision, CommitDecision
from bucketingest.write.recovery.command import Abandoner, InstantOutcome
from bucketingest.write.recovery.decide import Left, Step, choose
from bucketingest.write.recovery.survey import survey
from support.crashing_storage import Crash, CrashingStorage
from support.flaky_storage import FlakyStorage
from support.table_runs import PIPELINE, Attempt, Rows, TestTable, offsets
from support.write_plans import row

NEVER = 10**9
FIRST = [row(f"k{n}", region=("eu", "us")[n % 2], amount=n) for n in range(6)]
SECOND = [row(f"k{n}", amount=n) for n in range(6, 9)]
ALL_KEYS = [f"k{n}" for n in range(9)]
LONG_AFTER = timedelta(minutes=10)


class Killed(Exception):
    """The driver is gone in the middle of a micro-batch."""


@pytest.fixture
def table() -> TestTable:
    return TestTable()


def die() -> None:
    raise Killed


def leave_open(table: TestTable, start: int = 0, rows: Rows = tuple(FIRST)) -> Attempt:
    """An attempt that dies when its tasks have written and nothing is in the ledger yet."""
    attempt = table.attempt()
    with pytest.raises(Killed):
        attempt.run(offsets(start, start + len(rows)), rows, die)
    return attempt


def leave_decided(table: TestTable) -> None:
    """An attempt that dies between the decision to commit and the completed file."""
    storage = FlakyStorage(table.storage, lambda path: path.endswith(".deltacommit") and "/timeline/" in path)
    with pytest.raises(BucketIngestError):
        table.attempt(storage).run(offsets(0, 6), FIRST)


def roll_back_table(
    table: TestTable, *wanted: str, storage: Storage | None = None, force: bool = False, after: timedelta = LONG_AFTER
) -> list[InstantOutcome]:
    """What the command does, `after` so long."""
    through = storage or table.storage
    found = survey(through, wanted, datetime.now(UTC) + after)
    return list(Abandoner(through).carry_out(choose(found.instants, found.wanted, force=force)))


def open_instant(table: TestTable) -> str:
    (instant,) = (each for each in table.timeline().pending if each.action != ROLLBACK)
    return instant.request_time


def decision_of(table: TestTable, instant: str) -> object:
    return Journal(table.storage, PIPELINE).decision(instant)


def go_on(table: TestTable) -> None:
    """The next attempt ingests everything; then all is there once and nothing else."""
    table.attempt().go_on((offsets(0, 6), FIRST), (offsets(6, 9), SECOND))
    assert table.visible_keys() == ALL_KEYS
    assert table.leftovers() == []


def test_an_open_instant_is_taken_back_and_its_rows_come_again(table: TestTable) -> None:
    leave_open(table)
    instant = open_instant(table)
    (outcome,) = roll_back_table(table)
    assert (outcome.did, outcome.choice.found.pipeline) == (Step.ROLL_BACK, PIPELINE)
    assert len(outcome.deleted) == len(outcome.choice.found.files) > 0
    assert isinstance(decision_of(table, instant), AbortDecision)
    assert table.leftovers() == []
    assert roll_back_table(table) == []
    go_on(table)


def test_a_live_attempt_keeps_its_instant_unless_forced_and_is_fenced_out_then(table: TestTable) -> None:
    attempt = leave_open(table)
    (choice,) = choose(survey(table.storage, (), datetime.now(UTC)).instants, (), force=False)
    assert choice.left is Left.HELD
    assert roll_back_table(table, after=timedelta()) == []
    (outcome,) = roll_back_table(table, after=timedelta(), force=True)
    assert outcome.did is Step.ROLL_BACK
    with pytest.raises(FencedOut, match="rollback on "):
        attempt.run(offsets(0, 6), FIRST)
    assert table.visible_keys() == []
    go_on(table)


def test_a_held_lease_keeps_the_instant_however_old_its_heartbeat_is(table: TestTable) -> None:
    leave_open(table)
    with TableLease.acquire(table.storage, LeaseOwner(PIPELINE), wait=timedelta(0)):
        (choice,) = choose(survey(table.storage, (), datetime.now(UTC)).instants, (), force=False)
        assert choice.left is Left.HELD
        assert f"pipeline {PIPELINE}" in choice.reason
    assert [outcome.did for outcome in roll_back_table(table, after=timedelta())] == [Step.ROLL_BACK], "released"
    assert pipelines(table.storage) == (PIPELINE,)


def test_who_may_only_look_takes_a_lease_that_stands_for_held(table: TestTable) -> None:
    class ReadOnly(FlakyStorage):
        def create(self, path: str, data: Data) -> None:
            raise AccessDenied(path)

    leave_open(table)
    owner = LeaseOwner(PIPELINE, process=ProcessIdentity("elsewhere", 1))
    lease = TableLease.acquire(table.storage, owner, wait=timedelta(0))
    looking = ReadOnly(table.storage, lambda path: False)
    (choice,) = choose(survey(looking, (), datetime.now(UTC) + LONG_AFTER).instants, (), force=False)
    assert choice.left is Left.HELD
    lease.release()
    (choice,) = choose(survey(looking, (), datetime.now(UTC) + LONG_AFTER).instants, (), force=False)
    assert choice.step is Step.ROLL_BACK


def test_an_instant_decided_to_commit_is_completed_as_decided(table: TestTable) -> None:
    leave_decided(table)
    instant = open_instant(table)
    decision = decision_of(table, instant)
    assert isinstance(decision, CommitDecision)
    assert [outcome.did for outcome in roll_back_table(table)] == [Step.COMPLETE]
    (path,) = table.completed()
    assert path == path_of(Instant(instant, "deltacommit", State.COMPLETED, decision.completion_time))
    assert table.completed()[path] == decision.content
    assert table.visible_keys() == [f"k{n}" for n in range(6)]
    assert table.leftovers() == []
    assert roll_back_table(table) == []
    go_on(table)


def test_a_decision_made_between_plan_and_fence_is_obeyed(table: TestTable) -> None:
    leave_decided(table)
    instant = open_instant(table)
    found = survey(table.storage, (), datetime.now(UTC) + LONG_AFTER)
    decided = decision_of(table, instant)
    path = next(info.path for info in table.storage.list(".hoodie/.bucketingest") if info.path.endswith("/decision"))
    content = table.storage.get(path)
    table.storage.delete(path)
    found = survey(table.storage, (), datetime.now(UTC) + LONG_AFTER)
    (choice,) = choose(found.instants, (), force=False)
    assert choice.step is Step.ROLL_BACK
    table.storage.create(path, content)
    (outcome,) = Abandoner(table.storage).carry_out([choice])
    assert outcome.did is Step.COMPLETE
    assert decision_of(table, instant) == decided
    assert table.visible_keys() == [f"k{n}" for n in range(6)]


def test_an_instant_that_completed_since_the_plan_stays(table: TestTable) -> None:
    leave_open(table)
    (choice,) = choose(survey(table.storage, (), datetime.now(UTC) + LONG_AFTER).instants, (), force=False)
    table.attempt().run(offsets(0, 6), FIRST)
    Journal(table.storage, PIPELINE).forget([choice.found.request_time])
    before = table.completed()
    (outcome,) = Abandoner(table.storage).carry_out([choice])
    assert outcome.problem is not None
    assert decision_of(table, choice.found.request_time) is None, "the next start would try to roll it back"
    assert "is completed" in outcome.problem
    assert table.completed() == before
    assert table.visible_keys() == [f"k{n}" for n in range(6)]


def plan_of(table: TestTable, instant: str, files: tuple[RollbackFile, ...] = (), action: str = "deltacommit") -> str:
    """A rollback that another writer requested and left; returns its time."""
    newest = table.timeline().newest_time or format_time(datetime.now(UTC))
    time = format_time(parse_time(newest) + timedelta(milliseconds=5))
    plan = RollbackPlan(instant, action, files)
    create_requested(table.storage, time, ROLLBACK, plan.encode(table.storage.absolute))
    return time


def pending_rollback_with_everything_there(table: TestTable) -> str:
    instant = open_instant(table)
    return plan_of(table, instant)


def two_pending_rollbacks(table: TestTable) -> str:
    instant = open_instant(table)
    first = plan_of(table, instant)
    plan_of(table, instant)
    return first


def instant_gone_and_rollback_not_completed(table: TestTable) -> str:
    instant = open_instant(table)
    time = plan_of(table, instant)
    create_inflight(table.storage, time, ROLLBACK)
    for state in (State.INFLIGHT, State.REQUESTED):
        table.storage.delete(path_of(Instant(instant, "deltacommit", state)))
    return time


def rolled_back_under_another_rollback(table: TestTable) -> str:
    instant = open_instant(table)
    time = plan_of(table, instant)
    requested = path_of(Instant(time, ROLLBACK, State.REQUESTED))
    content = table.storage.get(requested)
    table.storage.delete(requested)
    roll_back(table.storage, instant)
    table.storage.create(requested, content)
    return time


@pytest.mark.parametrize(
    "trap",
    [
        pending_rollback_with_everything_there,
        two_pending_rollbacks,
        instant_gone_and_rollback_not_completed,
        rolled_back_under_another_rollback,
    ],
)
def test_a_rollback_that_another_writer_left_is_finished(table: TestTable, trap: Callable[[TestTable], str]) -> None:
    leave_open(table)
    time = trap(table)
    assert [outcome.did for outcome in roll_back_table(table)] == [Step.FINISH_ROLLBACK]
    found = table.timeline().find(time, ROLLBACK)
    assert found is not None
    assert found.is_completed
    assert table.leftovers() == []
    assert roll_back_table(table) == []
    go_on(table)


def test_a_rollback_of_a_table_service_is_left_to_hudi(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    compaction = format_time(datetime.now(UTC) + timedelta(seconds=1))
    create_requested(table.storage, compaction, "compaction", b"plan")
    time = plan_of(table, compaction, action="compaction")
    before = sorted(info.path for info in table.storage.list(""))
    assert roll_back_table(table) == []
    assert sorted(info.path for info in table.storage.list("")) == before
    (choice,) = choose(survey(table.storage, [time], datetime.now(UTC)).instants, [compaction], force=True)
    assert choice.left is Left.REFUSED


def test_a_pending_rollback_without_a_plan_is_told_and_left(table: TestTable) -> None:
    table.attempt()
    time = format_time(datetime.now(UTC))
    create_requested(table.storage, time, ROLLBACK, b"")
    found = survey(table.storage, (), datetime.now(UTC))
    assert [(each.rollback_time, each.problem) for each in found.unreadable] == [
        (time, f".hoodie/timeline/{time}.rollback.requested is empty")
    ]
    assert found.instants == ()


def foreign_instant(table: TestTable) -> str:
    """A pending instant of another writer, with a file and its marker."""
    instant = format_time(datetime.now(UTC))
    create_requested(table.storage, instant)
    create_inflight(table.storage, instant, content=b"")
    name = str(LogFileName(deterministic_file_id(1), instant, 1))
    create_marker(table.storage, instant, "eu", name)
    table.storage.create(join("eu", name), b"rows")
    return instant


def test_another_writers_instant_is_taken_back_only_by_name(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    instant = foreign_instant(table)
    assert roll_back_table(table) == []
    assert roll_back_table(table, instant, after=timedelta()) == [], "its file on the timeline is young"
    (outcome,) = roll_back_table(table, instant)
    assert (outcome.did, len(outcome.deleted)) == (Step.ROLL_BACK, 1)
    assert table.leftovers() == []
    assert pipelines(table.storage) == (PIPELINE,), "the other writer's instant became one of ours"


def test_a_time_that_an_attempt_took_in_vain_may_be_another_writers_instant(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    instant = foreign_instant(table)
    journal = Journal(table.storage, PIPELINE)
    journal.decide(instant, AbortDecision("it never got onto the timeline"))
    before = sorted(info.path for info in table.storage.list(""))
    assert roll_back_table(table) == []
    assert sorted(info.path for info in table.storage.list("")) == before


def test_a_rollback_is_named_by_its_own_time_too(table: TestTable) -> None:
    table.attempt()
    instant = foreign_instant(table)
    time = plan_of(table, instant)
    (outcome,) = roll_back_table(table, time)
    assert (outcome.did, outcome.rollback_time) == (Step.FINISH_ROLLBACK, time)


def test_late_files_of_an_abandoned_instant_are_swept_by_the_command_and_by_the_next_start(table: TestTable) -> None:
    leave_open(table)
    instant = open_instant(table)
    roll_back_table(table)
    late = join("eu", str(LogFileName(deterministic_file_id(1), instant, 1)))
    for sweep in (lambda: roll_back_table(table), table.attempt):
        create_marker(table.storage, instant, *late.split("/"))
        table.storage.create(late, b"a stalled executor's")
        sweep()
        assert not table.storage.exists(late)
        assert table.leftovers() == []


def test_an_instant_that_a_live_job_begins_and_decides_after_the_timeline_was_listed_is_let_be(
    table: TestTable,
) -> None:
    class ListedBefore(FlakyStorage):
        def list_level(self, prefix: str = "") -> Level:
            level = super().list_level(prefix)
            return Level(level.directories, []) if prefix == TIMELINE_DIRECTORY else level

    leave_decided(table)
    instant = open_instant(table)
    files = sorted(info.path for info in list_data(table.storage))
    looked = survey(ListedBefore(table.storage, lambda _: False), (), datetime.now(UTC))
    (outcome,) = Abandoner(table.storage).carry_out(choose(looked.instants, (), force=False))
    assert outcome.did is Step.NOTHING
    assert f"{instant} is still pending" in str(outcome.problem)
    assert [each.request_time for each in table.timeline().pending] == [instant], "no rollback was begun"
    assert sorted(info.path for info in list_data(table.storage)) == files
    go_on(table)


def test_an_instant_that_never_got_onto_the_timeline_is_fenced(table: TestTable) -> None:
    storage = CrashingStorage(table.storage, NEVER, after_effect=False)
    attempt = table.attempt(storage)
    storage._dies_at = storage.changes + 2  # intent and heartbeat stand, the requested file does not
    with pytest.raises(Crash):
        attempt.run(offsets(0, 6), FIRST)
    assert table.timeline().instants == ()
    (outcome,) = roll_back_table(table)
    assert (outcome.did, outcome.rollback_time) == (Step.ROLL_BACK, None)
    assert list(table.storage.list(heartbeat.heartbeat_path("").rstrip("/"))) == []
    assert roll_back_table(table) == []
    go_on(table)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "life",
    [
        leave_open,
        leave_decided,
        *(
            lambda table, trap=trap: (leave_open(table), trap(table))
            for trap in (
                pending_rollback_with_everything_there,
                two_pending_rollbacks,
                instant_gone_and_rollback_not_completed,
            )
        ),
    ],
    ids=["open", "decided", "pending-rollback", "two-rollbacks", "gone"],
)
def test_a_crash_at_any_change_is_finished_by_the_next_run(
    life: Callable[[TestTable], object], after_effect: bool
) -> None:
    counted = TestTable()
    life(counted)
    counting = CrashingStorage(counted.storage, NEVER, after_effect=False)
    roll_back_table(counted, storage=counting)
    visible = counted.visible_keys()
    assert counting.changes > 2
    for dies_at in range(counting.changes):
        table = TestTable()
        life(table)
        with pytest.raises(Crash):
            roll_back_table(table, storage=CrashingStorage(table.storage, dies_at, after_effect=after_effect))
        roll_back_table(table)
        assert table.leftovers() == [], f"after a crash at change {dies_at}"
        assert table.visible_keys() == visible
        assert roll_back_table(table) == []
        go_on(table)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_a_crash_at_any_change_is_finished_by_the_pipelines_next_start(after_effect: bool) -> None:
    counted = TestTable()
    leave_open(counted)
    counting = CrashingStorage(counted.storage, NEVER, after_effect=False)
    roll_back_table(counted, storage=counting)
    for dies_at in range(counting.changes):
        table = TestTable()
        leave_open(table)
        with pytest.raises(Crash):
            roll_back_table(table, storage=CrashingStorage(table.storage, dies_at, after_effect=after_effect))
        go_on(table)


def test_a_completed_instant_is_not_touched_by_name(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    (instant,) = table.timeline().completed_commits
    found = survey(table.storage, [instant.request_time], datetime.now(UTC) + LONG_AFTER)
    (choice,) = choose(found.instants, found.wanted, force=True)
    assert choice.left is Left.REFUSED
    foreign = format_time(datetime.now(UTC))
    create_requested(table.storage, foreign)
    complete(table.storage, foreign, format_time(parse_time(foreign) + timedelta(seconds=1)), b"")
    found = survey(table.storage, [foreign], datetime.now(UTC) + LONG_AFTER)
    assert [each.left for each in choose(found.instants, found.wanted, force=True)] == [Left.REFUSED]


def test_a_newer_attempt_is_left_to_deal_with_the_instants(table: TestTable) -> None:
    leave_open(table)
    (choice,) = choose(survey(table.storage, (), datetime.now(UTC) + LONG_AFTER).instants, (), force=False)
    outcomes = Abandoner(table.storage).carry_out([choice, choice])
    assert next(outcomes).did is Step.ROLL_BACK
    Journal(table.storage, PIPELINE).claim_epoch("a newer attempt")
    with pytest.raises(FencedOut, match="a newer attempt claimed the pipeline"):
        next(outcomes)
