"""Arrow columns to Avro binary datums, vectorised.

The hot path of Avro data blocks: every step works on whole columns of a chunk of rows, so no row becomes a Python
object. The bytes are those of Avro's own encoders (arrays and maps as one block of positive count).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.avro.rows import RowBuilder, Words, binary_array, binary_offsets, byte_mask, zigzag
from bucketingest.hudi.avro.stored_form import check_nulls
from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.table.schema import decimal_bytes

_CHUNK_ROWS: Final = 16_384
"""Rows encoded at once: the intermediate arrays of one column stay in the processor's cache."""
_CHUNK_BYTES: Final = 128 * 1024 * 1024
"""Above this much Arrow data a chunk is halved: far below the 2 GiB limit of the offsets of its byte strings."""
_VALUE_TAG: Final = 2
"""First byte of a value of type T in a union ["null", T]: branch 1, zigzag-encoded. Null is branch 0."""


def encode_rows(table: pa.Table, *, framed: bool = False) -> Iterator[pa.Array]:
    """The rows as Avro record datums, a pa.BinaryArray per chunk of rows, in order.

    ``framed`` puts each datum's length in front of it, 32 bits big-endian, as Avro data blocks have it.
    Columns must be of the types `arrow_to_avro` accepts; their nullability decides whether a union tag is written.
    Raises `SchemaError` if a column that is not nullable holds nulls.
    """
    for batch in _chunks(table):
        builder = RowBuilder(batch.num_rows)
        for field, column in zip(batch.schema, batch.columns, strict=True):
            check_nulls(field, column.null_count)
            add_column(builder, column, nullable=field.nullable)
        yield builder.finish(framed=framed)


