"""Deletes what is left of an ended compaction: base files of rounds that were not committed, markers, heartbeat, and
what a paused process puts onto the timeline.

A paused executor may still put a base file of a round that ended. Two base files of one file group and compaction would
be two versions of the same rows: Spark takes either, hudi-rs fails. And two writers without a common lock may both
complete the compaction.
"""

from __future__ import annotations

import logging
from itertools import chain

from bucketingest.hudi.history.archived import archived_contents
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, BaseFileName, parse_data_file_name
from bucketingest.hudi.rollback.markers import delete_markers
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.facts import requested_path, sizes_of
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import OURS, End, PlanRecord
from bucketingest.storage import NotFound, Storage

log = logging.getLogger(__name__)


def sweep(storage: Storage, journal: CompactionJournal, number: int, record: PlanRecord) -> tuple[WriteStat, ...]:
    """Delete base files of the compaction that are not in its commit, then markers and heartbeat; returns the
    statistics of those that are.

    Nothing is deleted while the compaction is pending, or older than the timeline and not in the history: what belongs
    to it is then not known.
    """
    timeline = Timeline.load(storage)
    compaction = record.compaction
    found = timeline.find(compaction, COMMIT)
    if found is None:
        commits = archived_commits(storage, compaction)
        unknown = not commits and timeline.is_archived(compaction)
    else:
        commits = list(completed_commits(storage, compaction).values())
        unknown = not found.is_completed
    if unknown:
        return ()
    stats = tuple(chain.from_iterable(chain.from_iterable(commit.write_stats.values()) for commit in commits))
    kept = frozenset(stat.path for stat in stats)
    plan = record.plan(journal.path(number, "plan"))
    groups = {operation.group for operation in plan.operations}
    late = []
    for info in list_data(storage, sorted({partition_path for partition_path, _ in groups})):
        partition_path, _, file_name = info.path.rpartition("/")
        name = parse_data_file_name(file_name)
        is_ours = isinstance(name, BaseFileName) and name.instant == compaction
        if is_ours and name is not None and (partition_path, name.file_id) in groups and info.path not in kept:
            late.append(info.path)
    storage.delete_many(late)
    if late:
        log.warning("base files of an ended round deleted", extra={"compaction": compaction, "files": late})
    delete_markers(storage, compaction)
    heartbeat.stop(storage, compaction)
    return stats


def completed_commits(storage: Storage, compaction: str) -> dict[Instant, CommitMetadata]:
    """Every completed file of the compaction on the timeline. Raises InvalidTable."""
    found = {}
    for info in storage.list_level(TIMELINE_DIRECTORY).objects:
        instant = Instant.try_parse(info.path.rpartition("/")[2])
        if instant is not None and instant.is_completed and instant.key == (compaction, COMMIT):
            try:
                found[instant] = CommitMetadata.decode(storage.get(path_of(instant)), path_of(instant))
            except NotFound:  # deleted since
                continue
    return found


def archived_commits(storage: Storage, compaction: str) -> list[CommitMetadata]:
    """What the history has of the compaction. Raises InvalidTable."""
    contents = archived_contents(storage, compaction, COMMIT)
    return [CommitMetadata.decode(content, f"{compaction} in the history") for content in contents]


def keep_one(storage: Storage, compaction: str, lock: Lock) -> None:
    """Delete every completed file of the compaction but one. The one stays whose base files are all there, of two such
    ones another writer's, which we have not made. Raises InvalidTable, and as the lock does.
    """
    if len(completed_commits(storage, compaction)) < 2:
        return
    with lock():
        found = completed_commits(storage, compaction)
        ranks = {
            instant: (_stands(storage, commit), OURS not in commit.extra_metadata, instant.completion_time or "")
            for instant, commit in found.items()
        }
        for instant in sorted(found, key=lambda each: ranks[each])[:-1]:
            log.error("compaction was completed twice: one is taken back", extra={"instant": instant.file_name})
            storage.delete(path_of(instant))


def take_off_late(storage: Storage, compaction: str, end: End, lock: Lock) -> None:
    """Of a compaction that ended: a second completed file, the request if nobody carries it out, the inflight file if
    its plan was taken away; without a plan, that one keeps every service from its work. Raises as `keep_one`.
    """
    keep_one(storage, compaction, lock)
    if end is End.COMPLETED:
        return
    with lock():
        found = Timeline.load(storage).find(compaction, COMPACTION)
        if found is None or found.is_completed:
            return
        if found.state is State.INFLIGHT and not storage.exists(requested_path(compaction)):
            storage.delete(path_of(found))
        elif found.state is State.REQUESTED and end is End.VOID:
            storage.delete(requested_path(compaction))


def _stands(storage: Storage, commit: CommitMetadata) -> bool:
    paths = {stat.path for stats in commit.write_stats.values() for stat in stats if stat.path is not None}
    return sizes_of(storage, paths).keys() == paths
