"""Which files the Iceberg table should have: the newest completed base file of each file group, with its rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import pyarrow.parquet as pq

from bucketingest.hudi.naming import BaseFileName, join, parse_data_file_name
from bucketingest.hudi.plans.replaced import replaced_by, replaced_file_groups
from bucketingest.hudi.table.file_view import DataFile, load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage
from bucketingest.storage.object_file import ObjectFile

_FOOTERS_AT_ONCE: Final = 16


def base_files(storage: Storage, timeline: Timeline, partitions: Collection[str] | None = None) -> dict[str, DataFile]:
    """By path: what Hudi's read-optimized query reads, of these partitions or of all.

    Load the timeline before: then no file counts as completed too early.
    """
    view = load_file_view(storage, timeline, None if partitions is None else sorted(partitions))
    replaced = replaced_file_groups(storage, timeline)
    found: dict[str, DataFile] = {}
    for group in view.groups:
        if group.partition_path in view.marked_partitions and (group.partition_path, group.file_id) not in replaced:
            bases = (each.base_file for each in reversed(group.slices))
            newest = next((base for base in bases if base is not None), None)
            if newest is not None:
                found[newest.path] = newest
    return found


def row_counts(storage: Storage, timeline: Timeline, files: Collection[DataFile]) -> dict[str, int]:
    """By path. A commit says it for all its files at once; the footers say it for those of an archived one."""
    instants = {file.instant for file in files}
    counts: dict[str, int] = {}
    for commit in timeline.completed_commits:
        if commit.request_time in instants:
            path = path_of(commit)
            with suppress(NotFound):  # archived since the timeline was loaded
                written = CommitMetadata.decode_files(storage.get(path), path)
                counts |= {join(each.partition_path, each.name): each.rows_in_file for each in written}
    others = [file for file in files if not counts.get(file.path)]
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        counts |= zip((file.path for file in others), pool.map(lambda file: _rows(storage, file), others), strict=True)
    return {file.path: counts[file.path] for file in files}


def _rows(storage: Storage, file: DataFile) -> int:
    return pq.read_metadata(ObjectFile(storage, file.path, file.size)).num_rows


def partitions_with_new_files(storage: Storage, commits: Iterable[Instant]) -> set[str]:
    """Paths of the partitions in which one of these commits wrote base files or replaced file groups. Raises NotFound
    for a commit that is archived meanwhile.
    """
    paths: set[str] = set()
    for commit in commits:
        path = path_of(commit)
        written = CommitMetadata.decode_files(storage.get(path), path)
        paths.update(
            each.partition_path for each in written if isinstance(parse_data_file_name(each.name), BaseFileName)
        )
        if commit.action == REPLACE_COMMIT:
            paths.update(partition for partition, _ in replaced_by(storage, commit))
    return paths
