"""Columns whose values are in the names of directories, as Hive and Spark write them: `dt=2026-01-01/part.parquet`."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

import pyarrow as pa

from bucketingest.decode.ddl import type_in_ddl
from bucketingest.decode.files.parts import BadFile
from bucketingest.decode.files.text_values import column_of_text

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


def values_in(path: str) -> dict[str, str]:
    """Name → value, as it is written, of each directory `name=value` of a path; the innermost counts if a name comes
    twice. Pure.
    """
    found: dict[str, str] = {}
    for level in path.split("/")[:-1]:
        name, equals, value = level.partition("=")
        if equals and name:
            found[unquote(name)] = value
    return found


def constants(path: str, columns: pa.Schema) -> dict[str, pa.Array]:
    """Columns (as the schema calls them) that a path has values for, each of one row. Raises BadFile."""
    names = {name.lower(): name for name in columns.names} if "=" in path else {}
    made: dict[str, pa.Array] = {}
    for name, value in values_in(path).items():
        if (column := names.get(name.lower())) is None:
            continue
        try:
            text = None if value == _NULL else unquote(value, errors="strict")
        except UnicodeDecodeError:
            raise BadFile(f"the directory {name}={value} is not UTF-8 behind its percent signs. Rename it") from None
        kind = columns.field(column).type
        array, bad = column_of_text(pa.array([text], pa.string()), kind)
        if bad.any():
            raise BadFile(f"the directory {name}={text} is not a value of the column {column}, a {type_in_ddl(kind)}")
        made[column] = array
    return made


def with_constants(rows: pa.RecordBatch, columns: pa.Schema, made: dict[str, pa.Array]) -> pa.RecordBatch:
    """The rows with these columns too, in the order of the schema."""
    count = rows.num_rows
    arrays = [
        pa.repeat(made[field.name][0], count).cast(field.type) if field.name in made else rows.column(field.name)
        for field in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
