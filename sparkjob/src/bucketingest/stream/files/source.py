"""The files source of a resource: where its files are, which columns they have and how they are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bucketingest.decode.ddl import UnreadableDdl, type_in_ddl
from bucketingest.decode.files.formats import SHOWS_COLUMNS, columns_of, declared, is_splittable, reader_of
from bucketingest.decode.files.parts import BadFile, Part, Piece
from bucketingest.decode.files.reader import FileReader, damaged
from bucketingest.spec.fields.source import FilesSource
from bucketingest.storage import open_storage
from bucketingest.stream.errors import InvalidTransform, NoSourceFiles
from bucketingest.stream.files.opening import FileChanged, Opener
from bucketingest.stream.files.planner import Listing
from bucketingest.stream.files.source_file import is_local

_NAMED_MAX: Final = 20
"""Columns that are named."""


@dataclass(frozen=True, slots=True)
class FilesInput:
    """A source that can be read."""

    source: FilesSource
    listing: Listing
    reader: FileReader

    @property
    def is_splittable(self) -> bool:
        """Whether several tasks may read a file."""
        return is_splittable(self.source)

    def rows(self, session: SparkSession) -> DataFrame:
        """No rows, with the source's columns."""
        return session.createDataFrame([], from_arrow_schema(self.reader.columns, prefer_timestamp_ntz=True))


def open_files(source: FilesSource) -> FilesInput:
    """Raises InvalidTransform for a schema that cannot be read, NoSourceFiles, StorageError."""
    listing = listing_of(source)
    where = listing.storage.url
    if is_local(listing.storage) and not Path(where).is_dir():  # an object store has no directories
        raise NoSourceFiles(f"spec.source.files.path: there is no directory {where}. Make it, or correct the path")
    if (columns := _declared(source)) is None:
        columns = first_columns(listing, source.format)
    return FilesInput(source, listing, FileReader(columns, reader_of(source, columns)))


def look_at_files(source: FilesSource) -> str:
    """The first file and its columns beside the schema's, in words. Raises StorageError, BadFile, InvalidTransform."""
    listing = listing_of(source)
    files, size, first = 0, 0, None
    for file in listing:
        files, size = files + 1, size + file.size
        if file.size and (first is None or file.place < first.place):
            first = file
    found = f"{listing.storage.url} has {files:,} files of {size:,} bytes"
    if first is None:
        return f"{found}, and none that has a row"
    columns = _declared(source)
    opener = Opener(listing.storage.url, {0: first.version})
    piece = Piece(0, first.path, 0, first.size)
    shown = f"{found}; the first is {first.path}"
    try:
        if source.format in SHOWS_COLUMNS:
            with damaged(), opener(piece) as file:
                shown += f": {_beside(columns_of(file, first.path, source.format), columns)}"
        if columns is not None:
            parts = FileReader(columns, reader_of(source, columns)).read(piece, opener)
            shown += _first_records(parts, is_shown=source.format in SHOWS_COLUMNS)
    except (BadFile, FileChanged) as error:
        raise InvalidTransform(f"{listing.storage.url}/{first.path}: {_why(error)}") from error
    return shown


def _first_records(parts: Iterator[Part], *, is_shown: bool) -> str:
    """Columns that the schema does not have, unless they are shown already, and what is no row."""
    unknown: list[str] = []
    for part in parts:
        unknown += part.unknown
        if part.rows.num_rows or part.refused:
            break
    else:
        return "; it has no records"
    shown = f"; not in schema: {', '.join(unknown[:_NAMED_MAX])}" if unknown and not is_shown else ""
    if part.refused:
        first = part.refused[0]
        shown += f"; {len(part.refused)} of its first records are no rows: {first.place}: {first.why}"
    return shown


def _why(error: BadFile | FileChanged) -> str:
    if isinstance(error, BadFile):
        return str(error)
    return "was changed while it was looked at: write files under another name, and rename them when they are whole"


def _beside(found: pa.Schema, columns: pa.Schema | None) -> str:
    """Columns of a file, each with that of the schema where it differs."""
    if columns is None:
        return ", ".join(f"{field.name} {type_in_ddl(field.type)}" for field in found)
    wanted = {field.name.lower(): field for field in columns}
    words = []
    for field in found:
        name, kind = field.name, type_in_ddl(field.type)
        beside = wanted.pop(name.lower(), None)
        if beside is None:
            words.append(f"{name} {kind} (not in schema)")
        elif beside.type != field.type:
            words.append(f"{name} {kind} (schema: {type_in_ddl(beside.type)})")
        else:
            words.append(f"{name} {kind}")
    return ", ".join([*words, *(f"{field.name} (only in schema)" for field in wanted.values())])


def listing_of(source: FilesSource) -> Listing:
    """How the files of a source are listed."""
    return Listing(
        open_storage(source.path),
        source.max_files_per_trigger,
        source.max_bytes_per_trigger,
        source.changed,
        source.start_after,
        source.options.get("pathGlobFilter"),
    )


def _declared(source: FilesSource) -> pa.Schema | None:
    try:
        return declared(source)
    except UnreadableDdl as error:
        raise InvalidTransform(f"spec.source.files.schema {error}") from error


def first_columns(listing: Listing, file_format: str) -> pa.Schema:
    """Columns of the first file that has a byte. Raises NoSourceFiles."""
    file = min((each for each in listing if each.size), key=lambda each: each.place, default=None)
    where = listing.storage.url
    if file is None:
        raise NoSourceFiles(f"{where} has no file that shows the columns: give them in spec.source.files.schema")
    opener = Opener(where, {0: file.version})
    try:
        with damaged(), opener(Piece(0, file.path, 0, file.size)) as opened:
            return columns_of(opened, file.path, file_format)
    except (BadFile, FileChanged) as error:
        why = f"{where}/{file.path}: {_why(error)}. Give the columns in spec.source.files.schema"
        raise NoSourceFiles(why) from error
