"""Markers, by which Hudi's own rollback finds the files of a pending instant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from bucketingest.hudi.naming import TEMP_DIRECTORY, join
from bucketingest.storage.agreement import create_or_get, created, get_if_there
from bucketingest.storage.interface import Storage, remove_directories
from bucketingest.storage.paths import path_problem

_SUFFIX: Final = ".marker.CREATE"
"""CREATE for log files, too: table versions 8 and 9 must not have APPEND markers (Hudi 1.2.0, seen when it rolled our
instants back).
"""
_LIST_PREFIX: Final = "MARKERS"
_TYPE_NAME: Final = "MARKERS.type"
_TYPE: Final = b"TIMELINE_SERVER_BASED"
_NUMBERS: Final = 16
"""Numbers that a list may have. Of a thousand lists, two have the same first one once in 4,000 times."""
_BATCH: Final = 1000
"""Markers deleted by one request: the most that S3 allows."""


def marker_directory(instant_time: str) -> str:
    """Directory of an instant's markers, relative to the table's root."""
    return f"{TEMP_DIRECTORY}/{instant_time}"


def marker_path(instant_time: str, partition_path: str, file_name: str) -> str:
    """Path of the direct marker of one data file."""
    return f"{marker_directory(instant_time)}/{join(partition_path, file_name)}{_SUFFIX}"


def create_marker(storage: Storage, instant_time: str, partition_path: str, file_name: str) -> None:
    """Mark a data file before it is written, by a file of its own. Marking it again is not an error.

    Only for instants without marker lists: Hudi looks for one kind or the other.
    """
    created(storage, marker_path(instant_time, partition_path, file_name), b"")


def start_marker_lists(storage: Storage, instant_time: str) -> None:
    """Call it before `mark_files`: it says that the instant's markers are in lists.

    Direct markers, which an older version of this project wrote, are put into a list first.
    """
    paths = [info.path for info in storage.list(marker_directory(instant_time))]
    if any(map(_is_type, paths)):
        return
    if direct := _direct(paths):
        mark_files(storage, instant_time, sorted(direct))
    created(storage, f"{marker_directory(instant_time)}/{_TYPE_NAME}", _TYPE)


def mark_files(storage: Storage, instant_time: str, files: Sequence[str]) -> None:
    """Mark data files (paths relative to the table's root) before they are written, all in one object.

    Hudi's timeline server writes such lists, and all of Hudi's rollbacks read them (1.2.0, seen): every object whose
    name starts with MARKERS, a line for each file. The server takes the rest of the name for a number, a Java int, and
    fails on any other. Here the number is made of the content, so marking again is not an error.
    """
    content = "".join(f"{file}{_SUFFIX}\n" for file in files).encode()
    for salt in range(_NUMBERS):
        name = f"{_LIST_PREFIX}{_number(content, salt)}"
        if create_or_get(storage, f"{marker_directory(instant_time)}/{name}", content) == content:
            return
    raise AssertionError(f"{_NUMBERS} other lists of instant {instant_time} have the numbers of this one")


def marked_files(storage: Storage, instant_time: str) -> frozenset[str]:
    """Paths, relative to the table's root, of the data files that the instant's markers of both kinds name."""
    paths = [info.path for info in storage.list(marker_directory(instant_time))]
    contents = (get_if_there(storage, path) for path in filter(_is_list, paths))
    listed = (file for content in contents if content is not None for file in _files_in(content))
    return _direct(paths) | frozenset(listed)


def delete_markers(storage: Storage, instant_time: str) -> None:
    """Remove the markers of an instant: after completion, or as one of the last steps of a rollback.

    If the storage has directories, the markers' are deleted too: otherwise only Hudi's archival removes them.
    """
    # What says how to read them goes last: a rollback that dies here is repeated.
    paths = sorted((info.path for info in storage.list(marker_directory(instant_time))), key=_is_type)
    for start in range(0, len(paths), _BATCH):
        storage.delete_many(paths[start : start + _BATCH])
    remove_directories(storage, marker_directory(instant_time))


def _direct(paths: Iterable[str]) -> frozenset[str]:
    """The data files of the direct markers among these paths."""
    # After .hoodie/.temp/<instant>/ comes the data file's own path.
    relative = (path.split("/", 3)[3] for path in paths if ".marker." in path)
    return frozenset(path[: path.rindex(".marker.")] for path in relative)


def _number(content: bytes, salt: int) -> int:
    digest = hashlib.blake2b(content, digest_size=4, salt=salt.to_bytes(1))
    return int.from_bytes(digest.digest()) % 2**31


def _files_in(content: bytes) -> Iterator[str]:
    for line in content.decode(errors="replace").split("\n"):
        file, found, _ = line.rpartition(".marker.")
        if found and path_problem(file) is None:
            yield file


def _is_list(path: str) -> bool:
    # A direct child: below may be a partition of this name.
    name = path.split("/", 3)[3]
    return name.startswith(_LIST_PREFIX) and "/" not in name and ".marker." not in name and name != _TYPE_NAME


def _is_type(path: str) -> bool:
    return path.endswith(f"/{_TYPE_NAME}")
