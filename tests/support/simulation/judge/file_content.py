"""What log and base files hold, by the frame of their blocks."""

from __future__ import annotations

import functools
import io
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow.parquet as pq

from support.simulation.judge.files import DataFile
from support.simulation.records import schema

_DELETE, _AVRO, _PARQUET = 1, 3, 5
_INSTANT_HEADER, _SCHEMA_HEADER = 0, 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A row, or the deletion of a key, in a file."""

    key: str
    ordering: Any
    row: Mapping[str, Any] | None
    file: DataFile


@functools.lru_cache(maxsize=4096)
def entries_of(file: DataFile, data: bytes) -> tuple[Entry, ...]:
    """Every row and deletion of the file, in order."""
    return tuple(_base_rows(file, data) if file.is_base else _blocks(file, data))


def _base_rows(file: DataFile, data: bytes) -> Iterator[Entry]:
    for row in pq.ParquetFile(io.BytesIO(data)).read(use_threads=False).to_pylist():
        assert row["_hoodie_partition_path"] == file.partition, f"{file.path}: a row of another partition"
        yield Entry(row["_hoodie_record_key"], row["at"], row, file)


def _blocks(file: DataFile, data: bytes) -> Iterator[Entry]:
    position = 0
    while position < len(data):
        magic, length, version, kind = struct.unpack_from(">6sqii", data, position)
        assert (magic, version) == (b"#HUDI#", 1), f"{file.path}: no block at byte {position}"
        end = position + 14 + length
        headers, at = _headers(data, position + 22)
        assert headers[_INSTANT_HEADER] == file.instant, f"{file.path}: a block of another instant"
        (size,) = struct.unpack_from(">q", data, at)
        content = data[at + 8 : at + 8 + size]
        footers, total = struct.unpack_from(">iq", data, at + 8 + size)
        assert (footers, total, at + 8 + size + 12) == (0, length + 6, end), f"{file.path}: lengths disagree"
        yield from _content(file, kind, headers, content)
        position = end


def _headers(data: bytes, at: int) -> tuple[dict[int, str], int]:
    (count,) = struct.unpack_from(">i", data, at)
    at += 4
    headers = {}
    for _ in range(count):
        key, size = struct.unpack_from(">ii", data, at)
        headers[key] = data[at + 8 : at + 8 + size].decode()
        at += 8 + size
    return headers, at


def _content(file: DataFile, kind: int, headers: Mapping[int, str], content: bytes) -> Iterator[Entry]:
    if kind == _DELETE:
        listed: Any = fastavro.schemaless_reader(io.BytesIO(content[8:]), schema("HoodieDeleteRecordList"), None)
        for deleted in listed["deleteRecordList"]:
            assert deleted["partitionPath"] == file.partition, f"{file.path}: a delete of another partition"
            yield Entry(deleted["recordKey"], deleted["orderingVal"]["value"], None, file)
        return
    if kind == _PARQUET:
        rows = pq.ParquetFile(io.BytesIO(content)).read(use_threads=False).to_pylist()
    else:
        assert kind == _AVRO, f"{file.path}: a block of type {kind}"
        rows = list(_avro_rows(headers[_SCHEMA_HEADER], content))
    for row in rows:
        assert row["_hoodie_partition_path"] == file.partition, f"{file.path}: a row of another partition"
        assert row["_hoodie_commit_time"] == file.instant, f"{file.path}: a row of another instant"
        yield Entry(row["_hoodie_record_key"], row["at"], row, file)


def _avro_rows(block_schema: str, content: bytes) -> Iterator[dict[str, Any]]:
    version, count = struct.unpack_from(">ii", content)
    assert version == 3
    stream = io.BytesIO(content)
    stream.seek(8)
    for _ in range(count):
        (size,) = struct.unpack(">i", stream.read(4))
        end = stream.tell() + size
        row: Any = fastavro.schemaless_reader(stream, _parsed(block_schema), None)
        assert stream.tell() == end
        yield row


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))
