"""Which reader a source's format and options give, and which columns a file shows that no schema names."""

from __future__ import annotations

import codecs
from typing import Final

import pyarrow as pa

from bucketingest.decode.ddl import UnreadableDdl, type_in_ddl
from bucketingest.decode.ddl import columns_of as columns_of_ddl
from bucketingest.decode.files import avro_containers
from bucketingest.decode.files.avro_containers import AvroReader
from bucketingest.decode.files.column_types import read_as
from bucketingest.decode.files.csv_rows import CsvReader
from bucketingest.decode.files.directories import values_in
from bucketingest.decode.files.json_documents import JsonReader
from bucketingest.decode.files.opening import decompressed
from bucketingest.decode.files.parquet import ParquetReader, opened
from bucketingest.decode.files.parts import BadFile, Reader
from bucketingest.decode.files.text_values import unreadable_type
from bucketingest.spec.fields.source import FilesSource

_UTF8: Final = "utf-8"


def reader_of(source: FilesSource, columns: pa.Schema) -> Reader:
    """The reader of the source's files."""
    option = source.options.get
    encoding = codecs.lookup(option("encoding", _UTF8)).name
    match source.format:
        case "json":
            return JsonReader(columns, option("multiLine") == "true", encoding)
        case "csv":
            quote, escape = option("quote", '"'), option("escape")
            return CsvReader(
                columns,
                has_header=None if (header := option("header")) is None else header == "true",
                separator=option("sep", ",").replace("\\t", "\t"),
                quote=quote,
                escape=None if escape in (None, "", quote) else escape,
                encoding=encoding,
                null=option("nullValue", ""),
            )
        case "avro":
            return AvroReader(columns)
        case "parquet":
            return ParquetReader(columns)


def is_splittable(source: FilesSource) -> bool:
    """Whether several tasks may read a file, unless it is compressed."""
    reader = reader_of(source, pa.schema([]))
    if isinstance(reader, JsonReader):
        return not reader.is_multi_line and reader.encoding == _UTF8
    return isinstance(reader, ParquetReader)


def declared(source: FilesSource) -> pa.Schema | None:
    """Columns of the schema that is given; None: none is. Raises UnreadableDdl."""
    if source.schema_text is None:
        return None
    columns = columns_of_ddl(source.schema_text, typed=source.format != "json")
    if source.format == "csv" and (kind := unreadable_type(columns)) is not None:
        why = "which is not read from csv: take STRING, and convert it in transform.sql"
        raise UnreadableDdl(f"has the type {type_in_ddl(kind)}, {why}")
    return columns


SHOWS_COLUMNS: Final = frozenset(["parquet", "avro"])
"""Formats whose files say what their columns are."""


def columns_of(file: pa.NativeFile, path: str, file_format: str) -> pa.Schema:
    """The columns of a file of such a format and of the directories that it is in, as they are read without a schema.

    Raises BadFile.
    """
    if file_format == "avro":
        container = avro_containers.opened(decompressed(file, path))
        found = pa.schema([]) if container is None else container.columns
    else:
        with opened(decompressed(file, path)) as parquet:
            found = parquet.schema_arrow
    fields: list[pa.Field] = []
    for field in found:
        kind = read_as(field.type)
        if kind is None:
            raise BadFile(f"column {field.name}: the type {field.type} has no column; name the others in schema")
        fields.append(pa.field(field.name, kind))
    known = {field.name.lower() for field in fields}
    if len(known) < len(fields):
        raise BadFile(f"has columns whose names differ in case only, or not at all: {', '.join(found.names)[:200]}")
    fields += [pa.field(name, pa.string()) for name in values_in(path) if name.lower() not in known]
    return pa.schema(fields)
