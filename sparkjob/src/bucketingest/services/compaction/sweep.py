"""Deletes what is left of an ended compaction: base files of rounds that were not committed, markers, heartbeat.

A paused executor may still put a base file of a round that ended. Two base files of one file group and compaction would
be two versions of the same rows: Spark takes either, hudi-rs fails.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import chain

from bucketingest.hudi.naming import BaseFileName, parse_data_file_name
from bucketingest.hudi.rollback.markers import delete_markers
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.storage import Storage

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Swept:
    """An ended compaction of which nothing is left over."""

    number: int
    file_groups: int = 0
    """File groups whose base files are in its commit."""
    rows: int = 0
    """Rows of these base files."""


def sweep(storage: Storage, journal: CompactionJournal, number: int) -> Swept:
    """Delete base files of the compaction that are not in its commit, then markers and heartbeat.

    Lists every partition of the plan. Nothing is deleted while the compaction is pending or archived: what belongs to
    it is then not known.
    """
    record = journal.plan(number)
    if record is None:
        return Swept(number)
    timeline = Timeline.load(storage)
    compaction = record.compaction
    found = timeline.find(compaction, COMMIT)
    if (found is not None and not found.is_completed) or (found is None and timeline.is_archived(compaction)):
        return Swept(number)
    stats: tuple[WriteStat, ...] = ()
    if found is not None:
        commit = CommitMetadata.decode(storage.get(path_of(found)), path_of(found))
        stats = tuple(chain.from_iterable(commit.write_stats.values()))
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
    return Swept(number, len(stats), sum(stat.num_writes for stat in stats))
