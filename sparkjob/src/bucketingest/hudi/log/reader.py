"""The rows and deletes in a log file: for compaction, for inspection, and for checking written files."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources
from typing import Any, Final

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.avro.decoding import NotVectorised, decode_rows
from bucketingest.hudi.errors import CorruptLog
from bucketingest.hudi.log.format import BlockType, Buffer, HeaderKey, LogBlock, read_blocks
from bucketingest.hudi.table.schema import AvroSchema, avro_to_arrow

_CONTENT_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
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


def decode_block(block: LogBlock, columns: Sequence[str] | None = None, *, source: str = "log file") -> LogContent:
    """The content of one block. `columns`: the columns wanted, None for all; those that the block lacks are left out.

    Raises `CorruptLog` as `read_log` does.
    """
    where = f"{source}: the block at byte {block.offset}"
    try:
        return _decoded(block, columns, where)
    except (pa.ArrowInvalid, EOFError, struct.error, ValueError, KeyError, IndexError) as error:
        raise CorruptLog(f"{where} holds content that cannot be decoded: {error}") from error


def _decoded(block: LogBlock, columns: Sequence[str] | None, where: str) -> LogContent:
    match block.type:
        case BlockType.PARQUET:
            # One thread: the caller decides how many cores it uses.
            content = pq.ParquetFile(pa.BufferReader(block.content), pre_buffer=False)
            return LogContent(block, content.read(columns, use_threads=False), ())
        case BlockType.AVRO_DATA:
            return LogContent(block, _avro_rows(block, columns, where), ())
        case BlockType.DELETE:
            return LogContent(block, None, tuple(_deletes(block, where)))
        case BlockType.COMMAND:
            return LogContent(block, None, ())
    raise CorruptLog(f"{where} is of type {block.type.name}, which is not read here")


def _in_both(rows: pa.Table, columns: Sequence[str]) -> list[str]:
    return [name for name in rows.column_names if name in columns]


def _content_after_version(block: LogBlock, where: str) -> tuple[int, memoryview]:
    version, number = _CONTENT_HEAD.unpack_from(block.content)
    if version != _VERSION:
        raise CorruptLog(f"{where} has content of version {version}; only {_VERSION} is known")
    return number, block.content[_CONTENT_HEAD.size :]


def _avro_rows(block: LogBlock, columns: Sequence[str] | None, where: str) -> pa.Table:
    count, content = _content_after_version(block, where)
    schema = json.loads(block.headers[HeaderKey.SCHEMA])
    starts, ends = _frames(content, count, where)
    try:
        return decode_rows(content, starts, ends, schema, columns)
    except NotVectorised:
        rows = _one_by_one(content, starts, ends, schema)
        return rows if columns is None else rows.select(_in_both(rows, columns))


def _frames(content: memoryview, count: int, where: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each row starts and ends: each has its length in front."""
    if count < 0 or count * _LENGTH.size > len(content):
        raise CorruptLog(f"{where} says it has {count} rows, in {len(content)} bytes")
    places = [0]
    position, unpack = 0, _LENGTH.unpack_from
    # As little as possible in the loop, which is a third of reading the keys; what it found is checked below.
    for _ in range(count):
        if position >= len(content):
            break
        position += _LENGTH.size + unpack(content, position)[0]
        places.append(position)
    ends = np.array(places, np.int64)
    lengths = np.diff(ends) - _LENGTH.size
    wrong = np.flatnonzero((lengths < 0) | (ends[1:] > len(content)))
    if len(wrong) or len(lengths) < count:
        row = int(wrong[0]) if len(wrong) else len(lengths)
        said = f"has {lengths[row]} bytes" if len(wrong) else "is missing"
        raise CorruptLog(f"{where} is cut short: its row {row} {said}")
    if position != len(content):
        raise CorruptLog(f"{where} has {len(content) - position} bytes after its {count} rows")
    return ends[1:] - lengths, ends[1:]


def _one_by_one(
    content: memoryview, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], schema: AvroSchema
) -> pa.Table:
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
