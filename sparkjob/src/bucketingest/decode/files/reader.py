"""Files of any format to rows of the schema: opened by name, with the values of their directories, and refused with
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from bucketingest.decode.files.directories import constants, with_constants
from bucketingest.decode.files.opening import decompressed
from bucketingest.decode.files.parts import BadFile, Part, Piece, Reader, Undecoded, no_rows, unknown_columns
from bucketingest.decode.json.decoder import JsonDecoder

Open = Callable[[Piece], AbstractContextManager[pa.NativeFile]]
"""Opens the file of a piece, at its first byte."""
_ROWS: Final = 8192
_BYTES: Final = 4 * 1024**2
"""Of documents of several files that are decoded together, at most: a call for ten takes half as long as for 1,000."""


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
        made = constants(piece.path, self.columns)
        reader = self.format.with_columns(self._without(made))
        try:
            with open_file(piece) as file:
                for part in reader.read(decompressed(file, piece.path), piece):
                    if part.unknown and made:  # the file's own values of a column that the directories have
                        part.unknown = unknown_columns(part.unknown, self.columns)
                    yield Found(piece, part, made)
        except (pa.ArrowException, EOFError, UnicodeError) as error:
            raise BadFile(f"is damaged: {error}") from None
        except OSError as error:
            # Arrow says so of what a codec or format refuses; the system's own have a number.
            if error.errno is not None:
                raise
            raise BadFile(f"is damaged: {error}") from None

    def decoded(self, found: Iterable[Found]) -> Iterator[tuple[Piece, Part]]:
        """Rows of the pieces in their order; those of several may come with the last one of them."""
        waiting: list[tuple[Piece, Undecoded]] = []
        together: dict[str, pa.Array] = {}
        rows = size = 0
        for piece, part, made in found:
            texts = None if isinstance(part, Part) else part.texts
            fits = texts is not None and rows + len(texts) <= _ROWS and size + texts.nbytes <= _BYTES
            if waiting and not (fits and made == together):
                yield from self._decoded(waiting, together)
                waiting, rows, size = [], 0, 0
            if isinstance(part, Part):
                if made:
                    part.rows = with_constants(part.rows, self.columns, made)
                yield piece, part
                continue
            waiting.append((piece, part))
            together = made
            rows += len(part.texts)
            size += part.texts.nbytes
        if waiting:
            yield from self._decoded(waiting, together)

    def _decoded(
        self, waiting: list[tuple[Piece, Undecoded]], made: dict[str, pa.Array]
    ) -> Iterator[tuple[Piece, Part]]:
        arrays = [each.texts for _, each in waiting]
        texts = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)  # a large one is not copied
        decoded = JsonDecoder(self._without(made)).decode(texts)
        parts = [Part(no_rows(self.columns), unknown=each.unknown) for _, each in waiting]
        ends = np.cumsum([len(each.texts) for _, each in waiting])
        for refused in decoded.refused:
            at = int(np.searchsorted(ends, refused.number, side="right"))
            each = waiting[at][1]
            parts[at].refused.append(each.no_row(refused.number - int(ends[at]) + len(each.texts), refused.why))
        parts[-1].rows = with_constants(decoded.rows, self.columns, made) if made else decoded.rows
        for (piece, _), part in zip(waiting, parts, strict=True):
            if part.rows.num_rows or part.refused or part.unknown:
                yield piece, part

    def _without(self, made: dict[str, pa.Array]) -> pa.Schema:
        return pa.schema([field for field in self.columns if field.name not in made])
