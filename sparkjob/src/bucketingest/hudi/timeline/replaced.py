"""File groups that a completed instant replaced: their files stay until they are cleaned, but readers skip them.

Hudi's insert_overwrite, delete_partition and clustering replace whole file groups (Hudi 1.2.0:
`partitionToReplaceFileIds` in the metadata of a replacecommit).
"""

from __future__ import annotations

from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant
from bucketingest.hudi.timeline.ocf import read_record
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.interface import Storage


def replaced_file_groups(storage: Storage, timeline: Timeline, before: str | None = None) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of every file group that a completed instant on the active timeline replaced; with
    `before` only those replaced by instants that completed before this time.

    Replaced files are cleaned before their instant is archived. Opens a file per replacecommit. Raises `InvalidTable`.
    """
    replaced: set[tuple[str, str]] = set()
    for instant in timeline.completed:
        if instant.action == REPLACE_COMMIT and (before is None or (instant.completion_time or "") < before):
            replaced |= replaced_by(storage, instant)
    return frozenset(replaced)


def replaced_by(storage: Storage, instant: Instant) -> frozenset[tuple[str, str]]:
    """(partition path, file id) of every file group that a completed replacecommit replaced. Raises `InvalidTable`."""
    path = path_of(instant)
    record = read_record(storage.get(path), path)
    groups = (record.get("partitionToReplaceFileIds") or {}).items()
    return frozenset((partition_path, file_id) for partition_path, file_ids in groups for file_id in file_ids)
