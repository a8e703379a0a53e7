"""Deletes what is left of an ended compaction: base files of rounds that were not committed, markers, heartbeat, and
what a paused process puts onto the timeline.

A paused executor may still put a base file of a round that ended. Two base files of one file group and compaction would
be two versions of the same rows: Spark takes either, hudi-rs fails. And two writers without a common lock may both
complete the compaction.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from bucketingest.hudi.history.archived import archived_contents
from bucketingest.hudi.naming import (
    HEARTBEAT_DIRECTORY,
    TEMP_DIRECTORY,
    TIMELINE_DIRECTORY,
    BaseFileName,
    parse_data_file_name,
    split,
)
from bucketingest.hudi.rollback.markers import delete_markers
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, completed_files, path_of
from bucketingest.services.compaction.clash import is_requested, requested_path
from bucketingest.services.compaction.commit import decided_files, sizes_of
from bucketingest.services.compaction.records import CompactionJournal, PlanRecord, round_token
from bucketingest.services.merge.adopted_base import footer_of
from bucketingest.services.protocol.records import OURS, End
from bucketingest.storage import NotFound, Storage, object_names

log = logging.getLogger(__name__)

_GIVEN_UP_AFTER: Final = timedelta(hours=1)
"""Hudi's writers in single-writer mode have no heartbeat."""


@dataclass(frozen=True, slots=True)
class Swept:
    """An ended compaction of which nothing is left over."""

    number: int
    file_groups: int = 0
    """File groups whose base files are in its commit."""
    rows: int = 0
    """Rows of these base files."""


@dataclass(frozen=True, slots=True)
class EndedCompaction:
    """What must be known of an ended compaction to see whether something of it is left over."""

    compaction: str
    end: End
    partitions: frozenset[str]
    """Of its plan."""


def left_over(storage: Storage, journal: CompactionJournal, ended: Mapping[int, EndedCompaction]) -> set[int]:
    """Numbers of those compactions of which `take_off_late` or `sweep` may find something. Deletes nothing.

    These list the timeline and each partition of their plan, and read the history. Most of the compactions of a day
    have nothing left, and here each place is listed once for all of them. What comes later is found the next time.
    """
    if not ended:
        return set()
    numbers: defaultdict[str, list[int]] = defaultdict(list)
    for number, each in ended.items():
        numbers[each.compaction].append(number)
    made: defaultdict[str, set[str]] = defaultdict(set)
    for info in list_data(storage, sorted(frozenset().union(*(each.partitions for each in ended.values())))):
        name = parse_data_file_name(info.path.rpartition("/")[2])
        if isinstance(name, BaseFileName) and name.instant in numbers:
            made[name.instant].add(info.path)
    names = object_names(storage, TIMELINE_DIRECTORY)
    timeline = Timeline.of_file_names(names)
    files = filter(None, map(Instant.try_parse, names))
    completed = Counter(each.request_time for each in files if each.is_completed and each.action == COMMIT)
    traces = {
        path.rpartition("/")[2]
        for level in map(storage.list_level, (TEMP_DIRECTORY, HEARTBEAT_DIRECTORY))
        for path in (*level.directories, *(info.path for info in level.objects))
    }
    return {
        number
        for compaction, same in numbers.items()
        for number in same
        if len(same) > 1
        or compaction in traces
        or completed[compaction] > 1
        or not _is_as_ended(timeline, journal, number, ended[number], made[compaction])
    }


def _is_as_ended(
    timeline: Timeline, journal: CompactionJournal, number: int, ended: EndedCompaction, made: set[str]
) -> bool:
    """Whether timeline and base files are as the compaction's end left them, or a clean and an archival after it."""
    found = timeline.find(ended.compaction, COMMIT)
    if ended.end is not End.COMPLETED:
        return found is None and not made
    if found is None and not timeline.is_archived(ended.compaction):
        return not made
    decided = journal.decision(number, journal.newest_round(number)[0])
    return decided is not None and made <= decided_files(decided).keys()


