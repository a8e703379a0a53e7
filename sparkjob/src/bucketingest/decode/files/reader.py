"""Files of any format to rows of the schema: opened by name, with the values of their directories, and refused with
their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from bucketingest.decode.files.directories import constants, with_constants
from bucketingest.decode.files.opening import decompressed
from bucketingest.decode.files.parts import BadFile, Part, Piece, Reader, unknown_columns

Open = Callable[[Piece], pa.NativeFile]
"""Opens the file of a piece, at its first byte."""


@dataclass(frozen=True, slots=True)
class FileReader:
    """Reads pieces of files. Picklable."""

    columns: pa.Schema
    """Of the rows, with those whose values are in the names of directories."""
    format: Reader

    def read(self, piece: Piece, open_file: Open) -> Iterator[Part]:
        """The records of a piece. Raises BadFile, and what `open_file` does."""
        made = constants(piece.path, self.columns)
        rest = pa.schema([field for field in self.columns if field.name not in made])
        reader = self.format.with_columns(rest)
        try:
            with open_file(piece) as file:
                for part in reader.read(decompressed(file, piece.path), piece):
                    if part.unknown and made:  # the file's own values of a column that the directories have
                        part.unknown = unknown_columns(part.unknown, self.columns)
                    if made:
                        part.rows = with_constants(part.rows, self.columns, made)
                    yield part
        except (pa.ArrowException, EOFError, UnicodeError) as error:
            raise BadFile(f"is damaged: {error}") from None
        except OSError as error:
            # Arrow says so of what a codec or format refuses; the system's own have a number.
            if error.errno is not None:
                raise
            raise BadFile(f"is damaged: {error}") from None
