"""The rows and deletes in a log file: for compaction, for inspection, and for checking written files."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from importlib import resources
from typing import Any, Final, Self

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.avro.columns import read_record
from bucketingest.avro.cursors import Cursors, NotVectorised, padded
from bucketingest.hudi.errors import CorruptLog
from bucketingest.hudi.log.format import HEAD_BYTES, BlockType, Buffer, HeaderKey, LogBlock, block_bytes, read_blocks
from bucketingest.hudi.log.frames import Places, row_frames
from bucketingest.hudi.table.schema import AvroSchema, avro_to_arrow
from bucketingest.storage.interface import Storage

_CONTENT_HEAD: Final = struct.Struct(">ii")
_VERSION: Final = 3
"""Version of data and delete block content that Hudi 1.2.0 writes for tables of version 6 to 9."""


@dataclass(frozen=True, slots=True)
class Delete:
    """One entry of a delete block."""

    record_key: str
    partition_path: str
    ordering: bool | int | float | str | bytes | Decimal | None
    """The value inside its wrapper: timestamps are microseconds, dates days, since 1970-01-01."""
    wrapper: str | None
    """Name of the wrapper, such as ``LongWrapper``; None where there is no ordering value."""


@dataclass(frozen=True, slots=True)
class LogContent:
    """One block with its content decoded."""

    block: LogBlock
    rows: pa.Table | None
    """The rows of a data block, meta columns first; None for other blocks."""
    deletes: tuple[Delete, ...]
    """The entries of a delete block; empty for other blocks."""


def read_log(data: Buffer, *, source: str = "log file") -> Iterator[LogContent]:
    """All blocks of a log file in order, decoded; command blocks come with neither rows nor deletes.

    Raises `CorruptLog` for bytes that are not whole blocks, and for content of an unknown kind or version.
    """
    for block in read_blocks(data, source=source):
        yield decode_block(block, source=source)


def decode_block(
    block: LogBlock,
    columns: Sequence[str] | None = None,
    rows: Places | None = None,
    *,
    source: str = "log file",
) -> LogContent:
    """The content of one block. `columns`: the columns wanted, None for all; those that the block lacks are left out.
    `rows`: the numbers of the rows wanted of a data block, ascending, None for all; values of others are not looked at
    where the format allows it.

    Raises `CorruptLog` as `read_log` does.
    """
    where = f"{source}: the block at byte {block.offset}"
    try:
        return _decoded(block, columns, rows, where)
    except (pa.ArrowInvalid, OSError, EOFError, struct.error, ValueError, KeyError, IndexError) as error:
        raise CorruptLog(f"{where} holds content that cannot be decoded: {error}") from error


def _decoded(block: LogBlock, columns: Sequence[str] | None, rows: Places | None, where: str) -> LogContent:
    match block.type:
        case BlockType.PARQUET:
            # One thread: the caller decides how many cores it uses.
            content = pq.ParquetFile(pa.BufferReader(block.content), pre_buffer=False, page_checksum_verification=True)
            table = content.read(columns, use_threads=False)
            return LogContent(block, table if rows is None else taken(table, rows), ())
        case BlockType.AVRO_DATA:
            return LogContent(block, _avro_rows(block, columns, rows, where), ())
        case BlockType.DELETE:
            return LogContent(block, None, tuple(_deletes(block, where)))
        case BlockType.COMMAND:
            return LogContent(block, None, ())
    raise CorruptLog(f"{where} is of type {block.type.name}, which is not read here")


def taken(table: pa.Table, rows: Places) -> pa.Table:
    """The rows of these ascending numbers. Batch by batch: all strings of a column may have more than 2 GiB."""
    chosen, first = [], 0
    for batch in table.to_batches():
        start, end = np.searchsorted(rows, (first, first + len(batch)))
        chosen.append(batch.take(pa.array(rows[start:end] - first)))
        first += len(batch)
    return pa.Table.from_batches(chosen, table.schema)


def _in_both(rows: pa.Table, columns: Sequence[str]) -> list[str]:
    return [name for name in rows.column_names if name in columns]


def _content_after_version(block: LogBlock, where: str) -> tuple[int, memoryview]:
    version, number = _CONTENT_HEAD.unpack_from(block.content)
    if version != _VERSION:
        raise CorruptLog(f"{where} has content of version {version}; only {_VERSION} is known")
    return number, block.content[_CONTENT_HEAD.size :]


def _avro_rows(block: LogBlock, columns: Sequence[str] | None, rows: Places | None, where: str) -> pa.Table:
    count, content = _content_after_version(block, where)
    schema = json.loads(block.headers[HeaderKey.SCHEMA])
    starts, ends = row_frames(content, count, where)
    if rows is not None:
        starts, ends = starts[rows], ends[rows]
    try:
        return decode_rows(content, starts, ends, schema, columns)
    except NotVectorised:
        decoded = _one_by_one(content, starts, ends, schema)
        return decoded if columns is None else decoded.select(_in_both(decoded, columns))


def _one_by_one(content: memoryview, starts: Places, ends: Places, schema: AvroSchema) -> pa.Table:
    parsed = fastavro.parse_schema(schema)
    rows: list[Any] = [
        fastavro.schemaless_reader(io.BytesIO(content[start:end]), parsed, None)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=avro_to_arrow(schema))


def _deletes(block: LogBlock, where: str) -> Iterator[Delete]:
    length, content = _content_after_version(block, where)
    if length != len(content):
        raise CorruptLog(f"{where} says its deletes have {length} bytes, but they have {len(content)}")
    listed: Any = fastavro.schemaless_reader(
        io.BytesIO(content), _delete_schema(), None, return_record_name=True, return_record_name_override=True
    )
    for entry in listed["deleteRecordList"]:
        wrapper, value = _unwrapped(entry["orderingVal"])
        yield Delete(entry["recordKey"], entry["partitionPath"], value, wrapper)


def _unwrapped(ordering: Any) -> tuple[str | None, Any]:
    if ordering is None:
        return None, None
    name, record = ordering
    return name.rpartition(".")[2], record.get("value", record.get("wrappedValues"))


def _delete_schema() -> Any:
    text = resources.files("bucketingest.hudi").joinpath("avsc/HoodieDeleteRecordList.avsc").read_text("utf-8")
    return fastavro.parse_schema(json.loads(text))


_CHUNK_ROWS: Final = 16_384
"""Rows decoded at once: the intermediate arrays of one field stay in the processor's cache."""
_CHUNK_BYTES: Final = 128 * 1024 * 1024
"""Above this many bytes a chunk has fewer rows: far below the 2 GiB limit of the offsets of its strings."""


