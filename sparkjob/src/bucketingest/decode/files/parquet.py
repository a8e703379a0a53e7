"""Parquet files to Arrow columns, a row group after the other.

A column is found by its name, whose case may differ. A type that holds less is widened; any other difference is said
with the file's name, the column and both types, because a value that is made to fit is another value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.decode.files.column_types import converted_column, names_of
from bucketingest.decode.files.parts import BadFile, NoRow, Part, Piece, no_rows

_OLD_CALENDAR: Final = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK_VERSION: Final = b"org.apache.spark.version"
_SAME_SINCE: Final = -25_567
"""Day of 1900-01-01: from then on the calendar of Spark 2 has the same days and times in all zones but odd ones."""
_DAY_MICROS: Final = 86_400_000_000
_BATCH_ROWS: Final = 4096
_BATCH_BYTES: Final = 1024**2
"""Bytes of a batch, about."""
_SAMPLE_ROWS: Final = 16
_BUFFER_BYTES: Final = 256 * 1024
"""Of a column's chunk so much is read at a time: a chunk may be larger than the memory of a task."""
_SHOWN_MAX: Final = 1024
"""Bytes of a value that are kept with a dead letter."""


@dataclass(frozen=True, slots=True)
class ParquetReader:
    """Reads Parquet files into the columns. Picklable."""

    columns: pa.Schema

    def read(self, file: pa.NativeFile, piece: Piece) -> Iterator[Part]:
        """See `Reader`."""
        if not piece.end:
            return  # a file without a byte has no rows
        with opened(file) as parquet:
            names = names_of(parquet.schema_arrow, self.columns)
            of_file = [name for name in names if name is not None]
            is_old = _has_old_calendar(parquet.metadata)
            unknown = tuple(name for name in parquet.schema_arrow.names if name not in of_file)
            if unknown and not piece.start:
                yield Part(no_rows(self.columns), unknown=unknown)
            of_row = 0
            for group, first in _groups(parquet.metadata, piece, file.size()):
                row = first
                of_group = parquet.metadata.row_group(group)
                of_row = of_row or _row_bytes(parquet, group, of_file)
                most = max(of_row, of_group.total_byte_size // max(1, of_group.num_rows))
                size = max(1, min(_BATCH_ROWS, _BATCH_BYTES // most))
                for batch in parquet.iter_batches(size, [group], of_file, use_threads=False):
                    yield self._part(batch, names, row, is_old=is_old)
                    row += batch.num_rows

    def _part(self, batch: pa.RecordBatch, names: list[str | None], first: int, *, is_old: bool) -> Part:
        found = []
        refused: dict[int, NoRow] = {}
        for name, field in zip(names, self.columns, strict=True):
            if name is None:
                found.append(pa.nulls(batch.num_rows, field.type))
                continue
            array = batch.column(name)
            for at in not_utf8(array):
                place = f"row {first + at + 1}, column {field.name}"
                refused.setdefault(at, NoRow(place, "a byte that is not UTF-8", _shown(array, at)))
            if refused:
                array = pc.if_else(_mask(batch.num_rows, refused), pa.scalar(None, array.type), array)
            found.append(converted_column(array, field))
            if is_old and _is_before_1900(found[-1]):
                raise BadFile(
                    f"column {field.name}: written with the calendar of Spark 2, and has times before 1900, which it "
                    "counts otherwise; write the file again with a newer Spark"
                )
        rows = pa.RecordBatch.from_arrays(found, schema=self.columns)
        if refused:
            rows = rows.filter(pc.invert(_mask(batch.num_rows, refused)))
        return Part(rows, [refused[at] for at in sorted(refused)])


def opened(file: pa.NativeFile) -> pq.ParquetFile:
    """Raises BadFile."""
    if not file.seekable():
        raise BadFile("is compressed as a whole, and Parquet is not read so: write it with a codec of its own")
    try:
        return pq.ParquetFile(
            file,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,  # many damaged pages decode, to other values
        )
    except pa.ArrowInvalid as error:
        raise BadFile(f"is no Parquet file: {error}") from None


def not_utf8(array: pa.Array) -> list[int]:
    """Rows whose text, at any depth, is not UTF-8."""
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return [at for at in range(len(array)) if not _is_valid(array.slice(at, 1))]
    return []


def _is_valid(array: pa.Array) -> bool:
    # A slice of a list or struct keeps the values of its neighbours.
    taken = array.take(pa.array([0]))
    try:
        taken.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _mask(count: int, refused: dict[int, NoRow]) -> pa.BooleanArray:
    return pa.array([at in refused for at in range(count)])


def _shown(array: pa.Array, at: int) -> bytes:
    kind = array.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return b""
    value: bytes = array.slice(at, 1).cast(pa.large_binary())[0].as_py()
    return value[:_SHOWN_MAX]


def _row_bytes(parquet: pq.ParquetFile, group: int, columns: list[str]) -> int:
    """How long the first rows of a group are; the footer counts values once that come again."""
    first = next(parquet.iter_batches(_SAMPLE_ROWS, [group], columns, use_threads=False), None)
    return 1 if first is None else max(1, first.nbytes // first.num_rows)


def _groups(metadata: pq.FileMetaData, piece: Piece, size: int) -> Iterator[tuple[int, int]]:
    """Row groups of a piece, and the number of the first row of each. A row group is in that piece which has the byte
    where its middle is if all rows are equally long. `size`: bytes of the file.

    Where its bytes really are only its columns say, and PyArrow ends the process if a damaged footer has odd ones.
    """
    row = 0
    for number in range(metadata.num_row_groups):
        count = metadata.row_group(number).num_rows
        middle = size * (2 * row + count) // (2 * max(1, metadata.num_rows))
        if piece.start <= min(max(0, middle), size - 1) < piece.end:
            yield number, row
        row += count


def _has_old_calendar(metadata: pq.FileMetaData) -> bool:
    known = metadata.metadata or {}
    is_old = known.get(_SPARK_VERSION, b"").startswith((b"0.", b"1.", b"2."))
    return is_old or any(key in known for key in _OLD_CALENDAR)


def _is_before_1900(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        return any(map(_is_before_1900, array.flatten()))
    if pa.types.is_map(array.type):
        return _is_before_1900(array.keys) or _is_before_1900(array.items)
    if pa.types.is_list(array.type):
        return _is_before_1900(array.flatten())
    if not pa.types.is_temporal(array.type):
        return False
    is_date = pa.types.is_date(array.type)
    least = pc.min(array.view(pa.int32() if is_date else pa.int64())).as_py()
    return least is not None and least < _SAME_SINCE * (1 if is_date else _DAY_MICROS)
