"""What a clustering commits, and why it must not: its file groups are no longer what was merged."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from bucketingest.hudi.naming import BaseFileName, join, split
from bucketingest.hudi.plans.clean_plan import read_clean_plan
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.plans.replaced import clustered_file_groups, replaced_by, replacing_commit
from bucketingest.hudi.rollback.rollback import rollbacks_of, rolled_back_since
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.commit_metadata import SCHEMA_KEY, CommitMetadata
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMPACTION,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    RESTORE,
    WRITE_ACTIONS,
    Instant,
)
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.clustering.records import ClusteringPlan
from bucketingest.services.compaction.commit import undecided
from bucketingest.services.protocol.records import OURS
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.records import CommitDecision

_OPERATION_TYPE: Final = "CLUSTER"
"""To Hudi's readers: no new rows, and columns that may be older than the table's."""
_PLANNED: Final = (COMPACTION, LOG_COMPACTION, CLUSTERING)
"""Pending actions that say which file groups they take."""


def clustering_commit(plan: ClusteringPlan, stats: Collection[WriteStat], replaced: Iterable[Group]) -> bytes:
    """Content of the completed file. It also replaces the new file groups that it leaves out: their base files are
    there, with the name of a completed instant, until they are deleted, and readers must not show them.
    """
    chosen = {(stat.partition_path, stat.file_id) for stat in stats}
    left_out = {(each.partition_path, each.file_id) for each in plan.new_groups} - chosen
    return replacing_commit(stats, left_out.union(replaced), {SCHEMA_KEY: plan.schema, OURS: "1"}, _OPERATION_TYPE)


def closed_commit(plan: ClusteringPlan) -> bytes:
    """Content of a completed file that takes the name of the clustering's, and changes nothing that readers see."""
    return clustering_commit(plan, (), ())


def hindrance(storage: Storage, timeline: Timeline, plan: ClusteringPlan) -> str | None:
    """Why nothing of the clustering may be committed now, in words; None if nothing is in its way."""
    return next(_hindrances(storage, timeline, plan), None)


def _hindrances(storage: Storage, timeline: Timeline, plan: ClusteringPlan) -> Iterator[str]:
    if timeline.first_active != plan.first_active:
        yield "instants were archived or removed since it was planned"
    completed = {instant.request_time for instant in timeline.completed_commits}
    if gone := plan.known - completed:
        yield f"instant {max(gone)} is no longer on the timeline"
    for instant in timeline.instants:
        if instant.request_time == plan.instant and instant.action != REPLACE_COMMIT:
            yield f"{instant.action} {instant.request_time} has its time"
        elif instant.action == RESTORE and not instant.is_completed:
            yield f"restore {instant.request_time} is pending"
    for instant in timeline.pending:
        is_write = instant.action in WRITE_ACTIONS and instant.action not in _PLANNED
        if is_write and instant.request_time != plan.instant:
            yield f"{instant.action} {instant.request_time} is pending: it may write to any file group"
    if lost := plan.merged_instants & rolled_back_since(storage, timeline, plan.instant):
        yield f"another writer rolled back instant {max(lost)} after it was complete"
    for rollback in rollbacks_of(storage, timeline, plan.instant):
        yield f"another writer rolled it back: {rollback.request_time}"
    if (open_instant := undecided(storage, timeline)) is not None:
        yield open_instant


def written_since(storage: Storage, timeline: Timeline, plan: ClusteringPlan) -> frozenset[Group]:
    """File groups that other instants wrote to or replaced since the clustering was planned, or are about to merge."""
    return frozenset(_written_since(storage, timeline, plan))


def _written_since(storage: Storage, timeline: Timeline, plan: ClusteringPlan) -> Iterator[Group]:
    for instant in timeline.completed_commits:
        if instant.request_time not in plan.known and instant.request_time != plan.instant:
            yield from _groups_of(storage, instant)
    for instant in timeline.pending:
        if instant.action in (COMPACTION, LOG_COMPACTION):
            planned = read_compaction_plan(storage, instant.request_time, instant.action)
            yield from (operation.group for operation in planned.operations) if planned is not None else ()
        elif instant.action == CLUSTERING:
            yield from clustered_file_groups(storage, instant)


def _groups_of(storage: Storage, instant: Instant) -> Iterator[Group]:
    path = path_of(instant)
    data = storage.get(path)
    yield from ((file.partition_path, file.file_id) for file in CommitMetadata.decode_files(data, path))
    if instant.action == REPLACE_COMMIT:
        yield from replaced_by(storage, instant)


def is_cleaned(storage: Storage, timeline: Timeline, plan: ClusteringPlan, old: Iterable[Group]) -> bool:
    """Whether a clean took, or will take, the newest slice of an old group: Hudi deletes replaced groups whole."""
    pending = (read_clean_plan(storage, each.request_time) for each in timeline.pending if each.action == CLEAN)
    doomed = {path for clean in pending if clean is not None for path in clean.paths}
    groups, listed = set(old), dict[str, set[str]]()
    for new in plan.new_groups:
        if new.replaced.isdisjoint(groups):
            continue
        path = new.partition_path
        if path not in listed:
            listed[path] = {info.path for info in storage.list_level(path).objects} - doomed
        names = [each for at in listed[path] if (each := BaseFileName.try_parse(split(at)[1])) is not None]
        for files in new.slices:
            wanted = {join(path, name) for name in (files.base_file, *files.log_files) if name}
            base = BaseFileName.try_parse(files.base_file or "")
            # With a newer base file, which has their rows, a clean may take the older ones.
            newer = (
                each
                for each in names
                if each.file_id == files.file_id and (base is None or each.instant > base.instant)
            )
            if not wanted <= listed[path] and not any(newer):
                return True
    return False


def missing_file(storage: Storage, stats: Iterable[WriteStat]) -> str | None:
    """The first base file of these that is not in storage as it was made."""
    for stat in stats:
        try:
            size = storage.head(stat.path or "").size
        except NotFound:
            size = -1
        if size != stat.file_size_in_bytes:
            return stat.path
    return None


def decided_stats(decided: CommitDecision) -> tuple[WriteStat, ...]:
    """The base files that a decision commits."""
    commit = CommitMetadata.decode(decided.content, "the decision of a clustering")
    return tuple(stat for stats in commit.write_stats.values() for stat in stats)


def decided_groups(plan: ClusteringPlan, decided: CommitDecision) -> tuple[frozenset[Group], frozenset[Group]]:
    """The old file groups that a decision replaces, and the new ones."""
    new = {(stat.partition_path or "", stat.file_id) for stat in decided_stats(decided)}
    chosen = [each for each in plan.new_groups if (each.partition_path, each.file_id) in new]
    return frozenset().union(*(each.replaced for each in chosen)), frozenset(new)
