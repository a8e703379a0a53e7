"""Deletes what an executor that was cut off still wrote for an instant that was rolled back before."""

from __future__ import annotations

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.rollback.rollback import (
    DEFAULT_OPTIONS,
    RollbackOptions,
    delete_marks,
    files_to_delete,
    newest_state,
    refuse_completed,
)
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.interface import Storage


def delete_late_files(
    storage: Storage, instant_time: str, options: RollbackOptions = DEFAULT_OPTIONS, *, superseded: bool = False
) -> tuple[str, ...]:
    """Delete late files of an instant that was rolled back before; returns their paths.

    An executor that was cut off may still finish a write, its marker first. Its file would count as committed once
    archival has passed the instant's time. `superseded`: the rows are in other instants, so files are deleted even if a
    paused driver has completed the instant after its rollback, and another writer may have archived it. Raises
    `RollbackError` if the instant is pending, or completed or archived and not superseded.
    """
    timeline = Timeline.load(storage)
    target = newest_state(timeline, instant_time)
    if not superseded:
        refuse_completed(storage, timeline, instant_time)
    if target is not None and not target.is_completed:
        raise RollbackError(f"instant {instant_time} is still pending: roll it back first")
    paths = tuple(file.path for file in files_to_delete(storage, instant_time, options))
    storage.delete_many(paths)
    delete_marks(storage, instant_time)
    return paths
