"""Reads from a table's files what the choice needs to know, newest commits first: most of it is in those."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import chain

from bucketingest.hudi.plans.replaced import replaced_by
from bucketingest.hudi.table.file_view import FileView, load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.archive.choose import ArchiveFacts
from bucketingest.storage import Storage
from bucketingest.write.instants.commit_content import RANGES
from bucketingest.write.pipeline_names import PIPELINE


def read_facts(storage: Storage, timeline: Timeline, old: Sequence[Instant], retired: Collection[str]) -> ArchiveFacts:
    """The facts about the table of this timeline. Lists the whole table; opens the completed files of the old writes,
    and newer ones until each pipeline of the old ones is found there.

    `old`: the writes that may be archived; `retired`: pipelines whose position was written elsewhere. Raises NotFound
    if another writer archives meanwhile, and InvalidTable.
    """
    return ArchiveFacts(
        load_file_view(storage, timeline),
        newest_positions(storage, timeline, old, retired),
        _schema(storage, timeline),
        {
            instant.request_time: replaced_by(storage, instant)
            for instant in timeline.completed
            if instant.action == REPLACE_COMMIT
        },
    )


def newest_positions(
    storage: Storage, timeline: Timeline, old: Sequence[Instant], retired: Collection[str]
) -> dict[str, str]:
    """Request time of the newest position, of each pipeline with an old instant: only these can lose theirs."""
    positions: dict[str, str] = {}
    for instant in old:  # ascending: the newest remains
        if (pipeline := _pipeline(storage, instant)) is not None and pipeline not in retired:
            positions[pipeline] = instant.request_time
    wanted = set(positions)
    newest_old = old[-1].request_time if old else ""
    writes = sorted(timeline.completed_commits, key=lambda instant: instant.request_time, reverse=True)
    for instant in writes:
        if not wanted or instant.request_time <= newest_old:
            break
        pipeline = _pipeline(storage, instant)
        if pipeline in wanted:
            wanted.remove(pipeline)
            positions[pipeline] = instant.request_time
    return positions


def _pipeline(storage: Storage, instant: Instant) -> str | None:
    path = path_of(instant)
    extra = CommitMetadata.decode_extra(storage.get(path), path)
    return extra.get(PIPELINE) if RANGES in extra else None


def _schema(storage: Storage, timeline: Timeline) -> str | None:
    for instant in reversed(timeline.completed_commits):
        path = path_of(instant)
        if CommitMetadata.decode_schema(storage.get(path), path):
            return instant.request_time
    return None


def files_of(view: FileView, instants: Collection[str]) -> dict[str, list[str]]:
    """Paths of the data files of these instants, by instant; those without any are left out. Pure."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for group in view.groups if instants else ():
        slices = ((*([each.base_file] if each.base_file else []), *each.log_files) for each in group.slices)
        for file in chain(group.uncommitted, *slices):
            if file.instant in instants:
                found[file.instant].append(file.path)
    return dict(found)
