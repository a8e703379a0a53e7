"""Reads what storage shows of a compaction of ours."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from itertools import chain
from typing import Final

from bucketingest.hudi.history.archived import is_archived
from bucketingest.hudi.naming import split
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMPACTION, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.compaction.clash import clash
from bucketingest.services.compaction.decide import Facts
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import Decided, PlanRecord
from bucketingest.services.merge.merge_group import MERGE_VERSION
from bucketingest.storage import NotFound, Storage

HEARTBEAT: Final = b"bucketingest"
"""Content of our heartbeats; Hudi's are empty."""


def read_facts(storage: Storage, number: int, record: PlanRecord, now: datetime) -> Facts:
    """The facts of the compaction of this number. Raises what reading a table raises."""
    journal = CompactionJournal(storage)
    timeline = Timeline.load(storage)
    compaction = record.compaction
    found = timeline.find(compaction, COMPACTION)
    if found is not None and found.state is State.INFLIGHT and not storage.exists(requested_path(compaction)):
        found = None  # a process that was paused began it again after another writer had taken it away
    named = rollbacks_of(storage, timeline, compaction)
    round_number, opened = journal.newest_round(number)
    decided = journal.decision(number, round_number) if round_number else None
    plan, go = record.plan(journal.path(number, "plan")), journal.go(number)
    operations = len(plan.operations)
    return Facts(
        go=go,
        done=journal.done(number),
        state=None if found is None else found.state,
        archived=found is None and timeline.is_archived(compaction) and is_archived(storage, compaction),
        completion_time=None if found is None else found.completion_time,
        closed_completion=found is not None
        and found.state is State.COMPLETED
        and _of_older_round(journal, number, round_number, found.completion_time),
        clash=clash(storage, timeline, compaction, plan) if go is None and found is not None else None,
        rollbacks=frozenset(each.request_time for each in named),
        unfinished=any(not each.is_completed for each in named),
        foreign_heartbeat=_foreign_heartbeat(storage, compaction, now),
        round_number=round_number,
        opened=opened,
        decided=decided,
        merges_alike=opened is None or opened.merge_version == MERGE_VERSION,
        complete_results=bool(round_number)
        and journal.result_chunks(number, round_number) >= set(range(len(record.chunks(operations)))),
        files_stand=decided is None or decided.completion_time is None or files_stand(storage, decided),
    )


def requested_path(compaction: str) -> str:
    """Path of the requested file, which has the plan."""
    return path_of(Instant(compaction, COMPACTION, State.REQUESTED))


def files_stand(storage: Storage, decided: Decided) -> bool:
    """Whether every base file that the decision commits is in storage, with its size."""
    sizes = decided_files(decided)
    return sizes_of(storage, sizes) == sizes


def decided_files(decided: Decided) -> dict[str, int]:
    """Path and size in bytes of each base file that the decision commits."""
    if decided.completion_time is None:
        return {}
    commit = CommitMetadata.decode(decided.content, "the decision of a compaction")
    stats = chain.from_iterable(commit.write_stats.values())
    return {stat.path: stat.file_size_in_bytes for stat in stats if stat.path is not None}


def sizes_of(storage: Storage, paths: Collection[str]) -> dict[str, int]:
    """Sizes in bytes of those files that are in storage; one listing for each of their partitions."""
    wanted = frozenset(paths)
    partitions = sorted({split(path)[0] for path in wanted})
    return {info.path: info.size for info in list_data(storage, partitions) if info.path in wanted}


def _of_older_round(journal: CompactionJournal, number: int, newest: int, completion_time: str | None) -> bool:
    """Whether a round before the newest decided this completion time: a paused process completed it too late."""
    decisions = (journal.decision(number, each) for each in range(1, newest))
    return any(each is not None and each.completion_time == completion_time for each in decisions)


def _foreign_heartbeat(storage: Storage, compaction: str, now: datetime) -> bool:
    last = heartbeat.last_beat(storage, compaction)
    if last is None or heartbeat.is_expired(last, now):
        return False
    try:
        return storage.get(heartbeat.heartbeat_path(compaction)) != HEARTBEAT
    except NotFound:
        return False
