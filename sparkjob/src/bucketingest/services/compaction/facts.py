"""Reads what storage shows of a compaction that bucketingest planned."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from bucketingest.hudi.history.archived import archived_completion_times, is_archived
from bucketingest.hudi.naming import LogFileName, parse_data_file_name
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.rollback.rollback import rollbacks_of, rolled_back_since
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, State
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compaction.clash import clash, requested_path
from bucketingest.services.compaction.commit import Ready
from bucketingest.services.compaction.decide import Facts
from bucketingest.services.compaction.records import CompactionJournal, PlanRecord, Round
from bucketingest.services.merge.merge_group import MERGE_VERSION
from bucketingest.services.protocol.records import HEARTBEAT
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.records import CommitDecision


def read_facts(storage: Storage, number: int, record: PlanRecord, now: datetime, ready: Ready | None) -> Facts:
    """The facts of the compaction of this number. Lists no partition: `ready` says which base files are in storage, if
    it is of the newest round, as undecided or decided as that is now, and nobody has rolled the compaction back since:
    a rollback is on the timeline, or has been archived, but has taken the inflight file. Raises what reading a table
    raises.
    """
    journal = CompactionJournal(storage)
    timeline = Timeline.load(storage)
    compaction = record.compaction
    found = timeline.find(compaction, COMPACTION)
    if found is not None and found.state is State.INFLIGHT and not storage.exists(requested_path(compaction)):
        found = None  # a process that was paused began it again after another writer had taken it away
    is_pending = found is not None and not found.is_completed
    named = rollbacks_of(storage, timeline, compaction)
    round_number, opened = journal.newest_round(number)
    decided = journal.decision(number, round_number) if round_number else None
    go = journal.go(number)
    seen = frozenset((each.request_time, each.is_completed) for each in named)
    is_decided = isinstance(decided, CommitDecision)
    is_now = ready is not None and (ready.number, ready.round_number, ready.rollbacks, ready.decided) == (
        number,
        round_number,
        seen,
        is_decided,
    )
    if found is not None and found.state is State.REQUESTED:
        is_now = False
    return Facts(
        go=go,
        done=journal.done(number),
        state=None if found is None else found.state,
        archived=found is None and timeline.is_archived(compaction) and is_archived(storage, compaction, COMMIT),
        completion_time=None if found is None else found.completion_time,
        closed_completion=found is not None
        and found.state is State.COMPLETED
        and _of_older_round(journal, number, round_number, found.completion_time),
        clash=clash(storage, timeline, record) if go is None and found is not None else None,
        rollbacks=frozenset(each.request_time for each in named),
        unfinished=any(not each.is_completed for each in named),
        foreign_heartbeat=_foreign_heartbeat(storage, compaction, now),
        lost=lost_groups(storage, timeline, record, opened) if is_pending else frozenset(),
        round_number=round_number,
        opened=opened,
        decided=decided,
        merges_alike=opened is None or opened.merge_version == MERGE_VERSION,
        complete_results=bool(round_number)
        and journal.result_chunks(number, round_number) >= set(range(len(record.chunks()))),
        files_stand=ready.files_stand if ready is not None and is_now else None,
    )


def lost_groups(storage: Storage, timeline: Timeline, record: PlanRecord, opened: Round | None) -> frozenset[Group]:
    """The plan's file groups whose base or log files belong to instants that were rolled back, or are no longer on the
    timeline: readers do not see these rows, so a base file must not have them. Raises what reading a table raises.
    """
    added = dict(opened.added) if opened is not None else {}
    late = frozenset(LogFileName.parse(name).instant for names in added.values() for name in names)
    merged = record.known | late
    completed = frozenset(instant.request_time for instant in timeline.completed_commits)
    removed = {time for time in merged - completed if not timeline.is_archived(time)}
    removed -= archived_completion_times(storage, removed).keys()  # an older compaction that came late hides them
    lost = merged & (removed | rolled_back_since(storage, timeline, record.compaction))
    if not lost:
        return frozenset()
    operations = record.plan(f"the plan of compaction {record.compaction}").operations
    return frozenset(
        each.group for each in operations if not lost.isdisjoint(_instants(each, added.get(each.group, ())))
    )


def _instants(operation: CompactionOperation, added: Iterable[str]) -> set[str]:
    names = (operation.base_file, *operation.log_files, *added)
    parsed = (parse_data_file_name(name) for name in names if name is not None)
    return {name.instant for name in parsed if name is not None}


def _of_older_round(journal: CompactionJournal, number: int, newest: int, completion_time: str | None) -> bool:
    """Whether a round before the newest decided this completion time: a paused process completed it too late."""
    decisions = (journal.decision(number, each) for each in range(1, newest))
    return any(isinstance(each, CommitDecision) and each.completion_time == completion_time for each in decisions)


def _foreign_heartbeat(storage: Storage, compaction: str, now: datetime) -> bool:
    last = heartbeat.last_beat(storage, compaction)
    if last is None or heartbeat.is_expired(last, now):
        return False
    try:
        return storage.get(heartbeat.heartbeat_path(compaction)) != HEARTBEAT
    except NotFound:
        return False
