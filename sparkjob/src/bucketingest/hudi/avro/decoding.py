"""Avro binary datums to Arrow columns, vectorised: the reverse of `encoding`.

Every step reads one field of all rows of a chunk, so no row becomes a Python object. It decodes all types of Hudi's
tables, also those that this project does not write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.avro.cursors import PADDING, Cursors, Mask, Places
from bucketingest.hudi.table.schema import AvroSchema, avro_to_arrow

_CHUNK_ROWS: Final = 16_384
"""Rows decoded at once: the intermediate arrays of one field stay in the processor's cache."""
_CHUNK_BYTES: Final = 128 * 1024 * 1024
"""Above this many bytes a chunk has fewer rows: far below the 2 GiB limit of the offsets of its strings."""
_DECIMAL_BYTES: Final = 16
_STEPS: Final = 64
"""Items of a row that are read one after the other, whatever the number of rows."""
_ROWS_PER_STEP: Final = 16
"""So many rows allow one more: with fewer, an item costs more than by a decoder of single values."""
_FIXED_WIDTHS: Final = {"float": 4, "double": 8}


class NotVectorised(Exception):
    """Values that are better decoded one by one: long arrays of few rows, decimals of more bytes than they need."""


def decode_rows(
    content: memoryview, starts: Places, ends: Places, schema: AvroSchema, columns: Collection[str] | None = None
) -> pa.Table:
    """The rows that are at `starts` to `ends` of `content`, in this order, as `avro_to_arrow` types them.

    `columns`: the columns wanted, None for all; those that the schema lacks are left out.
    Raises `NotVectorised`, and ValueError or pa.ArrowInvalid for bytes that are not such rows.
    """
    wanted = avro_to_arrow(schema)
    if columns is not None:
        wanted = pa.schema([field for field in wanted if field.name in columns])
    batches = [
        _decoded(_padded(content, first, end), starts[rows] - first, ends[rows] - first, schema, wanted)
        for rows, first, end in _chunks(starts, ends)
    ]
    return pa.Table.from_batches(batches, wanted)


def _chunks(starts: Places, ends: Places) -> Iterator[tuple[slice, int, int]]:
    """Rows, and where their bytes start and end."""
    first = 0
    while first < len(starts):
        end = int(np.searchsorted(ends, starts[first] + _CHUNK_BYTES, "right"))
        end = min(max(end, first + 1), first + _CHUNK_ROWS)
        yield slice(first, end), int(starts[first]), int(ends[end - 1])
        first = end


def _padded(content: memoryview, first: int, end: int) -> npt.NDArray[np.uint8]:
    """The bytes from `first` to `end`, and `PADDING` more: what follows them there, zeros where too little does."""
    data = np.frombuffer(content, np.uint8)[first : end + PADDING]
    missing = end + PADDING - first - len(data)
    return np.append(data, np.zeros(missing, np.uint8)) if missing else data


def _decoded(
    data: npt.NDArray[np.uint8], starts: Places, ends: Places, schema: AvroSchema, wanted: pa.Schema
) -> pa.RecordBatch:
    cursors = Cursors(data, starts, ends)
    left = set(wanted.names)
    found = {}
    for field in schema["fields"]:
        if not left:
            break
        name = field["name"]
        if name in left:
            found[name] = _field(cursors, field["type"], wanted.field(name).type, None)
            left.remove(name)
        else:
            _skip(cursors, field["type"])
    return pa.RecordBatch.from_arrays([found[name] for name in wanted.names], schema=wanted)


def _field(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    """A field's values, null where `present` is not, or where its union says so."""
    avro, present = _branch(cursors, avro, present)
    return _values(cursors, avro, kind, present)


def _branch(cursors: Cursors, avro: Any, present: Mask) -> tuple[Any, Mask]:
    """The type in a union of null and a type, and which rows have a value of it."""
    if not isinstance(avro, list):
        return avro, present
    tags = cursors.byte(present)
    value = next(index for index, branch in enumerate(avro) if branch != "null")
    is_value = tags == 2 * value
    if is_value.all():
        return avro[value], present
    unknown = (tags > 2 * (len(avro) - 1)) | (tags & 1 != 0)
    if (unknown if present is None else unknown & present).any():
        raise ValueError("a union has a branch that its type lacks")
    return avro[value], is_value if present is None else is_value & present


def _skip(cursors: Cursors, avro: Any, present: Mask = None) -> None:
    avro, present = _branch(cursors, avro, present)
    kind = avro if isinstance(avro, str) else avro["type"]
    if kind in ("string", "bytes"):
        cursors.move(cursors.lengths(present), None)
    elif kind in _FIXED_WIDTHS:
        cursors.move(_FIXED_WIDTHS[kind], present)
    elif kind == "fixed":
        cursors.move(avro["size"], present)
    elif kind == "boolean":
        cursors.move(1, present)
    elif kind in ("int", "long", "enum"):
        cursors.varints(present)
    elif kind == "record":
        for field in avro["fields"]:
            _skip(cursors, field["type"], present)
    else:
        arrow = avro_to_arrow({"fields": [{"name": "skipped", "type": avro}]}).field(0).type
        _values(cursors, avro, arrow, present)


def _values(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:  # noqa: C901 - a case per type
    name = avro if isinstance(avro, str) else avro["type"]
    if pa.types.is_decimal(kind):
        return _decimals(cursors, avro, kind, present)
    match name:
        case "string":
            return _masked(cursors.strings(present).cast(pa.string()), present)  # the cast checks that it is UTF-8
        case "bytes":
            return _masked(cursors.strings(present), present)
        case "fixed":
            bits = np.ascontiguousarray(cursors.bytes_backwards(_sizes(avro, cursors, present), avro["size"])[:, ::-1])
            return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present), pa.py_buffer(bits)])
        case "boolean":
            return pa.array(cursors.byte(present) != 0, mask=_absent(present))
        case "float":
            bits = cursors.words(4, present).astype(np.uint32)
            return pa.array(bits.view(np.float32), mask=_absent(present))
        case "double":
            return pa.array(cursors.words(8, present).view(np.float64), mask=_absent(present))
        case "int":
            return pa.array(cursors.varints(present), mask=_absent(present)).cast(pa.int32()).view(kind)
        case "long":
            return pa.array(cursors.varints(present), mask=_absent(present)).view(kind)
        case "enum":
            return pa.array(avro["symbols"]).take(pa.array(cursors.varints(present), mask=_absent(present)))
        case "record":
            fields = [
                _field(cursors, field["type"], child.type, present)
                for field, child in zip(avro["fields"], kind, strict=True)
            ]
            return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present)], children=fields)
        case "array" | "map":
            return _lists(cursors, avro, kind, present)
    raise NotVectorised(f"Avro type {name}")


