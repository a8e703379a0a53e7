"""Parquet files to Arrow columns, where the result is sure to be Spark's: Spark makes rows of columns, and columns of
the rows, which takes longer than all else that is done with them.

What Spark may read otherwise (INT96, other types than the columns have, files with Spark's old calendar) is in doubt:
Spark reads the files of that micro-batch then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.decode.sql.nodes import RowsInDoubt

_TYPES: Final = (
    pa.types.is_boolean,
    pa.types.is_int8,
    pa.types.is_int16,
    pa.types.is_int32,
    pa.types.is_int64,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_decimal128,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_binary,
)
_WIDER: Final = {
    pa.string(): (pa.large_string(), pa.string_view()),
    pa.binary(): (pa.large_binary(), pa.binary_view()),
}
"""Types that a file's own Arrow schema may name for what Parquet has as the same."""
_OLD_CALENDAR: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION: Final = b"org.apache.spark.version"
_BATCH_ROWS: Final = 4096
_BATCH_BYTES: Final = 1024**2
"""Bytes of a batch, as far as the file says how long its rows are."""
_BUFFER_BYTES: Final = 256 * 1024
"""Of a column's chunk so much is read at a time: a chunk may be larger than the memory of a task."""


class Piece(NamedTuple):
    """Part of a file: its row groups whose middle is in these bytes."""

    path: str
    """On this machine."""
    start: int
    end: int


def unsupported(columns: pa.Schema) -> pa.DataType | None:
    """A type that is not read here; None if there is none."""
    return next((field.type for field in columns if not any(is_type(field.type) for is_type in _TYPES)), None)


def read(pieces: Sequence[Piece], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of the pieces, one after the other, with these columns; what a file lacks is null.

    Raises RowsInDoubt, also for whatever cannot be read: Spark says better what is wrong.
    """
    for piece in pieces:
        try:
            yield from _read(piece, columns)
        except (pa.ArrowException, OSError) as error:
            raise RowsInDoubt(f"{piece.path}: Arrow cannot read it: {type(error).__name__}") from None


def _read(piece: Piece, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(piece.path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
        names = _names(file, columns, piece.path)
        of_file = [name for name in names if name is not None]
        for group in _groups(file.metadata, piece):
            rows = file.metadata.row_group(group).num_rows
            size = file.metadata.row_group(group).total_byte_size
            batch_rows = max(1, min(_BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))
            for batch in file.iter_batches(batch_rows, row_groups=[group], columns=of_file, use_threads=False):
                found = [
                    pa.nulls(batch.num_rows, field.type) if name is None else batch.column(name).cast(field.type)
                    for name, field in zip(names, columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(found, schema=columns)


def _groups(metadata: pq.FileMetaData, piece: Piece) -> Iterator[int]:
    """A row group is in that piece of its file that has its middle, so it is in one of them."""
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = [group.column(at) for at in range(group.num_columns)]
        start = min(chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks)
        if piece.start <= start + sum(chunk.total_compressed_size for chunk in chunks) // 2 < piece.end:
            yield number


def _names(file: pq.ParquetFile, columns: pa.Schema, path: str) -> list[str | None]:
    """What the file calls each column, whose case may differ; None for one that it lacks. Raises RowsInDoubt."""
    metadata = file.metadata.metadata or {}
    version = metadata.get(_SPARK_VERSION)
    if any(key in metadata for key in _OLD_CALENDAR) or (version is not None and int(version.split(b".")[0]) < 3):
        raise RowsInDoubt(f"{path}: written with the calendar of Spark 2")
    by_name: dict[str, list[pa.Field]] = {}
    for field in file.schema_arrow:
        by_name.setdefault(field.name.lower(), []).append(field)
    names: list[str | None] = []
    for wanted in columns:
        found = by_name.get(wanted.name.lower(), [])
        if len(found) > 1:
            raise RowsInDoubt(f"{path}: has the column {wanted.name} twice")
        for field in found:
            if field.type != wanted.type and field.type not in _WIDER.get(wanted.type, ()):
                raise RowsInDoubt(f"{path}: {wanted.name} is a {field.type}, the column a {wanted.type}")
        names.append(found[0].name if found else None)
    return names
