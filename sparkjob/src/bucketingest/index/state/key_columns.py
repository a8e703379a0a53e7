"""Reads the record keys of a file slice, or other columns that say where a row is, and nothing else of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.hudi.errors import CorruptLog, InvalidTable
from bucketingest.hudi.log.format import BlockType
from bucketingest.hudi.log.reader import StoredLog, decode_block
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.storage.interface import Storage
from bucketingest.storage.object_file import ObjectFile

_KEY: Final = META_COLUMNS[2]
_BATCH_ROWS: Final = 256 * 1024
_BUFFER_BYTES: Final = 1024**2


def keys_of_rows(storage: Storage, files: FileSlice) -> Iterator[pa.Array]:
    """Keys of all rows: those of the base file, then those of each log block, also of rows that a later one replaces.

    Raises InvalidTable or CorruptLog, naming the file, if a row has no key or the file cannot be read; NotFound.
    """
    for source, rows in rows_of(storage, files, [_KEY]):
        if rows[_KEY].null_count:
            kind = InvalidTable if files.base_file is not None and source.endswith(files.base_file.path) else CorruptLog
            raise kind(f"{source}: a row has no record key")
        yield from rows[_KEY].chunks


def rows_of(storage: Storage, files: FileSlice, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """These columns of all rows, with the file's URL: those of the base file, then those of each log block, also of
    rows that a later one replaces. Raises InvalidTable or CorruptLog if a file lacks one or cannot be read; NotFound.
    """
    if files.base_file is not None:
        yield from _of_base(storage, files.base_file.path, columns)
    for log in files.log_files:
        source = f"{storage.url}/{log.path}"
        for block in StoredLog.open(storage, log.path).blocks():
            if block.type is BlockType.DELETE:
                continue
            rows = decode_block(block, columns, source=source).rows
            if rows is not None:
                if missing := set(columns).difference(rows.column_names):
                    raise CorruptLog(f"{source}: a block has no column {', '.join(sorted(missing))}")
                yield source, rows


def keys_of_deletes(storage: Storage, files: FileSlice) -> Iterator[pa.Array]:
    """Keys in delete blocks, whether rows of theirs are there or not. Raises CorruptLog, NotFound."""
    for log in files.log_files:
        source = f"{storage.url}/{log.path}"
        for block in StoredLog.open(storage, log.path).blocks():
            if block.type is BlockType.DELETE:
                yield pa.array([each.record_key for each in decode_block(block, source=source).deletes], pa.string())


def keys_in_logs_only(storage: Storage, files: FileSlice) -> pa.Array:
    """Keys of rows in log files that the base file lacks, also of rows that were deleted afterwards, each once. Holds
    the log files' keys. Raises as `keys_of_rows`.
    """
    chunks = list(keys_of_rows(storage, replace(files, base_file=None)))
    if not chunks:
        return pa.array([], pa.string())
    keys = pc.unique(pa.chunked_array(chunks).cast(pa.string()))
    for in_base in keys_of_rows(storage, replace(files, log_files=())) if files.base_file is not None else ():
        keys = keys.filter(pc.invert(pc.is_in(keys, value_set=in_base.cast(pa.string()))))
        if not len(keys):
            break
    return keys


def _of_base(storage: Storage, path: str, columns: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    source = f"{storage.url}/{path}"
    try:
        with pq.ParquetFile(
            ObjectFile(storage, path), buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        ) as file:
            if missing := set(columns).difference(file.schema_arrow.names):
                raise InvalidTable(
                    f"{source}: it has no column {', '.join(sorted(missing))}, so it is no base file of Hudi's"
                )
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(columns), use_threads=False):
                yield source, pa.table(batch)
    except (pa.ArrowInvalid, OSError) as error:  # Arrow's own; those of the storage are none of these
        raise InvalidTable(f"{source}: it cannot be read as Parquet: {error}") from error
