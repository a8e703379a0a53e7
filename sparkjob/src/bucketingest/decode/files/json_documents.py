"""JSON files: each line has a document or several, one behind the other, as delivery services write them without line
ends; with `multiLine` a document may go over several lines.

Documents are decoded as Kafka's messages are. A line is split only where all of it is documents: never is a part of it
a row and the rest nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.files.lines import LINE_BYTES_MAX, Lines, lines_of, text_in_utf8
from bucketingest.decode.files.opening import is_compressed
from bucketingest.decode.files.parts import BadFile, NoRow, Piece

_SPECIAL: Final = r"\}[ \t\r\n]*\{|^[ \t\r\n]*(?:\[|$)"
"""Lines where a second document may begin, unless it is in a string; that may be an array of documents, or nothing."""
_SPACES: Final = " \t\r\n"
_SPACE_BYTES: Final = b" \t\r\n"
_BLOCK_ROWS: Final = 8192
_LOOKED_AT: Final = 20
"""Documents of a piece in which members are looked for that the schema does not have: in all it would take as long as
decoding them.
"""
_UTF8: Final = "utf-8"
_GOES_ON: Final = (b"{", b"[", b",")
"""Ends of a line behind which a document goes on."""


@dataclass(slots=True)
class Documents:
    """Some documents of a file, in its order. They are decoded with those of other files."""

    texts: pa.BinaryArray
    lines: Lines
    of_line: npt.NDArray[np.int64]
    """The line of each document, from 0 on."""
    unknown: tuple[str, ...]
    """See `Part`."""
    goes_on: bool
    """Whether a document that goes over several lines is refused."""

    def no_row(self, at: int, why: str) -> NoRow:
        """Of a document."""
        text = self.texts[at].as_py()
        if self.goes_on and text.rstrip(_SPACE_BYTES).endswith(_GOES_ON):
            why = f"{why}; set options.multiLine if documents go over several lines"
        return NoRow(self.lines.place(int(self.of_line[at])), why, text)


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Reads JSON files into the columns. Picklable."""

    columns: pa.Schema
    is_multi_line: bool = False
    encoding: str = _UTF8

    def with_columns(self, columns: pa.Schema) -> JsonReader:
        """See `Reader`."""
        return replace(self, columns=columns)

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Documents]:
        """See `Reader`."""
        is_first = True
        for lines in self._lines(file, piece):
            for start in range(0, len(lines.texts), _BLOCK_ROWS):
                some = lines.texts.slice(start, _BLOCK_ROWS)
                texts, of_line = _split(some)
                unknown = _unknown(texts, self.columns) if is_first else ()
                is_first = False
                numbered = Lines(some, lines.numbers[start : start + _BLOCK_ROWS], lines.after)
                yield Documents(texts, numbered, of_line, unknown, goes_on=not self.is_multi_line)

    def _lines(self, file: pa.NativeFile, piece: Piece) -> Iterator[Lines]:
        if self.encoding != _UTF8:
            text = _all_of(text_in_utf8(file, self.encoding))
            file = pa.BufferReader(text.removeprefix("\ufeff".encode()))
            piece = piece._replace(start=0, end=len(text))
        if not self.is_multi_line:
            yield from lines_of(file, piece, whole=is_compressed(piece.path))
            return
        text = _all_of(iter(lambda: file.read(LINE_BYTES_MAX), b"")).removeprefix(b"\xef\xbb\xbf")
        if text.strip(_SPACE_BYTES):
            yield Lines(pa.array([text], pa.binary()), np.ones(1, np.int64), 0)


def _all_of(blocks: Iterator[bytes]) -> bytes:
    text = b""
    for block in blocks:
        text += block
        if len(text) > LINE_BYTES_MAX:
            raise BadFile(f"is longer than {LINE_BYTES_MAX // 1024**2} MiB, with multiLine or an encoding: split it")
    return text


def _unknown(documents: pa.BinaryArray, columns: pa.Schema) -> tuple[str, ...]:
    """Members of the first documents that are no columns; names of JSON have the case of the schema."""
    known, found = set(columns.names), dict[str, None]()
    for document in documents[:_LOOKED_AT].to_pylist():
        with suppress(ValueError, RecursionError):
            members = json.loads(document)
            found |= dict.fromkeys(members if isinstance(members, dict) else ())
    return tuple(name for name in found if name not in known)


def _split(lines: pa.BinaryArray) -> tuple[pa.BinaryArray, npt.NDArray[np.int64]]:
    """The documents of lines, and the place of the line of each. A line of spaces has none."""
    special = pc.match_substring_regex(lines, _SPECIAL).to_numpy(zero_copy_only=False)
    if not special.any():
        return lines, np.arange(len(lines))
    parts: list[pa.Array] = []
    of_line: list[npt.NDArray[np.int64]] = []
    before = 0
    for at in [*np.flatnonzero(special).tolist(), len(lines)]:
        parts.append(lines.slice(before, at - before))
        of_line.append(np.arange(before, at))
        if at < len(lines):
            line = lines[at].as_py()
            found = [] if line.isspace() else documents_in(line)
            parts.append(pa.array(found, pa.binary()))
            of_line.append(np.full(len(found), at))
        before = at + 1
    return pa.concat_arrays(parts), np.concatenate(of_line)


def documents_in(line: bytes) -> list[bytes]:
    """The documents of a line, or of an array that is all of it; the line itself if a part of it is something else."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return [line]
    stripped = text.strip(_SPACES)
    if stripped.startswith("["):
        found = _documents(stripped[1:-1], ",") if stripped.endswith("]") else None
    else:
        found = _documents(stripped, "")
    return [line] if not found else [each.encode() for each in found]


def _documents(text: str, separator: str) -> list[str] | None:
    """Objects one behind the other; None if something else is there."""
    decoder = json.JSONDecoder(strict=False)
    found: list[str] = []
    at = 0
    while True:
        while at < len(text) and text[at] in _SPACES:
            at += 1
        if at == len(text):
            return found
        if found and separator:
            if text[at] != separator:
                return None
            at += 1
            while at < len(text) and text[at] in _SPACES:
                at += 1
        if text[at : at + 1] != "{":
            return None
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append(text[at:end])
        at = end
