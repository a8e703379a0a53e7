"""The lines of a text file, in blocks, with the place of each: a file may be larger than the memory of a task."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.files.parts import BadFile, Piece

_BLOCK_BYTES: Final = 4 * 1024**2
LINE_BYTES_MAX: Final = 256 * 1024**2
"""A longer line does not fit the memory of a task."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines, one after the other; none is empty."""

    texts: pa.BinaryArray
    """Without their ends."""
    numbers: npt.NDArray[np.int64]
    """Which line each is, from 1 on: of the file, or, if that is not known, from the piece's first byte on."""
    after: int
    """Bytes of the file before line 1; 0: the numbers are the file's own."""

    def place(self, at: int) -> str:
        """Where a line is in the file, in words."""
        number = int(self.numbers[at])
        return f"line {number}" if not self.after else f"line {number} after byte {self.after}"


def lines_of(file: pa.NativeFile, piece: Piece, *, whole: bool) -> Iterator[Lines]:
    """The lines that begin in the piece. `whole`: all of the file, whatever the piece says, as of what is compressed.

    Raises BadFile for a line that is too long.
    """
    start, left = 0, None
    if not whole and piece.start:
        start = _line_start(file, piece)
        if start >= piece.end:
            return
        file.seek(start)
    if not whole:
        left = piece.end - start
    yield from _blocks(file, left, start)


def text_in_utf8(file: pa.NativeFile, encoding: str) -> Iterator[bytes]:
    """The text of a file in blocks, in UTF-8. Raises BadFile for bytes that are not of the encoding."""
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    at = 0
    while True:
        data = file.read(_BLOCK_BYTES)
        try:
            yield decoder.decode(data, final=not data).encode()
        except UnicodeError as error:
            place = at + getattr(error, "start", 0) + 1
            raise BadFile(f"near byte {place}: bytes that are not {encoding}; see options.encoding") from None
        if not data:
            return
        at += len(data)


def _line_start(file: pa.NativeFile, piece: Piece) -> int:
    """Of the first line that begins in the piece: the one before it ends with the byte before."""
    at = piece.start - 1
    file.seek(at)
    while data := file.read(_BLOCK_BYTES):
        if (found := data.find(b"\n")) >= 0:
            return int(at + found + 1)
        at += len(data)
    return int(at)


def _blocks(file: pa.NativeFile, left: int | None, after: int) -> Iterator[Lines]:
    """`left`: a line that begins behind so many bytes is another piece's; None: there is none."""
    rest = b""
    number = 1
    is_first = not after
    while True:
        data = file.read(_BLOCK_BYTES)
        text = rest + data
        if is_first:
            text = text.removeprefix(codecs.BOM_UTF8)
            is_first = False
        if not data:
            if text:
                yield from _lines(text + b"\n", number, after)
            return
        if left is not None:
            left -= len(data)
            if left <= 0:  # the last line of the piece ends with the first line end at or behind its last byte
                end = text.find(b"\n", max(0, len(text) + left - 1))
                if end >= 0:
                    yield from _lines(text[: end + 1], number, after)
                    return
        end = text.rfind(b"\n") + 1
        if end:
            yield from _lines(text[:end], number, after)
            number += text.count(b"\n", 0, end)
        rest = text[end:]
        if len(rest) > LINE_BYTES_MAX:
            raise BadFile(f"line {number} is longer than {LINE_BYTES_MAX // 1024**2} MiB")


def _lines(text: bytes, number: int, after: int) -> Iterator[Lines]:
    """Lines of a text that ends with a line end."""
    lines = text.split(b"\n")
    filled = np.array([at for at, line in enumerate(lines, number) if line], np.int64)
    if len(filled):
        yield Lines(pa.array(filter(None, lines), pa.binary()), filled, after)
