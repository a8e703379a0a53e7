"""A compaction, whatever comes between its steps: no row lost or doubled, one base file per file group, and an end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import LogFileName, join
from bucketingest.hudi.rollback.markers import delete_markers, marked_files
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackMetadata, RollbackPlan
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.schema import schema_json
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.compaction_plan import read_compaction_plan
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, ROLLBACK, Instant, State, format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.by_hand import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import KEPT_FOR, CompactionHolder, Work
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.propose import Proposal, propose
from bucketingest.services.compaction.records import End
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.errors import NewerFormat, PlanOutdated, RoundEnded
from bucketingest.storage import Storage, StorageUnavailable
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.tables.decided_commits import is_completed_file
from support.tables.other_writers import add_column, next_time, replace_file_groups, schedule_compaction
from support.tables.snapshot import doubled_base_files, snapshot
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row, write, write_plan

ALL = CompactionTriggers(log_files=1)


def holder(storage: Storage, clock: Callable[[], datetime] = utc_now) -> CompactionHolder:
    return CompactionHolder(storage, nullcontext, lambda: None, clock=clock)


def compact(storage: Storage) -> list[End]:
    return [each.end for each in compact_now(storage, holder(storage), ALL, utc_now)]


@dataclass
class Written:
    """A table with two file groups and three commits, and its rows."""

    table: TestTable
    rows: dict[str, dict[str, object]]

    @property
    def storage(self) -> Storage:
        return self.table.storage

    def unchanged(self) -> None:
        """Its rows are what they were, in one version, and nothing is left over."""
        assert snapshot(self.storage) == self.rows
        assert doubled_base_files(self.storage) == []
        assert self.table.leftovers() == []

    def goes_on(self) -> None:
        """The pipeline writes once more, and another compaction ends."""
        self.table.attempt().run(offsets(9, 11), [row("k0", at=50), row("new", region="us")])
        rows = snapshot(self.storage)
        assert rows.keys() == {*self.rows, "new"}
        assert compact(self.storage) == [End.COMPLETED]
        assert snapshot(self.storage) == rows
        assert doubled_base_files(self.storage) == []
        assert self.table.leftovers() == []


def written(*, base_files: bool) -> Written:
    table = TestTable()
    attempt = table.attempt()
    attempt.run(offsets(0, 3), [row("k0", at=1), row("k1", at=1), row("k2", region="us", at=1)])
    if base_files:
        assert compact(table.storage) == [End.COMPLETED]
    attempt.run(offsets(3, 6), [row("k0", at=2), row("k2", region="us", at=2), row("k3", at=2)])
    attempt.run(offsets(6, 9), [row("k1", at=0), row("k3", at=3)])
    return Written(table, snapshot(table.storage))


@pytest.fixture(params=[False, True], ids=["logs only", "base files"])
def given(request: pytest.FixtureRequest) -> Written:
    return written(base_files=request.param)


def started(storage: Storage, now: datetime | None = None) -> Work:
    """A requested compaction, its first round open."""
    proposal = propose(storage, ALL, now or utc_now()).proposal
    assert proposal is not None
    its = holder(storage, (lambda: now) if now else utc_now)
    its.request(proposal)
    work = its.advance()
    assert isinstance(work, Work)
    return work


def execute(storage: Storage, work: Work) -> None:
    assert RoundExecutor(storage, work.number, work.round_number).run() == 0


def refused(storage: Storage, proposal: Proposal, why: str) -> None:
    with pytest.raises(PlanOutdated, match=why):
        holder(storage).request(proposal)


def finish(storage: Storage, now: datetime | None = None) -> list[End]:
    """Without a new one."""
    its = holder(storage, (lambda: now) if now else utc_now)
    for _ in range(9):
        state = its.advance()
        if isinstance(state, Work):
            execute(storage, state)
        elif state is not None:
            return [state.end]
    return []


def test_a_compaction_leaves_base_files_only_and_the_same_rows(given: Written) -> None:
    assert compact(given.storage) == [End.COMPLETED]
    given.unchanged()
    slices = [group.latest for group in load_file_view(given.storage, given.table.timeline()).groups]
    assert all(each is not None and each.base_file is not None and not each.log_files for each in slices)
    assert compact(given.storage) == [], "nothing is due"
    given.goes_on()


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("base_files", [False, True], ids=["logs only", "base files"])
def test_a_crash_at_any_change_is_finished_by_the_next_process(base_files: bool, after_effect: bool) -> None:
    dies_at, died = 0, True
    while died:
        its = written(base_files=base_files)
        crashing = CrashingStorage(its.storage, dies_at, after_effect=after_effect)
        with suppress(Crash):
            compact(crashing)
        died = crashing.dead
        assert snapshot(its.storage) == its.rows, dies_at
        ends = compact(its.storage)
        assert len(ends) <= 2
        its.unchanged()
        if dies_at % 4 == 0:
            its.goes_on()
        dies_at += 1
    assert dies_at > 20


def roll_back(given: Written, work: Work, *, finished: bool) -> str:
    """What a Hudi writer does to a compaction that it takes for dead: base files by markers, then the inflight file."""
    storage, time = given.storage, next_time(given.table)
    marked = marked_files(storage, work.compaction)
    files = tuple(RollbackFile(path.rpartition("/")[0], "", path) for path in sorted(marked))
    plan = RollbackPlan(work.compaction, COMPACTION, files)
    create_requested(storage, time, ROLLBACK, plan.encode(storage.absolute))
    if finished:
        finish_rollback(given, time, plan)
    return time


def finish_rollback(given: Written, time: str, plan: RollbackPlan) -> None:
    storage = given.storage
    create_inflight(storage, time, ROLLBACK)
    storage.delete_many([file.path for file in plan.files])
    storage.delete(path_of(Instant(plan.instant_time, COMPACTION, State.INFLIGHT)))
    content = RollbackMetadata(time, plan).encode(storage.absolute)
    complete(storage, time, next_time(given.table, time), content, ROLLBACK)


@pytest.mark.parametrize("finished", [False, True], ids=["pending", "finished"])
@pytest.mark.parametrize("executed", [False, True], ids=["before", "after the base files"])
def test_a_rollback_by_another_writer_starts_a_new_round(given: Written, finished: bool, executed: bool) -> None:
    work = started(given.storage)
    if executed:
        execute(given.storage, work)
    time = roll_back(given, work, finished=finished)
    if not executed:
        with pytest.raises(RoundEnded, match=r"rolled back|no longer inflight"):
            execute(given.storage, work)
    assert finish(given.storage) == [End.COMPLETED]
    assert CompactionJournal(given.storage).newest_round(work.number)[0] == 2
    given.unchanged()
    if not finished:  # whoever still carries the rollback out deletes names that were never used again
        plan = RollbackPlan.decode(given.storage.get(f".hoodie/timeline/{time}.rollback.requested"), "plan")
        given.storage.delete_many([file.path for file in plan.files])
    given.unchanged()
    given.goes_on()


def test_a_rollback_after_the_completed_file_takes_it_off_the_timeline(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    marked = marked_files(given.storage, work.compaction)

    class Paused(CrashingStorage):
        """Dies after the completed file."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            super()._change(path, act)
            if path.endswith(".commit"):
                self.dead = True

    with suppress(Crash):
        holder(Paused(given.storage, -1, after_effect=False)).advance()
    time = next_time(given.table)
    files = tuple(RollbackFile(path.rpartition("/")[0], "", path) for path in sorted(marked))
    plan = RollbackPlan(work.compaction, COMPACTION, files)
    create_requested(given.storage, time, ROLLBACK, plan.encode(given.storage.absolute))
    finish_rollback(given, time, plan)
    assert finish(given.storage) == [End.COMPLETED]
    given.unchanged()
    given.goes_on()


