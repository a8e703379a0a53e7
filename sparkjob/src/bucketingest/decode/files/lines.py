"""The lines of a text file, in blocks, with the place of each: a file may be larger than the memory of a task."""

from __future__ import annotations

import codecs
import io
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.files.opening import check_text
from bucketingest.decode.files.parts import BadFile, Piece

_BLOCK_BYTES: Final = 4 * 1024**2
LINE_BYTES_MAX: Final = 256 * 1024**2
"""A longer line does not fit the memory of a task."""
_HEAD_BYTES: Final = 16
"""What shows a byte order mark, or that a file is compressed."""
_FIRST_LINE_BYTES_MAX: Final = 1024**2
_LINE_END: Final = re.compile(rb"\r\n?|\n")


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
            check_text(text)
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


class TextSource(io.RawIOBase):
    """The bytes of a file from its first line on, without a byte order mark, or of its text in UTF-8."""

    def __init__(self, source: pa.NativeFile | Iterator[bytes]) -> None:
        """`source`: a file, or its text in blocks."""
        self._next = iter(lambda: source.read(_BLOCK_BYTES), b"") if isinstance(source, pa.NativeFile) else source
        self._left = b""
        while len(self._left) < _HEAD_BYTES and self._more():
            pass
        check_text(self._left)
        self._left = self._left.removeprefix(codecs.BOM_UTF8)
        self.look: Callable[[bytes], object] = len
        """Is given all that is read from now on, before it is."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return not self._left and not self._more()

    def first_line(self) -> bytes:
        """Without its end; it stays. Of a long one the start."""
        while (end := _LINE_END.search(self._left)) is None and len(self._left) <= _FIRST_LINE_BYTES_MAX:
            if not self._more():
                return self._left
        return self._left if end is None else self._left[: end.start()]

    def take_line(self) -> bytes | None:
        """The first line that has something, without its end; None if there is none. Raises BadFile."""
        while True:
            while (end := _LINE_END.search(self._left)) is None and self._more():
                if len(self._left) > _FIRST_LINE_BYTES_MAX:
                    raise BadFile(f"line 1: the header is longer than {_FIRST_LINE_BYTES_MAX // 1024} KiB")
            line, self._left = (
                (self._left, b"") if end is None else (self._left[: end.start()], self._left[end.end() :])
            )
            if line.strip():
                return line
            if self.is_empty:
                return None

    def all_if_small(self) -> bytes | None:
        """All that is left; None if it is more than a block."""
        while len(self._left) <= _BLOCK_BYTES:
            if not self._more():
                return self._left
        return None

    def add(self, text: bytes) -> None:
        """Append bytes behind the end of the text."""
        self._next = itertools.chain(self._next, [text])

    def readable(self) -> bool:
        """See io."""
        return True

    def read(self, size: int = -1) -> bytes:
        """See io. No block begins with the line feed behind a carriage return: Arrow leaves it out, also of a value in
        quotes, and takes it for the end if it is alone.
        """
        while (size < 0 or len(self._left) < 2) and self._more():
            pass
        taken = self._left if size < 0 else self._left[:size]
        if len(taken) > 1 and taken.endswith(b"\r") and (len(taken) < len(self._left) or self._more()):
            taken = taken[:-1]
        self._left = self._left[len(taken) :]
        self.look(taken)
        return taken

    def _more(self) -> bool:
        """Whether there was more."""
        block = next(self._next, None)
        while block is not None and not block:
            block = next(self._next, None)
        if block is None:
            return False
        self._left += block
        return True
