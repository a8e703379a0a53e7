"""Savepoints: moments whose files no table service may delete, because someone may want to return to them."""

from __future__ import annotations

from bucketingest.hudi.naming import join
from bucketingest.hudi.timeline.instant import SAVEPOINT, Instant
from bucketingest.hudi.timeline.ocf import read_record
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.interface import Storage


def savepointed_files(storage: Storage, timeline: Timeline) -> dict[str, frozenset[str]]:
    """Request time of each completed savepoint -> the files that it keeps, relative to the table's root.

    Opens a file per savepoint. Raises `InvalidTable`, and `NotFound` if one was deleted since the timeline was loaded.
    """
    return {
        instant.request_time: files_of_savepoint(storage, instant)
        for instant in timeline.completed
        if instant.action == SAVEPOINT
    }


def files_of_savepoint(storage: Storage, savepoint: Instant) -> frozenset[str]:
    """The files that a completed savepoint keeps (Hudi 1.2.0: HoodieSavepointMetadata, names by partition)."""
    path = path_of(savepoint)
    record = read_record(storage.get(path), path)
    return frozenset(
        join(partition_path, name)
        for partition_path, each in (record.get("partitionMetadata") or {}).items()
        for name in each["savepointDataFile"]
    )
