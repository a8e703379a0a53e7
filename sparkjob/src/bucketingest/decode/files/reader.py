"""Files of any format to rows of the schema: opened by name, with the values of their directories, and refused with
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa

from bucketingest.decode.files.directories import constants, with_constants
from bucketingest.decode.files.opening import decompressed
from bucketingest.decode.files.parts import BadFile, Part, Piece, Reader, Undecoded, unknown_columns

Open = Callable[[Piece], AbstractContextManager[pa.NativeFile]]
"""Opens the file of a piece, at its first byte."""
_ROWS: Final = 8192
_BYTES: Final = 4 * 1024**2
"""Of records of several files that are decoded together, at most: a call for ten takes half as long as for 1,000."""


class Found(NamedTuple):
    """What a file has, and the values of its directories."""

    piece: Piece
    part: Part | Undecoded
    made: dict[str, pa.Array]


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads pieces of files. Picklable."""

    columns: pa.Schema
    """Of the rows, with those whose values are in the names of directories."""
    format: Reader

    def read(self, piece: Piece, open_file: Open) -> Iterator[Part]:
        """The records of a piece. Raises BadFile, and what `open_file` does."""
        return (part for _, part in self.decoded(self.found(piece, open_file)))

    def found(self, piece: Piece, open_file: Open) -> Iterator[Found]:
        """The records of a piece, for `decoded`. Raises as `read` does."""
        with _named(piece), damaged():
            made = constants(piece.path, self.columns)
            reader = replace(self.format, columns=self._without(made)) if made else self.format
            if not len(reader.columns):
                raise BadFile("its directories have every column of the schema: add a column that its records have")
            with open_file(piece) as file:
                for part in reader.read(decompressed(file, piece.path), piece):
                    yield Found(piece, part, made)

    def decoded(self, found: Iterable[Found]) -> Iterator[tuple[Piece, Part]]:
        """Rows of the pieces in their order; those of several may come with the last one of them."""
        waiting: list[tuple[Piece, Undecoded]] = []
        together: dict[str, pa.Array] = {}
        rows = size = 0
        for piece, part, made in found:
            more = 0 if isinstance(part, Part) else part.size
            if waiting and (
                isinstance(part, Part)
                or rows + part.records > _ROWS
                or size + more > _BYTES
                or part.kind != waiting[0][1].kind
                or made != together
            ):
                yield from self._decoded(waiting, together)
                waiting, rows, size = [], 0, 0
            if isinstance(part, Part):
                yield from self._made([(piece, part)], made)
                continue
            waiting.append((piece, part))
            together = made
            rows += part.records
            size += more
        if waiting:
            yield from self._decoded(waiting, together)

    def _decoded(
        self, waiting: list[tuple[Piece, Undecoded]], made: dict[str, pa.Array]
    ) -> Iterator[tuple[Piece, Part]]:
        try:
            with _named(waiting[0][0]):
                parts = waiting[0][1].decoded([each for _, each in waiting])
        except BadFile:
            if len(waiting) == 1:
                raise
            for each in waiting:  # which of them it is
                yield from self._decoded([each], made)
            return
        yield from self._made([(piece, part) for (piece, _), part in zip(waiting, parts, strict=True)], made)

    def _made(self, parts: list[tuple[Piece, Part]], made: dict[str, pa.Array]) -> Iterator[tuple[Piece, Part]]:
        """The parts that have something, with the columns that the directories have."""
        for piece, part in parts:
            if made:
                part.rows = with_constants(part.rows, self.columns, made)
                # Of a column that the directories have the file's own values are not read.
                part.unknown = unknown_columns(part.unknown, self.columns)
            if part.rows.num_rows or part.refused or part.unknown:
                yield piece, part

    def _without(self, made: dict[str, pa.Array]) -> pa.Schema:
        return pa.schema([field for field in self.columns if field.name not in made])


@contextmanager
def _named(piece: Piece) -> Iterator[None]:
    try:
        yield
    except BadFile as error:
        error.number = piece.number
        raise


@contextmanager
def damaged() -> Iterator[None]:
    """What a file that cannot be read raises becomes BadFile."""
    try:
        yield
    except (pa.ArrowException, EOFError, UnicodeError) as error:
        raise BadFile(f"is damaged: {str(error).strip()}") from None
    except OSError as error:
        # Arrow says so of what a codec or format refuses; the system's own have a number.
        if error.errno is not None:
            raise
        raise BadFile(f"is damaged: {str(error).strip()}") from None
