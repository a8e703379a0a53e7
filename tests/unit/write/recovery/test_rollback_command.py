"""Rolling back what failed attempts left: the fence first, every step repeatable, and not a row lost or doubled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, LogFileName, deterministic_file_id, join
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import Instant, State
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_requested, path_of
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import AccessDenied
from bucketingest.storage.interface import Data, Level
from bucketingest.write.errors import FencedOut
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision, CommitDecision
from bucketingest.write.pipeline_names import pipelines
from bucketingest.write.recovery.command import RollbackExecutor
from bucketingest.write.recovery.decide import Left, Step, choose
from bucketingest.write.recovery.survey import survey
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.tables.instants.abandoned import (
    FIRST,
    LONG_AFTER,
    NEVER,
    go_on,
    leave_decided,
    leave_open,
    open_instant,
    roll_back_table,
)
from support.tables.table_runs import PIPELINE, TestTable, offsets


def decision_of(table: TestTable, instant: str) -> object:
    return Journal(table.storage, PIPELINE).decision(instant)


def test_an_open_instant_is_rolled_back_and_its_rows_come_again(table: TestTable) -> None:
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


def test_without_write_access_an_unreleased_lease_counts_as_held(table: TestTable) -> None:
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
    (outcome,) = RollbackExecutor(table.storage).carry_out([choice])
    assert outcome.did is Step.COMPLETE
    assert decision_of(table, instant) == decided
    assert table.visible_keys() == [f"k{n}" for n in range(6)]


def test_an_instant_that_completed_since_the_plan_stays(table: TestTable) -> None:
    leave_open(table)
    (choice,) = choose(survey(table.storage, (), datetime.now(UTC) + LONG_AFTER).instants, (), force=False)
    table.attempt().run(offsets(0, 6), FIRST)
    Journal(table.storage, PIPELINE).forget([choice.found.request_time])
    before = table.completed()
    (outcome,) = RollbackExecutor(table.storage).carry_out([choice])
    assert outcome.problem is not None
    assert decision_of(table, choice.found.request_time) is None, "the next start would try to roll it back"
    assert "is completed" in outcome.problem
    assert table.completed() == before
    assert table.visible_keys() == [f"k{n}" for n in range(6)]


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


def test_an_instant_that_a_live_job_starts_and_decides_after_the_timeline_was_listed_is_left_alone(
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
    (outcome,) = RollbackExecutor(table.storage).carry_out(choose(looked.instants, (), force=False))
    assert outcome.did is Step.NOTHING
    assert f"{instant} is still pending" in str(outcome.problem)
    assert [each.request_time for each in table.timeline().pending] == [instant], "no rollback was started"
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


def test_a_newer_attempt_handles_the_instants(table: TestTable) -> None:
    leave_open(table)
    (choice,) = choose(survey(table.storage, (), datetime.now(UTC) + LONG_AFTER).instants, (), force=False)
    outcomes = RollbackExecutor(table.storage).carry_out([choice, choice])
    assert next(outcomes).did is Step.ROLL_BACK
    Journal(table.storage, PIPELINE).claim_epoch("a newer attempt")
    with pytest.raises(FencedOut, match="a newer attempt claimed the pipeline"):
        next(outcomes)
