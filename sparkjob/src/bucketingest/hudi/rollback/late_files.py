"""Deletes what an executor that was cut off still wrote for an instant that was rolled back before."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.naming import HEARTBEAT_DIRECTORY, TEMP_DIRECTORY, parse_data_file_name
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.hudi.rollback.plan import files_of_instant
from bucketingest.hudi.rollback.rollback import (
    DEFAULT_OPTIONS,
    RollbackOptions,
    compacted_at,
    delete_marks,
    files_to_delete,
    newest_state,
    refuse_completed,
)
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage.interface import Storage

log = logging.getLogger(__name__)


def delete_late_files(
    storage: Storage, instant_time: str, options: RollbackOptions = DEFAULT_OPTIONS
) -> tuple[str, ...]:
    """Delete late files of an instant that was rolled back before; returns their paths.

    An executor that was cut off may still finish a write, its marker first. Its file would count as committed once
    archival has passed the instant's time. Raises `RollbackError` if the instant is pending, completed or archived.
    """
    timeline = Timeline.load(storage)
    refuse_completed(storage, timeline, instant_time)
    if newest_state(timeline, instant_time) is not None:
        raise RollbackError(f"instant {instant_time} is still pending: roll it back first")
    compacted = compacted_at(storage, timeline, instant_time)
    files = files_to_delete(storage, instant_time, options)
    paths = tuple(file.path for file in files if compacted is None or compacted.leaves(file.path))
    storage.delete_many(paths)
    if compacted is None:
        delete_marks(storage, instant_time)
    return paths


def find_late_files(storage: Storage, instants: Collection[str]) -> dict[str, list[str]]:
    """Paths of the data files of these instants, listed or marked, by instant; with a heartbeat or markers alone an
    instant has none. Lists the whole table once.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for info in list_data(storage) if instants else ():
        name = parse_data_file_name(info.path.rpartition("/")[2])
        if name is not None and name.instant in instants:
            found[name.instant].add(info.path)
    for directory in storage.list_level(TEMP_DIRECTORY).directories if instants else ():
        if (instant := directory.rpartition("/")[2]) in instants:
            found[instant] |= {file.path for file in files_of_instant(marked_files(storage, instant), (), instant)}
    for info in storage.list_level(HEARTBEAT_DIRECTORY).objects if instants else ():
        if (instant := info.path.rpartition("/")[2]) in instants:
            found[instant] |= set()
    return {instant: sorted(found[instant]) for instant in sorted(found)}


def sweep_late_files(
    storage: Storage, timeline: Timeline, aborted: Collection[str], found: Mapping[str, Sequence[str]] | None = None
) -> list[str]:
    """Delete every file of instants that were aborted; returns the paths. Their rows are in other instants, so also if
    another writer has archived one. `found`: their files, if the table was listed before.

    A compaction may have the time of one: its base files look like late ones.
    """
    late = []
    for instant, paths in (find_late_files(storage, aborted) if found is None else found).items():
        compacted = compacted_at(storage, timeline, instant)
        doomed = [path for path in paths if compacted is None or compacted.leaves(path)]
        storage.delete_many(doomed)
        if compacted is None:
            delete_marks(storage, instant)
        if doomed:
            log.warning("swept late files", extra={"instant": instant, "files": doomed})
        late += doomed
    return late
