"""Marker files, by which Hudi's own rollback finds the files of a pending instant."""

from __future__ import annotations

from collections.abc import Iterable

from bucketingest.hudi.naming import TEMP_DIRECTORY, join, split
from bucketingest.storage.agreement import created
from bucketingest.storage.interface import Storage, remove_directories

_SUFFIX = ".marker.CREATE"
_BATCH = 1000
"""Markers deleted by one request: the most that S3 allows."""


def marker_directory(instant_time: str) -> str:
    """Directory of an instant's markers, relative to the table's root."""
    return f"{TEMP_DIRECTORY}/{instant_time}"


def marker_path(instant_time: str, partition_path: str, file_name: str) -> str:
    """Path of the direct marker of one data file.

    The type is CREATE for log files, too: table versions 8 and 9 must not have APPEND markers (Hudi 1.2.0, seen when it
    rolled our instants back). There is no MARKERS.type file for direct markers.
    """
    return f"{marker_directory(instant_time)}/{join(partition_path, file_name)}{_SUFFIX}"


def create_marker(storage: Storage, instant_time: str, partition_path: str, file_name: str) -> None:
    """Mark a data file before it is written. Marking it again is not an error."""
    created(storage, marker_path(instant_time, partition_path, file_name), b"")


def marked_files(storage: Storage, instant_time: str) -> frozenset[str]:
    """Paths, relative to the table's root, of the data files that the instant's direct markers name."""
    prefix = marker_directory(instant_time) + "/"
    paths = (info.path.removeprefix(prefix) for info in storage.list(marker_directory(instant_time)))
    return frozenset(path[: path.rindex(".marker.")] for path in paths if ".marker." in path)


def delete_markers(storage: Storage, instant_time: str, files: Iterable[str] | None = None) -> None:
    """Remove the markers of an instant: after completion, or as one of the last steps of a rollback.

    `files`: the data files, relative to the table's root, if all are known; else the markers are listed. If the storage
    has directories, the markers' directories are deleted too: there is one per instant and partition, and otherwise
    only Hudi's archival removes them.
    """
    if files is None:
        paths = [info.path for info in storage.list(marker_directory(instant_time))]
    else:
        paths = [marker_path(instant_time, *split(file)) for file in files]
    for start in range(0, len(paths), _BATCH):
        storage.delete_many(paths[start : start + _BATCH])
    remove_directories(storage, marker_directory(instant_time))
