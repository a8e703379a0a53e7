"""Reads what storage shows of a compaction of ours."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from bucketingest.hudi.history.archived import is_archived
from bucketingest.hudi.naming import split
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMPACTION, State
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compaction.decide import Facts
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import Decided, PlanRecord
from bucketingest.storage import NotFound, Storage

HEARTBEAT: Final = b"bucketingest"
"""Content of our heartbeats; Hudi's are empty."""


def read_facts(storage: Storage, number: int, record: PlanRecord, now: datetime) -> Facts:
    """The facts of the compaction of this number. Raises what reading a table raises."""
    journal = CompactionJournal(storage)
    timeline = Timeline.load(storage)
    compaction = record.compaction
    found = timeline.find(compaction, COMPACTION)
    named = rollbacks_of(storage, timeline, compaction)
    round_number, opened = journal.newest_round(number)
    decided = journal.decision(number, round_number) if round_number else None
    operations = len(record.plan(journal.path(number, "plan")).operations)
    return Facts(
        go=journal.go(number),
        done=journal.done(number),
        state=None if found is None else found.state,
        archived=found is None and timeline.is_archived(compaction) and is_archived(storage, compaction),
        completion_time=None if found is None else found.completion_time,
        closed_completion=found is not None
        and found.state is State.COMPLETED
        and _of_older_round(journal, number, round_number, found.completion_time),
        rollbacks=frozenset(each.request_time for each in named),
        unfinished=any(not each.is_completed for each in named),
        foreign_heartbeat=_foreign_heartbeat(storage, compaction, now),
        round_number=round_number,
        opened=opened,
        decided=decided,
        complete_results=bool(round_number)
        and journal.result_chunks(number, round_number) >= set(range(len(record.chunks(operations)))),
        files_stand=decided is None or decided.completion_time is None or files_stand(storage, decided),
    )


def files_stand(storage: Storage, decided: Decided) -> bool:
    """Whether every base file that the decision commits is in storage, with its size."""
    commit = CommitMetadata.decode(decided.content, "the decision of a compaction")
    sizes = {stat.path: stat.file_size_in_bytes for stats in commit.write_stats.values() for stat in stats}
    stored = sizes_of(storage, [path for path in sizes if path is not None])
    return all(stored.get(path) == size for path, size in sizes.items() if path is not None)


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
