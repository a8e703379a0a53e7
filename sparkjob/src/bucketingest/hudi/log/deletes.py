"""The content of delete blocks: Hudi's list of deleted keys, each with its ordering value.

Format: ``int 3``, ``int length``, one Avro datum of HoodieDeleteRecordList (Hudi 1.2.0, seen in log files it wrote).
The ordering value is wrapped in a record that names its type. Hudi's Spark reader compares the unwrapped value with the
column's value as Spark holds it, without conversion: the wrong wrapper causes a ClassCastException in the reader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bucketingest.hudi.avro.encoding import add_column
from bucketingest.hudi.avro.rows import RowBuilder, binary_data, zigzag
from bucketingest.hudi.errors import SchemaError

_VERSION: Final = 3
_CHUNK_ROWS: Final = 16_384
_DECIMAL_WRAPPER: Final = (30, 15)
"""Precision and scale of the only decimal a delete can carry."""

# Branches of the union of wrappers in HoodieDeleteRecord.orderingVal.
_BOOLEAN, _INT, _LONG, _FLOAT, _DOUBLE, _STRING, _DECIMAL = 1, 2, 3, 4, 5, 7, 9

_BY_COMMIT_TIME: Final = bytes([2 * _INT, 0])
"""IntWrapper(0), which Hudi's writer gives deletes without ordering value: they delete every earlier row.

The null branch would mean the same to hudi-rs, but Hudi 1.2.0's Spark reader fails on it (NullPointerException) if
the deleted row is in a log file.
"""


def delete_contents(
    record_keys: pa.Array, partition_path: str, ordering: pa.Array | None
) -> list[list[pa.Buffer | bytes]]:
    """The contents of the delete blocks for these keys, as buffers: see `blocks.delete_block` for the arguments.

    One block, or two if some ordering values are null and others not: hudi-rs 0.5.0 refuses a block with two wrappers.
    """
    if ordering is not None and len(ordering) != len(record_keys):
        raise ValueError(f"{len(record_keys)} record keys but {len(ordering)} ordering values")
    if record_keys.null_count:
        raise ValueError(f"{record_keys.null_count} of the record keys to delete are null")
    if ordering is None or not ordering.null_count:
        return [_content(record_keys, partition_path, ordering)]
    _wrapped(ordering)  # refuses its type, also if all values are null
    by_commit_time = _content(record_keys.filter(ordering.is_null()), partition_path, None)
    if ordering.null_count == len(ordering):
        return [by_commit_time]
    return [by_commit_time, _content(record_keys.filter(ordering.is_valid()), partition_path, ordering.drop_null())]


def _content(record_keys: pa.Array, partition_path: str, ordering: pa.Array | None) -> list[pa.Buffer | bytes]:
    rows = list(_rows(record_keys, partition_path, ordering))
    count = RowBuilder(1)
    if len(record_keys):
        count.add_varints(zigzag(np.array([len(record_keys)], np.int64)), None)
    # One block with its count of items, then the zero count that ends an Avro array.
    parts = [count.finish()[0].as_py(), *rows, b"\0"]
    return [struct.pack(">ii", _VERSION, sum(memoryview(part).nbytes for part in parts)), *parts]


def _rows(record_keys: pa.Array, partition_path: str, ordering: pa.Array | None) -> Iterator[pa.Buffer]:
    branch, values = (0, None) if ordering is None else _wrapped(ordering)
    partition = pa.array([partition_path])
    for start in range(0, len(record_keys), _CHUNK_ROWS):
        keys = record_keys.slice(start, _CHUNK_ROWS)
        builder = RowBuilder(len(keys))
        add_column(builder, keys, nullable=True)
        add_column(builder, pa.DictionaryArray.from_arrays(np.zeros(len(keys), np.int32), partition), nullable=True)
        if values is None:
            builder.add_constant(_BY_COMMIT_TIME)
        else:
            add_column(builder, values.slice(start, _CHUNK_ROWS), nullable=True, tag=2 * branch)
        yield binary_data(builder.finish())


def _wrapped(ordering: Any) -> tuple[int, pa.Array]:
    """The branch of the ordering value's wrapper, and the values in that wrapper's form."""
    kind = ordering.type
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        # Spark holds a timestamp as a long; TimestampMicrosWrapper would be unwrapped to java.sql.Timestamp.
        return _LONG, ordering.view(pa.int64())
    if pa.types.is_int64(kind):
        return _LONG, ordering
    if kind in (pa.int8(), pa.int16(), pa.int32()):
        return _INT, ordering
    if pa.types.is_date32(kind):
        # Spark holds a date as an int; DateWrapper would be unwrapped to java.sql.Date.
        return _INT, ordering.view(pa.int32())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _STRING, ordering
    if pa.types.is_float64(kind):
        return _DOUBLE, ordering
    if pa.types.is_float32(kind):
        return _FLOAT, ordering
    if pa.types.is_boolean(kind):
        return _BOOLEAN, ordering
    if pa.types.is_decimal128(kind):
        return _DECIMAL, _decimal_bytes(ordering)
    raise SchemaError(
        f"a delete cannot hold an ordering value of type {kind}; "
        "order by a long, int, timestamp, date, string, double or decimal column"
    )


def _decimal_bytes(ordering: pa.Array) -> pa.Array:
    """Big-endian two's complement of the value at scale 15: the Avro bytes of a DecimalWrapper."""
    precision, scale = _DECIMAL_WRAPPER
    kind = ordering.type
    if kind.scale > scale or kind.precision - kind.scale > precision - scale:
        raise SchemaError(
            f"an ordering column of type {kind} does not fit Hudi's delete records, decimal{_DECIMAL_WRAPPER}: "
            f"cast it to at most {precision - scale} digits before and {scale} after the point"
        )
    rescaled = ordering.cast(pa.decimal128(precision, scale))
    words = np.frombuffer(rescaled.buffers()[1], np.uint8).reshape(-1, 16)
    big_endian = np.ascontiguousarray(words[rescaled.offset : rescaled.offset + len(rescaled), ::-1])
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(rescaled), [None, pa.py_buffer(big_endian)])
    return fixed.cast(pa.binary())
