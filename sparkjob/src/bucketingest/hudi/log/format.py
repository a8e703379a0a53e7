"""The frame of Hudi's log files: magic, lengths, headers, content, footers.

Inline log format version 1 as Hudi 1.2.0 writes it, for table versions 6, 8 and 9 alike (seen in log files it wrote).
All integers are big-endian::

    6 '#HUDI#' | 8 bytes after this field, trailing length included | 4 version = 1 | 4 block type
    4 header count, per header: 4 key, 4 length, UTF-8 | 8 content length, content
    4 footer count, as headers | 8 bytes from the magic to here
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from bucketingest.hudi.errors import CorruptLog

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1
CONTENT_BYTES_MAX: Final = 2**31 - 1
"""Hudi reads a block's content into one Java array, which cannot be longer."""

_HEAD: Final = struct.Struct(">6sq")
HEAD_BYTES: Final = _HEAD.size
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
_PREAMBLE: Final = struct.Struct(">6sqii")

Buffer = Any
"""Something with the buffer protocol: bytes, memoryview, or pyarrow.Buffer (which has no type information)."""


class BlockType(IntEnum):
    """What a block's content is."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class HeaderKey(IntEnum):
    """Keys of a block's header entries."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


# Python 3.11's `int in IntEnum` raises TypeError.
_BLOCK_TYPES: Final = frozenset(int(kind) for kind in BlockType)
_HEADER_KEYS: Final = frozenset(int(key) for key in HeaderKey)


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block as found in a log file."""

    type: BlockType
    headers: Mapping[HeaderKey, str]
    content: memoryview
    """The content's bytes, a view of the file's: nothing is copied."""
    footers: Mapping[int, str]
    offset: int
    """Bytes from the start of the file to the block's magic."""

    @property
    def instant_time(self) -> str:
        """Request time of the instant that wrote the block, or "" if its header lacks one."""
        return self.headers.get(HeaderKey.INSTANT_TIME, "")


def frame_block(block_type: BlockType, headers: Mapping[HeaderKey, str], content: Sequence[Buffer]) -> list[Buffer]:
    """A whole block as a list of buffers to write one after the other; the content's buffers are not copied.

    Raises ValueError if the content has 2 GiB or more, which Hudi cannot read.
    """
    content_bytes = sum(memoryview(part).nbytes for part in content)
    if content_bytes > CONTENT_BYTES_MAX:
        raise ValueError(
            f"block content of {content_bytes} bytes is over Hudi's limit of {CONTENT_BYTES_MAX}; flush earlier"
        )
    entries = [_INT.pack(len(headers))]
    for key, value in headers.items():
        encoded = value.encode()
        entries += [_INT.pack(key), _INT.pack(len(encoded)), encoded]
    head = b"".join([*entries, _LONG.pack(content_bytes)])
    # After the first length field come: version and type, head, content, footer count, trailing length.
    length = 8 + len(head) + content_bytes + _INT.size + _LONG.size
    start = _PREAMBLE.pack(MAGIC, length, FORMAT_VERSION, block_type) + head
    end = _INT.pack(0) + _LONG.pack(length + len(MAGIC))
    return [start, *content, end]


def read_blocks(data: Buffer, *, source: str = "log file") -> Iterator[LogBlock]:
    """The blocks of a log file in order.

    ``source`` names the file in messages. Raises `CorruptLog` with the block's offset where magic, version, type or
    lengths are wrong or the bytes end within a block; blocks before it have been yielded. An empty file has none.
    """
    view = memoryview(data).cast("B")
    offset = 0
    while offset < len(view):
        block, offset = _read_block(view, offset, source)
        yield block


def block_bytes(head: Buffer, *, source: str = "log file") -> int:
    """How many bytes the block has that starts with these `HEAD_BYTES`. Raises `CorruptLog` if none starts so."""
    magic, length = _HEAD.unpack_from(head) if len(head) >= HEAD_BYTES else (bytes(head), 0)
    if magic != MAGIC or length < 0:
        raise CorruptLog(f"{source}: {bytes(head)!r} is not the start of a block")
    return int(HEAD_BYTES + length)


def _read_block(view: memoryview, offset: int, source: str) -> tuple[LogBlock, int]:
    cursor = _Cursor(view, offset, len(view), offset, source)
    magic = bytes(cursor.take(len(MAGIC)))
    if magic != MAGIC:
        raise cursor.corrupt(f"starts with {magic!r} instead of {MAGIC!r}")
    length = cursor.read_long()
    end = cursor.position + length
    if length < 0 or end > len(view):
        raise cursor.corrupt(f"says {length} bytes follow its length, but only {len(view) - cursor.position} do")
    cursor.limit = end
    version, kind = cursor.read_int(), cursor.read_int()
    if version != FORMAT_VERSION:
        raise cursor.corrupt(f"has log format version {version}; only {FORMAT_VERSION} is known")
    if kind not in _BLOCK_TYPES:
        raise cursor.corrupt(f"has unknown block type {kind}")
    headers = _header_keys(cursor.entries(), cursor)
    content = cursor.take(cursor.read_long())
    footers = cursor.entries()
    total = cursor.read_long()
    if cursor.position != end or total != length + len(MAGIC):
        raise cursor.corrupt(
            f"has lengths that disagree: {length} in front, {total} at its end, "
            f"{cursor.position - offset} bytes by its parts"
        )
    return LogBlock(BlockType(kind), headers, content, footers, offset), end


def _header_keys(entries: Mapping[int, str], cursor: _Cursor) -> dict[HeaderKey, str]:
    if unknown := [key for key in entries if key not in _HEADER_KEYS]:
        raise cursor.corrupt(f"has unknown header keys {unknown}")
    return {HeaderKey(key): value for key, value in entries.items()}


@dataclass(slots=True)
class _Cursor:
    """Reads one block's fields in order and never beyond its limit."""

    view: memoryview
    position: int
    limit: int
    block_offset: int
    source: str

    def corrupt(self, what: str) -> CorruptLog:
        return CorruptLog(f"{self.source}: the block at byte {self.block_offset} {what}")

    def take(self, count: int) -> memoryview:
        if count < 0 or self.position + count > self.limit:
            left = self.limit - self.position
            raise self.corrupt(f"is cut short: {count} bytes wanted at byte {self.position}, {left} left")
        self.position += count
        return self.view[self.position - count : self.position]

    def read_int(self) -> int:
        return int(_INT.unpack(self.take(_INT.size))[0])

    def read_long(self) -> int:
        return int(_LONG.unpack(self.take(_LONG.size))[0])

    def entries(self) -> dict[int, str]:
        found: dict[int, str] = {}
        count = self.read_int()
        if count < 0:
            raise self.corrupt(f"has {count} headers or footers")
        for _ in range(count):
            key = self.read_int()
            raw = bytes(self.take(self.read_int()))
            try:
                found[key] = raw.decode()
            except UnicodeDecodeError as error:
                raise self.corrupt(f"has a header that is not UTF-8: {error}") from error
        return found
