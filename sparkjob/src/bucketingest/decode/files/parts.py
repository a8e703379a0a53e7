"""What all readers of files have in common: what they are asked for, what they find, and how a file is refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import Field, dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa


class BadFile(Exception):
    """A file that cannot be read as a whole: none of its rows is to be written. The text says why and what to do."""

    number: int | None = None
    """Of the file in its micro-batch."""


class Piece(NamedTuple):
    """Part of a file."""

    number: int
    """Of the file in its micro-batch."""
    path: str
    """Below the source's directory."""
    start: int
    end: int
    """Bytes: a row group belongs to the piece that has its middle, a line to the one that has its first byte."""
    is_whole: bool = True
    """Whether the piece is all of the file."""


class NoRow(NamedTuple):
    """A record of a file that is no row."""

    place: str
    """Where it is in the file, in words: "line 3"."""
    why: str
    value: bytes
    """The record as it is, or the value in it that is wrong."""


@dataclass(slots=True)
class Part:
    """Some records of a file, in its order. Each is a row or is not."""

    rows: pa.RecordBatch
    refused: list[NoRow] = field(default_factory=list)
    unknown: tuple[str, ...] = ()
    """Columns of the file that the schema does not have, so their values are not read; in the file's first part."""


class Undecoded(Protocol):
    """Some records of a file, in its order: those of many small files are decoded together."""

    @property
    def kind(self) -> object:
        """Only records of equal kind are decoded together."""
        ...

    @property
    def records(self) -> int:
        """How many there are."""
        ...

    @property
    def size(self) -> int:
        """Their bytes."""
        ...

    def decoded(self, waiting: Sequence[Self]) -> list[Part]:
        """The rows of all that wait in the part of the last; what else is of one is in its part. Raises BadFile."""
        ...


class Reader(Protocol):
    """Reads files of one format into the columns of its schema. A dataclass, and picklable."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def columns(self) -> pa.Schema:
        """Of the rows. In a copy they may be fewer."""
        ...

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Part | Undecoded]:
        """The records of a piece. Raises BadFile, and what the file does when it is read."""
        ...


def no_rows(columns: pa.Schema) -> pa.RecordBatch:
    """An empty batch."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, kind) for kind in columns.types], schema=columns)


def unknown_columns(found: Iterable[str], columns: pa.Schema) -> tuple[str, ...]:
    """Names of a file's columns that the schema does not have. Pure."""
    known = {name.lower() for name in columns.names}
    return tuple(name for name in found if name.lower() not in known)