def test_a_log_file_that_completed_before_is_merged_by_a_new_round(given: Written) -> None:
    """Its writer has no lock, or its clock is behind."""
    soon = utc_now() + timedelta(minutes=3)
    work = started(given.storage, soon)
    execute(given.storage, work)
    late = (work.compaction, timedelta(milliseconds=20)), (work.compaction, timedelta(milliseconds=10))
    request, completion = (format_time(parse_time(time) - before) for time, before in late)
    commit_at(given.table, request, completion, [row("k1", at=40), row("k2", region="us", at=40)])
    rows = snapshot(given.storage)
    assert rows["k1"] != given.rows["k1"]
    assert finish(given.storage, soon) == [End.COMPLETED]
    assert CompactionJournal(given.storage).newest_round(work.number)[0] == 2
    given.rows = rows
    given.unchanged()


def commit_at(table: TestTable, request: str, completion: str, rows: list[dict[str, Any]]) -> None:
    """Another writer's deltacommit, with exactly these times."""
    opened = table.attempt().opened
    plan = write_plan(
        table.definition, table_url=table.storage.url, instant_time=request, file_ids=opened.index.file_ids
    )
    statuses = [status for status in write(rows, plan, table.storage) if status.file_id]
    stats = {
        status.partition_path: [
            WriteStat.of_log_file(status.partition_path, LogFileName.parse(status.file_name), size=status.size_bytes)
        ]
        for status in statuses
    }
    assert len(stats) == len(statuses)
    create_requested(table.storage, request)
    create_inflight(table.storage, request)
    schema = {"schema": schema_json(opened.avro_schema)}
    complete(table.storage, request, completion, CommitMetadata(stats, schema).encode())
    delete_markers(table.storage, request)


