"""What comes between a plan and its request: then the plan is outdated, or void."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMPACTION, DELTA_COMMIT
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.records import CompactionJournal
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.protocol.records import End
from bucketingest.storage import Level, StorageUnavailable
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import Intent
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.instants.decided_commits import is_completed_file
from support.tables.other_writers import schedule_compaction
from support.tables.services.compactions import (
    ALL,
    Written,
    finish,
    holder,
    refused,
)
from support.tables.table_runs import PIPELINE, offsets
from support.tables.write_plans import row


def test_a_scheduler_that_was_faster_makes_the_plan_void(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    schedule_compaction(given.table)
    refused(given.storage, proposal, "another table service")
    assert propose(given.storage, ALL, utc_now()).proposal is None, "its file groups are taken"


def test_of_two_plans_that_were_made_at_the_same_time_none_stays_open(given: Written) -> None:
    """Without the table's lock a process that was paused plans beside the next holder, which dies after its request."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None

    journal = CompactionJournal(given.storage)
    theirs = max(journal.numbers(), default=0) + 1

    class Between(PassingStorage):
        """The next holder plans and requests after this one saw that nothing is open."""

        looks = 0

        def list_level(self, prefix: str = "") -> Level:
            self.looks += prefix == CompactionJournal(self).root
            if self.looks == 2 and not given.table.timeline().pending:
                other = propose(given.storage, ALL, utc_now() + timedelta(minutes=5)).proposal
                assert other is not None
                journal.put_plan(theirs, other.record)
                create_requested(given.storage, other.record.compaction, COMPACTION, other.record.content)
            return super().list_level(prefix)

    with pytest.raises(PlanOutdated):
        holder(Between(given.storage)).request(proposal)
    assert journal.numbers()[-2:] == [theirs, theirs + 1]
    assert [*finish(given.storage), *finish(given.storage)] == [End.COMPLETED, End.VOID]
    assert given.table.timeline().pending == ()
    given.unchanged()
    given.goes_on()


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


def test_a_compaction_that_another_writer_has_started_keeps_its_plan(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    record = proposal.record

    class Between(CrashingStorage):
        """Another writer requests a compaction before ours, and begins ours."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            ours = path.endswith(f"{record.compaction}.compaction.requested")
            if ours and not given.table.timeline().pending:
                schedule_compaction(given.table)
            super()._change(path, act)
            if ours:
                create_inflight(given.storage, record.compaction, COMPACTION)

    refused(Between(given.storage, -1, after_effect=False), proposal, "without the table's lock")
    plan = given.storage.get(f".hoodie/timeline/{record.compaction}.compaction.requested")
    assert plan == record.content


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


def test_a_request_that_arrives_after_an_instant_took_its_time_is_void(given: Written) -> None:
    """Readers know a file's instant by its time alone: files of the aborted instant would count as committed."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    with pytest.raises(Crash):
        holder(CrashingStorage(given.storage, 1, after_effect=False)).request(proposal)
    Journal(given.storage, PIPELINE).claim(proposal.record.compaction, Intent(offsets(9, 10), "work", None))
    create_requested(given.storage, proposal.record.compaction, COMPACTION, proposal.record.content)
    assert finish(given.storage) == [End.VOID]
    assert given.table.timeline().pending == ()


def test_a_request_whose_process_died_before_it_looked_is_void_beside_another_one(given: Written) -> None:
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    schedule_compaction(given.table)
    (theirs,) = given.table.timeline().pending
    CompactionJournal(given.storage).put_plan(
        1 + max(CompactionJournal(given.storage).numbers(), default=0), proposal.record
    )
    create_requested(given.storage, proposal.record.compaction, COMPACTION, proposal.record.content)
    assert finish(given.storage) == [End.VOID]
    assert given.table.timeline().pending == (theirs,)


def test_a_request_that_comes_after_its_compaction_was_taken_for_gone_is_deleted(given: Written) -> None:
    """Of two processes that lost the lease one looks before the other's request is there, and decides when it is."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    number = holder(given.storage).request(proposal)
    CompactionJournal(given.storage).mark_done(number, End.GONE)
    holder(given.storage).sweep_old()
    assert given.table.timeline().pending == ()


def test_another_writers_request_with_the_same_time_is_neither_carried_out_nor_deleted(given: Written) -> None:
    """The process that planned is paused before its request, and a scheduler without a lock chooses the same time."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    with pytest.raises(Crash):
        holder(CrashingStorage(given.storage, 1, after_effect=False)).request(proposal)
    schedule_compaction(given.table, time=proposal.record.compaction)
    (theirs,) = given.table.timeline().pending
    content = given.storage.get(path_of(theirs))
    assert content != proposal.record.content
    assert finish(given.storage) == [End.VOID]
    holder(given.storage).sweep_old()
    assert given.table.timeline().pending == (theirs,)
    assert given.storage.get(path_of(theirs)) == content


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


def test_an_instant_that_begins_before_the_request_is_there_makes_it_void(given: Written) -> None:
    """Incremental readers that end with the instant would miss its rows."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    compaction = proposal.record.compaction

    class Between(CrashingStorage):
        """An instant begins while the holder is paused before its request."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            if path.endswith(".compaction.requested") and not given.table.timeline().pending:
                _begin_before(given, compaction)
            super()._change(path, act)

    refused(Between(given.storage, -1, after_effect=False), proposal, "was open at its time")
    assert finish(given.storage) == [End.VOID]
    assert [each.action for each in given.table.timeline().pending] == [DELTA_COMMIT]


def test_a_request_whose_process_died_is_void_if_an_instant_was_open_at_its_time(given: Written) -> None:
    """Also when the instant has completed since."""
    proposal = propose(given.storage, ALL, utc_now()).proposal
    assert proposal is not None
    with pytest.raises(Crash):
        holder(CrashingStorage(given.storage, 1, after_effect=False)).request(proposal)
    instant = _begin_before(given, proposal.record.compaction)
    create_requested(given.storage, proposal.record.compaction, COMPACTION, proposal.record.content)
    later = format_time(parse_time(proposal.record.compaction) + timedelta(seconds=9))
    complete(given.storage, instant, later, CommitMetadata().encode())
    assert finish(given.storage) == [End.VOID]
    assert given.table.timeline().pending == ()


def _begin_before(given: Written, time: str) -> str:
    instant = format_time(parse_time(time) - timedelta(milliseconds=1))
    Journal(given.storage, PIPELINE).claim(instant, Intent(offsets(9, 10), "work", None))
    create_requested(given.storage, instant)
    create_inflight(given.storage, instant)
    return instant