def _chunks(table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches(max_chunksize=_CHUNK_ROWS):
        if batch.num_rows:
            yield from _halved(batch)


def _halved(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 1 or batch.nbytes <= _CHUNK_BYTES:
        yield batch
        return
    half = batch.num_rows // 2
    yield from _halved(batch.slice(0, half))
    yield from _halved(batch.slice(half))


def add_column(builder: RowBuilder, array: pa.Array, *, nullable: bool, tag: int = _VALUE_TAG) -> None:
    """Append one column's values to the rows of ``builder``, each with its union tag if ``nullable``.

    ``tag`` is the first byte of a value that is not null; null is a single zero byte.
    """
    if not len(array):
        return
    if pa.types.is_dictionary(array.type):
        if len(array.dictionary) == 1 and not array.null_count and array.dictionary.null_count == 0:
            _add_constant(builder, array.dictionary, nullable=nullable, tag=tag)
            return
        array = array.dictionary_decode()
    present: Words | None = None
    if nullable:
        if array.null_count:
            present = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint64)
            builder.add_bytes(present * np.uint64(tag), None)
        else:
            builder.add_bytes(tag, None)
    _add_values(builder, array, present)


def _add_constant(builder: RowBuilder, value: pa.Array, *, nullable: bool, tag: int) -> None:
    single = RowBuilder(1)
    add_column(single, value, nullable=nullable, tag=tag)
    builder.add_constant(single.finish()[0].as_py())


def _add_values(builder: RowBuilder, array: pa.Array, present: Words | None) -> None:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        _add_binary(builder, array.view(pa.binary()), present)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        _add_binary(builder, array.view(pa.large_binary()).cast(pa.binary()), present)
    elif pa.types.is_integer(kind):
        builder.add_varints(zigzag(_filled(array).astype(np.int64)), present)
    elif pa.types.is_date32(kind):
        builder.add_varints(zigzag(_filled(array.view(pa.int32())).astype(np.int64)), present)
    elif pa.types.is_timestamp(kind):
        builder.add_varints(zigzag(_filled(array.view(pa.int64()))), present)
    elif pa.types.is_float64(kind):
        builder.add_words(_filled(array).view(np.uint64), _full(present, 8))
    elif pa.types.is_float32(kind):
        builder.add_words(_filled(array).view(np.uint32).astype(np.uint64), _full(present, 4), width=4)
    elif pa.types.is_boolean(kind):
        builder.add_bytes(_filled(array).astype(np.uint64), present)
    elif pa.types.is_decimal128(kind):
        _add_decimal(builder, array, present)
    else:
        _add_nested(builder, array, present)


def _filled(array: pa.Array) -> Any:
    """The values as a numpy array; values under nulls are masked out later."""
    if array.null_count:
        array = array.fill_null(False) if pa.types.is_boolean(array.type) else array.fill_null(0)  # noqa: FBT003
    return array.to_numpy(zero_copy_only=False)


def _full(present: Words | None, count: int) -> Words | int:
    return byte_mask(count) if present is None else present * np.uint64(byte_mask(count))


def _add_binary(builder: RowBuilder, array: pa.Array, present: Words | None) -> None:
    lengths = _filled(pc.binary_length(array)).astype(np.int64)
    builder.add_varints(zigzag(lengths), present)
    builder.add_binary(array)


def _add_decimal(builder: RowBuilder, array: pa.Array, present: Words | None) -> None:
    """Big-endian two's complement in as many bytes as the precision needs: Arrow has 16, little-endian."""
    halves = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    size = decimal_bytes(array.type.precision)
    if size > 8:
        builder.add_words(_last_bytes(halves[:, 1], size - 8), _full(present, size - 8))
    low = min(size, 8)
    builder.add_words(_last_bytes(halves[:, 0], low), _full(present, low))


def _last_bytes(words: Words, count: int) -> Words:
    return words.byteswap() >> np.uint64(8 * (8 - count))


def _add_nested(builder: RowBuilder, array: pa.Array, present: Words | None) -> None:
    kind = array.type
    if pa.types.is_struct(kind):
        rows = RowBuilder(len(array))
        for field, child in zip(kind, array.flatten(), strict=True):
            # Flattening also gives a child the nulls of its struct: only nulls beyond those are its own.
            check_nulls(field, child.null_count - array.null_count if not field.nullable else 0)
            add_column(rows, child, nullable=field.nullable)
        builder.add_binary(_only_present(rows.finish(), array))
    elif pa.types.is_map(kind):
        lists = _map_as_lists(array)
        key, value = lists.flatten().flatten()
        check_nulls(kind.item_field, value.null_count)
        items = RowBuilder(len(key))
        add_column(items, key, nullable=False)
        add_column(items, value, nullable=kind.item_field.nullable)
        _add_items(builder, lists, items.finish(), present)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        values = array.flatten()
        check_nulls(kind.value_field, values.null_count)
        items = RowBuilder(len(values))
        add_column(items, values, nullable=kind.value_field.nullable)
        _add_items(builder, array, items.finish(), present)
    else:
        raise SchemaError(f"type {kind} cannot be encoded; see the types of arrow_to_avro")


def _map_as_lists(array: pa.Array) -> pa.Array:
    """The same memory as lists of key-value structs: pyarrow can flatten those, but not maps."""
    fields = [pa.field("key", array.type.key_type, nullable=False), array.type.item_field]
    entries = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    lists = pa.list_(pa.struct(fields))
    return pa.Array.from_buffers(lists, len(array), array.buffers()[:2], array.null_count, array.offset, [entries])


def _only_present(rows: pa.Array, like: pa.Array) -> pa.Array:
    return pc.if_else(like.is_valid(), rows, pa.scalar(None, pa.binary())) if like.null_count else rows


def _add_items(builder: RowBuilder, array: pa.Array, items: pa.Array, present: Words | None) -> None:
    """One block of items with its count in front, if there are any, and the zero count that ends an array or map."""
    counts = np.diff(array.offsets.to_numpy().astype(np.int64))
    if present is not None:
        counts = counts * present.astype(np.int64)
    builder.add_varints(zigzag(counts), (counts > 0).astype(np.uint64))
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    starts = binary_offsets(items).astype(np.int64)[bounds]
    data = items.buffers()[2]
    if data is not None and starts[-1] > starts[0]:
        builder.add_binary(binary_array(data[int(starts[0]) : int(starts[-1])], np.diff(starts)))
    builder.add_bytes(0, present)