def test_a_scheduler_that_was_faster_makes_the_plan_void(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    schedule_compaction(given.table)
    refused(given.storage, proposal, "another table service")
    assert propose(given.storage, ALL, utc_now()).proposal is None, "its file groups are taken"


def test_a_scheduler_without_a_lock_that_comes_between_makes_the_plan_void(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None

    class Between(CrashingStorage):
        """Another writer requests a compaction just before ours."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            if path.endswith(".compaction.requested") and not given.table.timeline().pending:
                schedule_compaction(given.table)
            super()._change(path, act)

    refused(Between(given.storage, -1, after_effect=False), proposal, "without the table's lock")
    assert [each.action for each in given.table.timeline().pending] == [COMPACTION]
    assert finish(given.storage) == [End.VOID]
    (theirs,) = given.table.timeline().pending
    assert theirs.request_time != proposal.record.compaction


def test_a_requested_file_that_turns_up_after_the_plan_is_void_is_deleted(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    crashing = CrashingStorage(given.storage, 1, after_effect=False)
    with pytest.raises(Crash):
        holder(crashing).request(proposal)
    assert finish(given.storage) == [End.VOID]
    create_requested(given.storage, proposal.record.compaction, COMPACTION, proposal.record.content)
    holder(given.storage).sweep_old()
    assert given.table.timeline().pending == ()
    given.unchanged()
    given.goes_on()


def test_an_instant_that_completed_before_the_request_is_not_left_out(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    request = format_time(parse_time(proposal.record.compaction) - timedelta(seconds=9))
    create_requested(given.storage, request)
    create_inflight(given.storage, request)
    complete(given.storage, request, proposal.record.compaction, CommitMetadata().encode())
    refused(given.storage, proposal, "completed before it")


def test_a_decided_commit_is_waited_for(given: Written) -> None:
    """Completed late, it would have an older time than the compaction."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    with pytest.raises(StorageUnavailable):
        given.table.attempt(FlakyStorage(given.storage, is_completed_file)).run(offsets(9, 10), [row("k9")])
    refused(given.storage, proposal, "is decided and not complete")
    given.table.attempt()
    assert holder(given.storage).request(proposal)


def test_another_writer_that_completes_it_is_obeyed(given: Written) -> None:
    """Our base files of that compaction must not stay beside its own."""
    work = started(given.storage)
    execute(given.storage, work)
    ours = marked_files(given.storage, work.compaction)
    stats: dict[str, list[WriteStat]] = {}
    for result in CompactionJournal(given.storage).results(work.number, work.round_number, 0):
        assert result.stat is not None
        assert result.stat.path is not None
        theirs = result.stat.path.replace("_1-0-0_", "_7-3-9_")
        given.storage.create(theirs, given.storage.get(result.stat.path))
        stats.setdefault(result.stat.partition_path or "", []).append(replace(result.stat, path=theirs))
    commit = CommitMetadata(stats, {}, "COMPACT")
    complete(given.storage, work.compaction, next_time(given.table), commit.encode(), COMMIT)
    assert finish(given.storage) == [End.COMPLETED]
    assert not any(given.storage.exists(path) for path in ours)
    given.unchanged()


def test_another_writers_heartbeat_is_waited_for(given: Written) -> None:
    work = started(given.storage)
    heartbeat.beat(given.storage, work.compaction)
    assert holder(given.storage).advance() is None
    later = holder(given.storage, lambda: utc_now() + timedelta(minutes=5))
    assert isinstance(later.advance(), Work)


def test_one_that_a_restore_took_off_the_timeline_is_not_made_again(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    for state in (State.INFLIGHT, State.REQUESTED):
        given.storage.delete(path_of(Instant(work.compaction, COMPACTION, state)))
    assert finish(given.storage) == [End.GONE]
    given.unchanged()
    given.goes_on()


def test_a_base_file_that_comes_late_is_deleted(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    (first, *_) = sorted(marked_files(given.storage, work.compaction))
    content = given.storage.get(first)
    roll_back(given, work, finished=True)
    assert finish(given.storage) == [End.COMPLETED]
    given.storage.create(first, content)
    assert doubled_base_files(given.storage) != []
    holder(given.storage).sweep_old()
    given.unchanged()


def test_a_file_group_that_was_replaced_meanwhile_is_left_out(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    plan = read_compaction_plan(given.storage, work.compaction)
    assert plan is not None
    gone = plan.operations[0]
    replace_file_groups(given.table, {gone.partition_path: [gone.file_id]})
    assert finish(given.storage) == [End.COMPLETED]
    found = given.table.timeline().find(work.compaction, COMMIT)
    assert found is not None
    committed = CommitMetadata.decode(given.storage.get(path_of(found)), "commit")
    assert gone.file_id not in {stat.file_id for stats in committed.write_stats.values() for stat in stats}


def test_a_column_that_was_added_meanwhile_stays(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    add_column(given.table, "extra")
    assert finish(given.storage) == [End.COMPLETED]
    found = given.table.timeline().find(work.compaction, COMMIT)
    assert found is not None
    schema = CommitMetadata.decode_extra(given.storage.get(path_of(found)), "commit")["schema"]
    assert '"extra"' in schema


def test_a_corrupt_log_file_holds_up_only_its_file_group(given: Written) -> None:
    work = started(given.storage)
    plan = read_compaction_plan(given.storage, work.compaction)
    assert plan is not None
    broken = plan.operations[0]
    path = join(broken.partition_path, broken.log_files[-1])
    content = given.storage.get(path)
    given.storage.put(path, content[:-7])
    assert RoundExecutor(given.storage, work.number, work.round_number).run() == 1
    assert finish(given.storage) == [End.COMPLETED]
    given.storage.put(path, content)
    given.unchanged()


def test_a_newer_release_is_not_interfered_with(given: Written) -> None:
    started(given.storage)
    journal = CompactionJournal(given.storage)
    path = journal.path(max(journal.numbers()), "plan")
    given.storage.put(path, given.storage.get(path).replace(b'"version": 1', b'"version": 2', 1))
    with pytest.raises(NewerFormat, match="newer release"):
        holder(given.storage).advance()


def test_objects_of_ended_compactions_are_deleted_after_a_day(given: Written) -> None:
    for number in range(5):
        given.table.attempt().run(offsets(9 + number, 10 + number), [row("k0", at=60 + number)])
        assert compact(given.storage) == [End.COMPLETED]
    journal = CompactionJournal(given.storage)
    before = journal.numbers()
    holder(given.storage).sweep_old()
    assert journal.numbers() == before, "an executor may still be paused"
    holder(given.storage, lambda: utc_now() + KEPT_FOR + timedelta(minutes=1)).sweep_old()
    assert journal.numbers() == before[-3:]
