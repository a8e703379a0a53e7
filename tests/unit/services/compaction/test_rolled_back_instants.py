"""Another writer rolls an instant back whose log files a compaction merges: no base file may have its rows.

Hudi 1.2.0 does so without the table's lock: it reads the timeline, the instant completes, and its rollback goes on.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.rollback.plan import RollbackMetadata, RollbackPlan, files_of_instant
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline.instant import COMPACTION, DELTA_COMMIT, PENDING_STATES, ROLLBACK, Instant
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.services.compaction.commit import ready_commit, wanted_decision
from bucketingest.services.compaction.records import CompactionJournal, Work, round_token
from bucketingest.services.protocol.records import End
from support.tables.other_writers import archive, earlier, later, next_time
from support.tables.services.compactions import Written, commit_at, execute, finish, holder, roll_back, started
from support.tables.services.snapshot import doubled_base_files, snapshot
from support.tables.table_runs import offsets
from support.tables.write_plans import row

GROUPS = 4
"""File groups with log files."""


def another_writers(given: Written) -> str:
    """A completed instant that changes one of the table's file groups; its request time."""
    request = next_time(given.table)
    commit_at(given.table, request, later(request), [row("k1", at=60)])
    return request


def plan_rollback(given: Written, instant: str) -> tuple[str, RollbackPlan]:
    files = tuple(files_of_instant([info.path for info in list_data(given.storage)], (), instant))
    assert files
    plan = RollbackPlan(instant, DELTA_COMMIT, files)
    time = next_time(given.table)
    create_requested(given.storage, time, ROLLBACK, plan.encode(given.storage.absolute))
    return time, plan


def carry_out(given: Written, time: str, plan: RollbackPlan) -> None:
    """The completed file of the instant stays: Hudi takes away what an instant has that did not complete."""
    create_inflight(given.storage, time, ROLLBACK)
    given.storage.delete_many([file.path for file in plan.files])
    for state in PENDING_STATES:
        given.storage.delete(path_of(Instant(plan.instant_time, DELTA_COMMIT, state)))
    metadata = RollbackMetadata(time, plan).encode(given.storage.absolute)
    complete(given.storage, time, next_time(given.table, time), metadata, ROLLBACK)


def take_off(given: Written, time: str, action: str = DELTA_COMMIT) -> None:
    found = given.table.timeline().find(time, action)
    assert found is not None
    for each in (found, *(Instant(time, action, state) for state in PENDING_STATES)):
        given.storage.delete(path_of(each))


def decide(given: Written, work: Work) -> None:
    """The process ends between its decision and the completed file."""
    journal = CompactionJournal(given.storage)
    ready = ready_commit(given.storage, journal, work.number, work.round_number)
    wanted = wanted_decision(given.storage, given.table.timeline(), ready, work.compaction, utc_now())
    assert journal.decide(work.number, wanted, work.round_number) == wanted


def merged_groups(given: Written, work: Work) -> int:
    return sum(info.path.endswith(f"_{work.compaction}.parquet") for info in list_data(given.storage))


@pytest.mark.parametrize("until", ["requested", "executed", "decided"])
@pytest.mark.parametrize("way", ["finished", "finished and taken off", "taken off", "planned"])
def test_a_file_group_whose_log_file_was_rolled_back_keeps_its_slice(given: Written, until: str, way: str) -> None:
    instant = another_writers(given)
    work = started(given.storage)
    if until != "requested":
        execute(given.storage, work)
    if until == "decided":
        decide(given, work)
    time, plan = plan_rollback(given, instant)
    if way != "planned":
        carry_out(given, time, plan)
    if "taken off" in way:
        take_off(given, instant)
    if way == "taken off":  # the rollback was archived since
        take_off(given, time, ROLLBACK)
    its = holder(given.storage)
    state = its.advance()
    assert isinstance(state, Work)
    assert state.round_number == 2
    assert finish(given.storage, failed=1) == [End.COMPLETED]
    assert merged_groups(given, work) == GROUPS - 1
    if way == "planned":
        carry_out(given, time, plan)
    given.unchanged()
    given.goes_on()


def test_instants_that_a_late_request_hides_are_not_rolled_back(given: Written) -> None:
    """Another writer archives them, and an older compaction appears: then they count as not complete."""
    work = started(given.storage)
    before = given.table.timeline()
    archive(given.table)
    create_requested(given.storage, earlier(before.instants[0].request_time), COMPACTION)
    state = holder(given.storage).advance()
    assert isinstance(state, Work)
    assert state.round_number == work.round_number


def test_a_base_file_that_another_writer_made_of_a_file_group_that_was_left_out_stays(given: Written) -> None:
    """It takes the compaction for dead, makes all base files, and cleans: the rows of that group are nowhere else."""
    instant = another_writers(given)
    rows = snapshot(given.storage)
    work = started(given.storage)
    execute(given.storage, work)
    _, plan = plan_rollback(given, instant)
    (lost,) = plan.files
    made = join(lost.partition_path, str(BaseFileName(lost.file_id, work.compaction, round_token(1))))
    content = given.storage.get(made)
    assert finish(given.storage, failed=1) == [End.COMPLETED]
    theirs = made.replace("_1-0-0_", "_7-3-9_")
    given.storage.create(theirs, content)
    files = [info.path for info in list_data(given.storage, [lost.partition_path]) if lost.file_id in info.path]
    given.storage.delete_many(path for path in files if path != theirs)
    holder(given.storage).sweep_old()
    assert given.storage.exists(theirs)
    assert snapshot(given.storage) == rows
    assert doubled_base_files(given.storage) == []


def test_base_files_of_older_rounds_are_deleted_before_the_commit(given: Written) -> None:
    """A reader between the commit and the sweep would take either of two base files."""
    instant = another_writers(given)
    work = started(given.storage)
    execute(given.storage, work)
    carry_out(given, *plan_rollback(given, instant))
    state = holder(given.storage).advance()
    assert isinstance(state, Work)
    assert merged_groups(given, work) == GROUPS
    execute(given.storage, state, failed=1)
    ready_commit(given.storage, CompactionJournal(given.storage), state.number, state.round_number)
    assert merged_groups(given, work) == GROUPS - 1


def test_a_base_file_whose_compaction_was_rolled_back_and_made_again_is_merged(given: Written) -> None:
    first = started(given.storage)
    execute(given.storage, first)
    roll_back(given, first, finished=True)
    assert finish(given.storage) == [End.COMPLETED]
    given.table.attempt().run(offsets(9, 10), [row("k0", at=70), row("k1", at=70)])
    given.rows = snapshot(given.storage)
    work = started(given.storage)
    assert finish(given.storage) == [End.COMPLETED]
    assert CompactionJournal(given.storage).newest_round(work.number)[0] == 1
    given.unchanged()


def test_a_rollback_that_ended_before_the_plan_changes_nothing(given: Written) -> None:
    instant = another_writers(given)
    carry_out(given, *plan_rollback(given, instant))
    work = started(given.storage, utc_now() + timedelta(hours=3))
    assert finish(given.storage, utc_now() + timedelta(hours=3)) == [End.COMPLETED]
    assert merged_groups(given, work) == GROUPS
    given.unchanged()
