"""A few record keys of a table: they show whether its bucket count and hash are those of the spec."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from typing import Final

import pyarrow.parquet as pq

from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.naming import BaseFileName, split
from bucketingest.hudi.table.file_view import DataFile, FileView
from bucketingest.storage import Storage

FILES_MAX: Final = 8
KEYS_PER_FILE_MAX: Final = 64
_FILE_BYTES_MAX: Final = 256 * 1024**2
_RECORD_KEY: Final = "_hoodie_record_key"


def sample_record_keys(
    storage: Storage, view: FileView, replaced: Collection[tuple[str, str]] = ()
) -> Iterator[tuple[str, str, str]]:
    """(record key, partition path, file id) from the smallest file of a few file groups, none of them `replaced`."""
    smallest: list[DataFile] = []
    for group in view.groups:
        if group.latest is not None and (group.partition_path, group.file_id) not in replaced:
            files = [*group.latest.log_files, *([group.latest.base_file] if group.latest.base_file else [])]
            smallest.append(min(files, key=lambda file: file.size))
    for file in sorted(smallest, key=lambda file: file.size)[:FILES_MAX]:
        if file.size <= _FILE_BYTES_MAX:
            for key in _keys(storage.get(file.path), file):
                yield key, split(file.path)[0], file.name.file_id


def _keys(data: bytes, file: DataFile) -> list[str]:
    if isinstance(file.name, BaseFileName):
        column = pq.read_table(io.BytesIO(data), columns=[_RECORD_KEY])[_RECORD_KEY]
        return column.slice(0, KEYS_PER_FILE_MAX).to_pylist()
    keys: list[str] = []
    for content in read_log(data, source=file.path):
        if content.rows is not None:
            keys += content.rows[_RECORD_KEY].slice(0, KEYS_PER_FILE_MAX).to_pylist()
        keys += [delete.record_key for delete in content.deletes[:KEYS_PER_FILE_MAX]]
        if len(keys) >= KEYS_PER_FILE_MAX:
            break
    return keys[:KEYS_PER_FILE_MAX]
