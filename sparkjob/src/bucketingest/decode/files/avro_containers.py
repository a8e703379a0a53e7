"""Avro container files to Arrow columns: the writer's schema is in the file, and its fields become columns by name, as
those of Parquet do.

Records have no lengths. A first pass finds where each ends, and looks at no value; then all of some blocks are decoded
at once, as messages are.
"""

from __future__ import annotations

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import numpy as np
import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.decoder import RecordDecoder
from bucketingest.decode.avro.schema import UnreadableSchema, read_record
from bucketingest.decode.files.column_types import converted_column, names_of
from bucketingest.decode.files.parts import BadFile, NoRow, Part, Piece, no_rows

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_HEADER_BYTES_MAX: Final = 16 * 1024**2
_BLOCK_BYTES_MAX: Final = 256 * 1024**2
"""A larger block does not fit the memory of a task."""
_PART_BYTES: Final = 4 * 1024**2
_PART_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class AvroReader:
    """Reads Avro containers into the columns. Picklable."""

    columns: pa.Schema

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Part]:
        """See `Reader`. A container is one piece."""
        del piece
        container = opened(file)
        if container is None:
            return
        names = names_of(container.columns, self.columns)
        if unknown := tuple(name for name in container.columns.names if name not in names):
            yield Part(no_rows(self.columns), unknown=unknown)
        first = 1
        for records in container.records():
            decoded = container.decoder.decode(records)
            rows = decoded.rows
            arrays = [
                pa.nulls(rows.num_rows, field.type) if name is None else converted_column(rows.column(name), field)
                for name, field in zip(names, self.columns, strict=True)
            ]
            refused = [
                NoRow(f"record {first + each.number}", each.why, records[each.number].as_py())
                for each in decoded.refused
            ]
            yield Part(pa.RecordBatch.from_arrays(arrays, schema=self.columns), refused)
            first += len(records)


@dataclass(frozen=True, slots=True)
class Container:
    """A file behind its header."""

    file: pa.NativeFile
    decoder: RecordDecoder
    shape: Any
    """The type of a record as `_shape` makes it."""
    codec: str
    sync: bytes

    @property
    def columns(self) -> pa.Schema:
        """A column of each field."""
        return self.decoder.schema

    def records(self) -> Iterator[pa.BinaryArray]:
        """All records, those of some blocks at a time. Raises BadFile."""
        data, ends = bytearray(), [0]
        for number, (expected, block) in enumerate(self._blocks(), 1):
            start, reader = len(data), io.BytesIO(block)
            try:
                for _ in range(expected):
                    schemaless_reader(reader, self.shape, None)
                    ends.append(start + reader.tell())
            except (EOFError, ValueError, LookupError, ArithmeticError) as error:
                raise BadFile(f"block {number} has no {expected} records of the file's schema: {error}") from None
            if ends[-1] != start + len(block):
                raise BadFile(f"block {number} has bytes behind its last record")
            data += block
            if len(data) > _PART_BYTES or len(ends) > _PART_ROWS:
                yield _array(data, ends)
                data, ends = bytearray(), [0]
        if len(ends) > 1:
            yield _array(data, ends)

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """How many records each has, and their bytes."""
        decompress = _CODECS[self.codec]
        for number in count(1):
            expected = _long(self.file)
            if expected is None:
                return
            size = _long(self.file)
            if expected < 0 or size is None or not 0 <= size <= _BLOCK_BYTES_MAX:
                raise BadFile(f"is damaged: block {number} has {expected} records of {size} bytes")
            data, sync = self.file.read(size), self.file.read(_SYNC_BYTES)
            if len(data) < size or sync != self.sync:
                raise BadFile(f"is damaged: block {number} does not end with the file's mark")
            try:
                block = decompress(data)
            except (OSError, ValueError, zlib.error, lzma.LZMAError, pa.ArrowException) as error:
                raise BadFile(f"is damaged: block {number} is not compressed with {self.codec}: {error}") from None
            if len(block) > _BLOCK_BYTES_MAX:
                raise BadFile(f"block {number} has more than {_BLOCK_BYTES_MAX // 1024**2} MiB")
            yield expected, block