def _decimals(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    """Big-endian integers of any length to Arrow's little-endian ones of 16 bytes."""
    lengths = _sizes(avro, cursors, present) if avro["type"] == "fixed" else cursors.lengths(present)
    longest = int(lengths.max(initial=0))
    if longest > _DECIMAL_BYTES:
        raise NotVectorised(f"decimals of {longest} bytes")
    bits = cursors.bytes_backwards(lengths, _DECIMAL_BYTES)
    rows = np.arange(len(lengths))
    negative = (bits[rows, np.maximum(lengths - 1, 0)] >= 0x80) & (lengths > 0)
    bits[negative] |= np.where(np.arange(_DECIMAL_BYTES) >= lengths[negative][:, None], 255, 0).astype(np.uint8)
    array = pa.Array.from_buffers(kind, len(cursors), [_bitmap(present), pa.py_buffer(bits)])
    array.validate(full=True)  # a value may have more digits than its type
    return array


def _sizes(avro: Any, cursors: Cursors, present: Mask) -> Places:
    """Bytes of a fixed type in each row."""
    size = np.int64(avro["size"])
    return np.full(len(cursors), size) if present is None else present * size


def _lists(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    """Arrays and maps: the first item of every row, then the second of those that have one, and so on."""
    is_map = avro["type"] == "map"
    item_kind = kind.item_type if is_map else kind.value_type
    left = np.zeros(len(cursors), np.int64)
    counts = np.zeros(len(cursors), np.int32)
    owners: list[Places] = []
    steps: list[list[pa.Array]] = []
    going = np.arange(len(cursors)) if present is None else np.flatnonzero(present)
    while len(going := _with_items(cursors, going, left)):
        if len(steps) > _STEPS + len(cursors) // _ROWS_PER_STEP:
            raise NotVectorised(f"arrays or maps of more than {len(steps)} items")
        step = cursors.of(going)
        keys = [step.strings(None).cast(pa.string())] if is_map else []
        steps.append([*keys, _field(step, avro["values" if is_map else "items"], item_kind, None)])
        cursors.put(going, step)
        owners.append(going)
        left[going] -= 1
        counts[going] += 1
    order = pa.array(np.argsort(np.concatenate(owners), kind="stable")) if owners else None
    kinds = [*([pa.string()] if is_map else []), item_kind]
    children = [
        pa.concat_arrays([step[place] for step in steps]).take(order) if steps else pa.array([], child)
        for place, child in enumerate(kinds)
    ]
    if is_map:
        entries = pa.struct([pa.field("key", pa.string(), nullable=False), kind.item_field])
        children = [pa.Array.from_buffers(entries, len(children[0]), [None], children=children)]
    offsets = np.append(np.int32(0), np.cumsum(counts, dtype=np.int32))
    return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present), pa.py_buffer(offsets)], children=children)


def _with_items(cursors: Cursors, rows: Places, left: npt.NDArray[np.int64]) -> Places:
    """Those of the rows that have another item. Where a block of items has ended, the next one's head is read."""
    ended = rows[left[rows] == 0]
    if not len(ended):
        return rows
    heads = cursors.of(ended)
    counts = heads.varints(None)
    has_size = counts < 0  # then the block's size in bytes follows, for readers that skip it
    if has_size.any():
        heads.varints(has_size)
    cursors.put(ended, heads)
    left[ended] = np.abs(counts)
    if (left[ended] < 0).any():
        raise ValueError("a block has a count of items beyond 64 bits")
    return rows[left[rows] > 0]


def _absent(present: Mask) -> Mask:
    return None if present is None else ~present


def _bitmap(present: Mask) -> pa.Buffer | None:
    return None if present is None else pa.array(present).buffers()[1]


def _masked(array: pa.Array, present: Mask) -> pa.Array:
    """The array, as Arrow has just made it, with nulls where nothing was present."""
    if present is None:
        return array
    return pa.Array.from_buffers(array.type, len(array), [_bitmap(present), *array.buffers()[1:]])