def sweep(storage: Storage, journal: CompactionJournal, number: int) -> Swept:
    """Delete base files of the compaction that are not in its commit, then markers and heartbeat.

    Lists every partition of the plan. Nothing is deleted while the compaction is pending, or is just leaving the
    timeline, or has completed and is neither there nor in the history: what belongs to it is then not known. Nor in a
    file group whose base file in the commit is gone: another writer, who took the compaction for dead, may be making it
    again. Nor what another writer made in a file group that the commit leaves out: it may have deleted the older files.
    """
    record = journal.plan(number)
    if record is None:
        return Swept(number)
    compaction, groups = record.compaction, record.groups()
    made = []
    # Before the timeline: a process that is paused between must not delete what a round after it makes.
    for info in list_data(storage, sorted({partition_path for partition_path, _ in groups})):
        partition_path, _, file_name = info.path.rpartition("/")
        name = parse_data_file_name(file_name)
        if isinstance(name, BaseFileName) and name.instant == compaction and (partition_path, name.file_id) in groups:
            made.append(info.path)
    timeline = Timeline.load(storage)
    found = timeline.find(compaction, COMMIT)
    if found is not None and not found.is_completed:
        return Swept(number)
    completed = completed_commits(storage, compaction)
    commits = [*completed.values()] or archived_commits(storage, compaction)
    not_complete = journal.done(number) in (End.GONE, End.VOID)  # so the history need not have it
    if not commits and (found is not None or (timeline.is_archived(compaction) and not not_complete)):
        return Swept(number)
    stats = tuple(chain.from_iterable(chain.from_iterable(commit.write_stats.values()) for commit in commits))
    kept = frozenset(stat.path for stat in stats)
    gone = {_file_group(path) for path in kept - set(made) if path is not None}
    left_out = _made_by_others(storage, made, journal.newest_round(number)[0]) if commits else set()
    left_out -= {_file_group(path) for path in kept if path is not None}
    late = [path for path in made if path not in kept and _file_group(path) not in gone | left_out]
    if late and completed.keys() ^ completed_files(storage, COMMIT, compaction):
        return Swept(number, len(stats), sum(stat.num_writes for stat in stats))  # another writer completed it, too
    storage.delete_many(late)
    if late:
        log.warning("base files of an ended round deleted", extra={"compaction": compaction, "files": late})
    delete_markers(storage, compaction)
    heartbeat.stop(storage, compaction)
    return Swept(number, len(stats), sum(stat.num_writes for stat in stats))


def _file_group(path: str) -> tuple[str, str]:
    partition_path, file_name = split(path)
    name = parse_data_file_name(file_name)
    return partition_path, name.file_id if name is not None else ""


def _made_by_others(storage: Storage, made: Iterable[str], rounds: int) -> set[tuple[str, str]]:
    """File groups with a whole base file that no round of ours made. `rounds`: how many there were."""
    tokens = set(map(round_token, range(1, rounds + 1)))
    names = {path: parse_data_file_name(split(path)[1]) for path in made}
    theirs = [path for path, name in names.items() if name is not None and name.write_token not in tokens]
    return {_file_group(path) for path in theirs if footer_of(storage, path) is not None}


def completed_commits(storage: Storage, compaction: str) -> dict[Instant, CommitMetadata]:
    """Every completed file of the compaction on the timeline. Raises InvalidTable."""
    found = {}
    for instant in completed_files(storage, COMMIT, compaction):
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
    ones another writer's, which we have not made. Only if there are two, files are read and partitions listed. Raises
    InvalidTable, and as the lock does.
    """
    if len(completed_files(storage, COMMIT, compaction)) < 2:
        return
    with lock():
        found = completed_commits(storage, compaction)
        ranks = {
            instant: (_stands(storage, commit), OURS not in commit.extra_metadata, instant.completion_time or "")
            for instant, commit in found.items()
        }
        for instant in sorted(found, key=lambda each: ranks[each])[:-1]:
            log.error("compaction was completed twice: one is withdrawn", extra={"instant": instant.file_name})
            storage.delete(path_of(instant))


def take_off_late(storage: Storage, record: PlanRecord, end: End, lock: Lock, now: datetime) -> None:
    """Of a compaction that ended: a second completed file, its request if nobody carries it out, or has stopped to for
    an hour, the inflight file if its plan was taken away; without a plan, that one keeps every service from its work.
    Another writer's request with its time stays. Raises as `keep_one`.
    """
    compaction = record.compaction
    keep_one(storage, compaction, lock)
    if end is End.COMPLETED:
        return
    with lock():
        found = Timeline.load(storage).find(compaction, COMPACTION)
        if found is None or found.is_completed:
            return
        if found.state is State.INFLIGHT:
            if storage.exists(requested_path(compaction)) and not _is_given_up(storage, record, now):
                return
            storage.delete(path_of(found))
        if is_requested(storage, record):
            storage.delete(requested_path(compaction))


def _is_given_up(storage: Storage, record: PlanRecord, now: datetime) -> bool:
    """Whether another writer began our plan after its end, and shows no life: it may fail for ever, since log files of
    the plan are gone, and two pending operations of a file group make every reader fail.
    """
    began = storage.head(path_of(Instant(record.compaction, COMPACTION, State.INFLIGHT))).modified
    shows_no_life = heartbeat.is_expired(heartbeat.last_beat(storage, record.compaction), now)
    return is_requested(storage, record) and shows_no_life and now - began > _GIVEN_UP_AFTER


def _stands(storage: Storage, commit: CommitMetadata) -> bool:
    paths = {stat.path for stats in commit.write_stats.values() for stat in stats if stat.path is not None}
    return sizes_of(storage, paths).keys() == paths