def opened(file: pa.NativeFile) -> Container | None:
    """A container; None for a file without a byte. Raises BadFile."""
    magic = file.read(len(_MAGIC))
    if not magic:
        return None
    if magic != _MAGIC:
        raise BadFile("is no Avro container: it does not begin with Obj and 1")
    known: dict[str, bytes] = {}
    while entries := _needed(file):
        if entries < 0:
            _needed(file)
        for _ in range(min(abs(entries), _HEADER_BYTES_MAX)):
            name = _bytes(file).decode()
            known[name] = _bytes(file)
    sync = file.read(_SYNC_BYTES)
    if len(sync) < _SYNC_BYTES:
        raise BadFile("is damaged: it ends in its header")
    codec = known.get("avro.codec", b"null").decode()
    if codec not in _CODECS:
        raise BadFile(f"the codec {codec} is not read; there are {', '.join(sorted(_CODECS))}")
    try:
        record = read_record(known.get("avro.schema", b"").decode())
        decoder = RecordDecoder(record, columns_of(record), may_have_header=False)
        shape = parse_schema(_shape(record, count()))
    except UnreadableSchema as error:
        raise BadFile(f"its Avro schema {error}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadFile(f"its Avro schema is damaged: {type(error).__name__} {error}") from None
    return Container(file, decoder, shape, codec, sync)


def _bytes(file: pa.NativeFile) -> bytes:
    size = _needed(file)
    if not 0 <= size <= _HEADER_BYTES_MAX:
        raise BadFile(f"is damaged: {size} bytes of the header")
    data: bytes = file.read(size)
    return data


def _needed(file: pa.NativeFile) -> int:
    value = _long(file)
    if value is None:
        raise BadFile("is damaged: it ends in its header")
    return value


def _long(file: pa.NativeFile) -> int | None:
    """Avro's form of a number; None at the end of the file. Raises BadFile."""
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            if shift:
                raise BadFile("is damaged: it ends in a number")
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value >> 1 ^ -(value & 1)
    raise BadFile("is damaged: a number is longer than ten bytes")


def _snappy(data: bytes) -> bytes:
    size, at = 0, 0
    while True:  # Snappy's own head: the size in groups of seven bits
        size |= (data[at] & 0x7F) << 7 * at
        at += 1
        if data[at - 1] < 0x80:
            break
    if size > _BLOCK_BYTES_MAX:
        raise ValueError(f"it would have {size} bytes")
    block: bytes = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(block) != int.from_bytes(data[-4:], "big"):
        raise ValueError("another checksum")
    return block


def _zstandard(data: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        block: bytes = stream.read(_BLOCK_BYTES_MAX + 1)
    return block


def _deflate(data: bytes) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, _BLOCK_BYTES_MAX + 1)


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda data: bz2.BZ2Decompressor().decompress(data, _BLOCK_BYTES_MAX + 1),
    "xz": lambda data: lzma.LZMADecompressor().decompress(data, _BLOCK_BYTES_MAX + 1),
}


def _array(data: bytearray, ends: list[int]) -> pa.BinaryArray:
    offsets = pa.py_buffer(np.array(ends, np.int32))
    return pa.BinaryArray.from_buffers(pa.binary(), len(ends) - 1, [None, offsets, pa.py_buffer(bytes(data))])


def _shape(avro: Any, number: Iterator[int]) -> Any:
    """A type whose values take the same bytes and mean nothing: text is bytes, a symbol a number."""
    if isinstance(avro, list):
        return [each if each == "null" else _shape(each, number) for each in avro]
    match kind := avro["type"]:
        case "record":
            fields = [
                {"name": f"f{at}", "type": _shape(each["type"], number)} for at, each in enumerate(avro["fields"])
            ]
            return {"type": "record", "name": f"r{next(number)}", "fields": fields}
        case "array":
            return {"type": "array", "items": _shape(avro["items"], number)}
        case "map":  # a key is text in each map
            pair = [{"name": "k", "type": "bytes"}, {"name": "v", "type": _shape(avro["values"], number)}]
            return {"type": "array", "items": {"type": "record", "name": f"r{next(number)}", "fields": pair}}
        case "fixed":
            return {"type": "fixed", "name": f"r{next(number)}", "size": avro["size"]}
        case "enum":
            return "int"
        case "string":
            return "bytes"
    return kind