def decode_rows(
    content: memoryview, starts: Places, ends: Places, schema: AvroSchema, columns: Collection[str] | None = None
) -> pa.Table:
    """The rows that are at `starts` to `ends` of `content`, in this order, as `avro_to_arrow` types them.

    `columns`: the columns wanted, None for all; those that the schema lacks are left out.
    Raises `NotVectorised`, and ValueError for bytes that are not such rows.
    """
    wanted = avro_to_arrow(schema)
    if columns is not None:
        wanted = pa.schema([field for field in wanted if field.name in columns])
    data = np.frombuffer(content, np.uint8)
    batches = [
        read_record(
            Cursors(padded(data, first, end), starts[rows] - first, ends[rows] - first), schema["fields"], wanted
        )
        for rows, first, end in _chunks(starts, ends)
    ]
    return pa.Table.from_batches(batches, wanted)


def _chunks(starts: Places, ends: Places) -> Iterator[tuple[slice, int, int]]:
    """Rows, and where their bytes start and end."""
    first = 0
    while first < len(starts):
        end = int(np.searchsorted(ends, starts[first] + _CHUNK_BYTES, "right"))
        end = min(max(end, first + 1), first + _CHUNK_ROWS)
        yield slice(first, end), int(starts[first]), int(ends[end - 1])
        first = end


WHOLE_FILE_BYTES: Final = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One log file, `size` in bytes. Build it with `open`."""

    storage: Storage
    path: str
    size: int

    @classmethod
    def open(cls, storage: Storage, path: str) -> Self:
        """Raises NotFound."""
        return cls(storage, path, storage.head(path).size)

    def blocks(self, whole_file_bytes: int = WHOLE_FILE_BYTES) -> Iterator[LogBlock]:
        """Its blocks in order; a file of more bytes is read block by block. Raises CorruptLog."""
        source = f"{self.storage.url}/{self.path}"
        if self.size <= whole_file_bytes:
            yield from read_blocks(self.storage.get(self.path), source=source)
            return
        offset = 0
        while offset < self.size:
            head = self.storage.get_range(self.path, offset, min(HEAD_BYTES, self.size - offset))
            length = block_bytes(head, source=f"{source}, byte {offset}")
            data = self.storage.get_range(self.path, offset, min(length, self.size - offset))
            for block in read_blocks(data, source=f"{source} from byte {offset}"):
                yield replace(block, offset=offset)
            offset += length
