"""A few record keys of a table: they show whether its bucket count and hash are those of the spec."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator
from typing import Final

import pyarrow.parquet as pq

from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.naming import BaseFileName, split
from bucketingest.hudi.table.file_view import DataFile, FileView
from bucketingest.storage import Storage

FILES_MAX: Final = 8
KEYS_PER_FILE_MAX: Final = 64
_FILE_BYTES_MAX: Final = 256 * 1024**2
FILES_PER_PARTITION_MAX: Final = 4
_NEWEST_BYTES_MAX: Final = 64 * 1024**2
_RECORD_KEY: Final = "_hoodie_record_key"


def sample_record_keys(
    storage: Storage, view: FileView, replaced: Collection[tuple[str, str]] = ()
) -> Iterator[tuple[str, str, str]]:
    """(record key, partition path, file id) from the smallest file of a few file groups, none of them `replaced`."""
    smallest = [
        min(group.latest.files, key=lambda file: file.size)
        for group in view.groups
        if group.latest is not None and (group.partition_path, group.file_id) not in replaced
    ]
    for file in sorted(smallest, key=lambda file: file.size)[:FILES_MAX]:
        if file.size <= _FILE_BYTES_MAX:
            yield from _placed_keys(storage, file)


def sample_partitions(
    storage: Storage, view: FileView, partitions: Iterable[str], replaced: Collection[tuple[str, str]] = ()
) -> Iterator[tuple[str, str, str]]:
    """The same from each of these partitions: from the newest file of a few file groups, in which the keys of the last
    writers are.
    """
    for path in partitions:
        groups = [group for file_id, group in view.partitions[path].items() if (path, file_id) not in replaced]
        newest = [max(each.latest.files, key=lambda file: file.instant) for each in groups if each.latest is not None]
        for file in sorted(newest, key=lambda file: file.size)[:FILES_PER_PARTITION_MAX]:
            if file.size <= _NEWEST_BYTES_MAX:
                yield from _placed_keys(storage, file)


def _placed_keys(storage: Storage, file: DataFile) -> Iterator[tuple[str, str, str]]:
    for key in _keys(storage.get(file.path), file):
        yield key, split(file.path)[0], file.name.file_id


def _keys(data: bytes, file: DataFile) -> list[str]:
    if isinstance(file.name, BaseFileName):
        column = pq.read_table(io.BytesIO(data), columns=[_RECORD_KEY], page_checksum_verification=True)[_RECORD_KEY]
        return column.slice(0, KEYS_PER_FILE_MAX).to_pylist()
    keys: list[str] = []
    for content in read_log(data, source=file.path):
        if content.rows is not None:
            keys += content.rows[_RECORD_KEY].slice(0, KEYS_PER_FILE_MAX).to_pylist()
        keys += [delete.record_key for delete in content.deletes[:KEYS_PER_FILE_MAX]]
        if len(keys) >= KEYS_PER_FILE_MAX:
            break
    return keys[:KEYS_PER_FILE_MAX]
