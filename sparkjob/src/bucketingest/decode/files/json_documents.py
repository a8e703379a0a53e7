"""JSON files: each line has a document or several, one behind the other, as delivery services write them without line
ends; with `multiLine` a document may go over several lines.

Documents are decoded as Kafka's messages are. A line is split only where all of it is documents: never is a part of it
a row and the rest nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.files.lines import LINE_BYTES_MAX, Lines, lines_of, text_in_utf8
from bucketingest.decode.files.opening import check_text, is_compressed
from bucketingest.decode.files.parts import BadFile, NoRow, Part, Piece, no_rows
from bucketingest.decode.json.decoder import JsonDecoder

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
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_GOES_ON: Final = (b"{", b"[", b",")
"""Ends of a line behind which a document goes on."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Some lines of a file, in its order. Their documents are decoded with those of other files."""

    lines: Lines
    columns: pa.Schema
    is_first: bool
    """Whether they are the piece's first ones."""
    goes_on: bool
    """Whether a document that goes over several lines is refused."""

    @property
    def kind(self) -> object:
        """See `Undecoded`."""
        return None

    @property
    def records(self) -> int:
        """See `Undecoded`."""
        return len(self.lines.texts)

    @property
    def size(self) -> int:
        """See `Undecoded`."""
        return self.lines.texts.nbytes

    def decoded(self, waiting: Sequence[Documents]) -> list[Part]:
        """See `Undecoded`."""
        lines = [each.lines.texts for each in waiting]
        texts, of_line = _split(lines[0] if len(lines) == 1 else pa.concat_arrays(lines))  # a large one is not copied
        ends = np.cumsum([each.records for each in waiting])
        of_part = np.searchsorted(ends, of_line, side="right")
        decoded = JsonDecoder(self.columns).decode(texts)
        starts = np.searchsorted(of_part, np.arange(len(waiting) + 1)).tolist()
        empty = no_rows(self.columns)
        parts = [Part(empty) for _ in waiting]
        for each, part, (start, end) in zip(waiting, parts, pairwise(starts), strict=True):
            if each.is_first:
                part.unknown = _unknown(texts.slice(start, min(_LOOKED_AT, end - start)), self.columns)
        for refused in decoded.refused:
            at, line = int(of_part[refused.number]), int(of_line[refused.number])
            each = waiting[at]
            place = line - int(ends[at]) + each.records
            parts[at].refused.append(each.no_row(place, refused.why, texts[refused.number].as_py()))
        parts[-1].rows = decoded.rows
        return parts

    def no_row(self, line: int, why: str, text: bytes) -> NoRow:
        """A document that is no row, with its line."""
        if self.goes_on and text.rstrip(_SPACE_BYTES).endswith(_GOES_ON):
            why = f"{why}; set options.multiLine if documents go over several lines"
        return NoRow(self.lines.place(line), why, text)


@dataclass(frozen=True, slots=True)
class JsonReader:
    """Reads JSON files into the columns. Picklable."""

    columns: pa.Schema
    is_multi_line: bool = False
    encoding: str = _UTF8

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Documents]:
        """See `Reader`."""
        is_first = True
        for lines in self._lines(file, piece):
            for start in range(0, len(lines.texts), _BLOCK_ROWS):
                some = lines.texts.slice(start, _BLOCK_ROWS)
                numbered = Lines(some, lines.numbers[start : start + _BLOCK_ROWS], lines.after)
                yield Documents(numbered, self.columns, is_first, goes_on=not self.is_multi_line)
                is_first = False

    def _lines(self, file: pa.NativeFile, piece: Piece) -> Iterator[Lines]:
        if self.encoding != _UTF8:
            text = _all_of(text_in_utf8(file, self.encoding))
            file = pa.BufferReader(text.removeprefix("\ufeff".encode()))
            piece = piece._replace(start=0, end=len(text))
        if not self.is_multi_line:
            yield from lines_of(file, piece, whole=is_compressed(piece.path))
            return
        text = _all_of(iter(lambda: file.read(LINE_BYTES_MAX), b"")).removeprefix(b"\xef\xbb\xbf")
        check_text(text)
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
    """Members of documents that are no columns; names of JSON have the case of the schema."""
    known, found = set(columns.names), dict[str, None]()
    for document in documents.to_pylist():
        with suppress(ValueError, RecursionError):
            found |= dict.fromkeys(_members.decode(document))
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
    return [line] if found is None else [each.encode() for each in found]


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
