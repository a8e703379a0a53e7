"""Fields of Avro rows to Arrow columns, vectorised: every step reads one field of all rows, so that no row becomes a
Python object.

A schema is as `json.loads` gives it, each named type written out where it is used. A union is null and one type, or one
type, or of several: then it is a struct of its members.

A schema may also be the writer's resolved with a reader's (`decode/avro/resolution`). Then records have `defaults`, the
columns of fields that the writer lacks; a field's name is the reader's, None for one that the reader lacks; a symbol
that the reader lacks is None; a union whose null the reader does not take is in a type `required`; one of several types
that are the column's one is a type `either`, in which a branch may be `refused`; and a number that
is `exact` is the same number in its column's type; a decimal with a `shift` has so many fewer digits behind the point
than its column. A record that is passed over may be inside itself.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.avro.conversion import SURE, kept
from bucketingest.avro.cursors import Bools, Cursors, Mask, Places, both
from bucketingest.avro.items import in_order, read_items

_DECIMAL_BYTES: Final = 16
_FIXED_WIDTHS: Final = {"float": 4, "double": 8, "boolean": 1}
_MILLIS: Final = frozenset(["timestamp-millis", "local-timestamp-millis"])
_THOUSAND: Final = 1000
_NOT_ASCII: Final = 0x80


def read_record(cursors: Cursors, fields: list[dict[str, Any]], wanted: pa.Schema) -> pa.RecordBatch:
    """The wanted ones of the fields, in the wanted types. What follows the last of them is not read."""
    places = [place for place, field in enumerate(fields, start=1) if field["name"] in wanted.names]
    return read_resolved(cursors, {"fields": fields[: max(places, default=0)]}, wanted)


def read_resolved(cursors: Cursors, record: dict[str, Any], wanted: pa.Schema) -> pa.RecordBatch:
    """The wanted ones of the record's fields and defaults, in the wanted types. All fields are read."""
    return pa.RecordBatch.from_arrays(_columns(cursors, record, wanted, None), schema=wanted)


def _columns(cursors: Cursors, record: dict[str, Any], wanted: Any, present: Mask) -> list[pa.Array]:
    kinds = {column.name: column.type for column in wanted}
    found = {}
    for field in record["fields"]:
        name = field["name"]
        if name in kinds:
            found[name] = _field(cursors, field["type"], kinds[name], present)
        else:
            _skip(cursors, field["type"], present)
    first = pa.array(np.zeros(len(cursors), np.int8))
    defaults = record.get("defaults", {})
    return [found[name] if name in found else defaults[name].take(first) for name in kinds]


def _field(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    """A field's values, null where `present` is not, or where its union says so."""
    if isinstance(avro, list) and len(avro) - avro.count("null") > 1:
        return _members(cursors, avro, kind, present)
    if isinstance(avro, dict) and avro["type"] == "either":
        return _either(cursors, avro["branches"], kind, present)
    avro, present = _branch(cursors, avro, present)
    return _values(cursors, avro, kind, present)


def _branch(cursors: Cursors, avro: Any, present: Mask) -> tuple[Any, Mask]:
    """The type in a union of null and a type, and which rows have a value of it."""
    if isinstance(avro, dict) and avro["type"] == "required":
        avro, is_value = _branch(cursors, avro["branches"], present)
        lacking = np.zeros(len(cursors), np.bool_) if is_value is None else both(~is_value, present)
        if lacking.any():
            cursors.refuse(lacking, "null is no value of this field")
        return avro, is_value
    if not isinstance(avro, list):
        return avro, present
    tags = cursors.byte(present)
    value = next(index for index, branch in enumerate(avro) if branch != "null")
    is_value = tags == 2 * value
    if is_value.all():
        return avro[value], present
    unknown = both((tags > 2 * (len(avro) - 1)) | (tags & 1 != 0), present)
    if unknown.any():
        cursors.refuse(unknown, "a union has a branch that its type lacks")
    return avro[value], both(is_value, present)


def _members(cursors: Cursors, branches: list[Any], kind: pa.StructType, present: Mask) -> pa.Array:
    """A union of several types: a struct with a member of each, of which one has a value."""
    tags = cursors.varints(present, is_int=True)
    unknown = both((tags < 0) | (tags >= len(branches)), present)
    if unknown.any():
        cursors.refuse(unknown, "a union has a branch that its type lacks")
    children: list[pa.Array] = []
    is_value = np.zeros(len(cursors), np.bool_)
    for tag, branch in enumerate(branches):
        if branch == "null":
            continue
        of_branch = both(tags == tag, present)
        children.append(_values(cursors, branch, kind.field(len(children)).type, of_branch))
        is_value |= of_branch
    return pa.Array.from_buffers(kind, len(cursors), [_bitmap(is_value)], children=children)


def _either(cursors: Cursors, branches: list[Any], kind: pa.DataType, present: Mask) -> pa.Array:
    """The values of all branches, in one column."""
    tags = cursors.varints(present, is_int=True)
    refused = both(np.ones(len(cursors), np.bool_), present)
    found = [pa.nulls(len(cursors), kind)]
    for tag, branch in enumerate(branches):
        of_branch = both(tags == tag, present)
        if branch != "null" and branch["type"] == "refused":
            continue
        refused &= ~of_branch
        if branch != "null" and of_branch.any():
            found.append(_values(cursors, branch, kind, of_branch))
    if refused.any():
        cursors.refuse(refused, "a union has a branch that its type lacks, or its column")
    return pc.coalesce(*found)


def _skip(cursors: Cursors, avro: Any, present: Mask) -> None:
    if present is not None and not present.any():
        return
    if isinstance(avro, list) and (len(avro) != 2 or avro.count("null") != 1):
        _skip_branches(cursors, avro, present)
        return
    avro, present = _branch(cursors, avro, present)
    name = avro if isinstance(avro, str) else avro["type"]
    match name:
        case "string" | "bytes":
            cursors.move(cursors.lengths(present), None)
        case "float" | "double" | "boolean":
            cursors.move(_FIXED_WIDTHS[name], present)
        case "fixed":
            cursors.move(avro["size"], present)
        case "int" | "long" | "enum":
            cursors.varints(present, is_int=name != "long")
        case "record":
            for field in avro["fields"]:
                _skip(cursors, field["type"], present)
        case "array":
            read_items(cursors, present, lambda step: _skip(step, avro["items"], None))
        case "map":
            read_items(cursors, present, lambda step: _skip_entry(step, avro["values"]))
        case "null":
            pass
        case _:
            raise ValueError(f"Avro has no type {name}")


def _skip_branches(cursors: Cursors, branches: list[Any], present: Mask) -> None:
    tags = cursors.varints(present, is_int=True)
    unknown = both((tags < 0) | (tags >= len(branches)), present)
    if unknown.any():
        cursors.refuse(unknown, "a union has a branch that its type lacks")
    for tag, branch in enumerate(branches):
        _skip(cursors, branch, both(tags == tag, present))


def _skip_entry(step: Cursors, avro: Any) -> None:
    step.move(step.lengths(None), None)
    _skip(step, avro, None)


def _values(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:  # noqa: C901, PLR0912 - a case per type
    name = avro if isinstance(avro, str) else avro["type"]
    if pa.types.is_decimal(kind):
        return _decimals(cursors, avro, kind, present)
    match name:
        case "string":
            return _masked(_texts(cursors, present), present)
        case "bytes":
            return _masked(cursors.strings(present), present)
        case "fixed" if pa.types.is_binary(kind):
            return _masked(cursors.pieces(_sizes(avro, cursors, present)), present)
        case "fixed":
            bits = cursors.blocks(avro["size"], present)
            return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present), pa.py_buffer(bits)])
        case "boolean":
            bits = cursors.byte(present)
            unknown = both(bits > 1, present)
            if unknown.any():
                cursors.refuse(unknown, "a boolean is neither 0 nor 1")
            return pa.array(bits == 1, mask=_absent(present))
        case "float":
            bits = cursors.words(4, present).astype(np.uint32)
            with np.errstate(invalid="ignore"):  # any bits, also of rows that have no value
                numbers = bits.view(np.float32).astype(kind.to_pandas_dtype(), copy=False)
            if "exact" in avro and kind == pa.float64():  # 0.1 is 0.1, as in rows of before
                return pa.array(bits.view(np.float32), mask=_absent(present)).cast(pa.string()).cast(kind)
            return pa.array(numbers, mask=_absent(present))
        case "double":
            return pa.array(cursors.words(8, present).view(np.float64), mask=_absent(present))
        case "int" | "long":
            return _numbers(cursors, avro, kind, present)
        case "enum":
            return _symbols(cursors, avro["symbols"], present)
        case "record":
            fields = _columns(cursors, avro, kind, present)
            return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present)], children=fields)
        case "array":
            return _lists(cursors, avro, kind, present)
        case "map":
            return _maps(cursors, avro, kind, present)
    raise ValueError(f"Avro has no type {name}")


def _texts(cursors: Cursors, present: Mask) -> pa.Array:
    found = cursors.strings(present)
    data = found.buffers()[2]
    if data is None or np.frombuffer(data, np.uint8).max(initial=0) < _NOT_ASCII:  # faster than to look at each string
        return found.view(pa.string())
    try:
        return found.cast(pa.string())  # checks that it is UTF-8
    except pa.ArrowInvalid:
        cursors.refuse(_not_utf8(found), "a string is not UTF-8")
        return found.view(pa.string())


def _not_utf8(found: pa.BinaryArray) -> Places:
    bad: list[int] = []
    pending = [(0, len(found))]
    while pending:
        start, end = pending.pop()
        try:
            found.slice(start, end - start).cast(pa.string())
        except pa.ArrowInvalid:
            middle = (start + end) // 2
            if middle == start:
                bad.append(start)
            else:
                pending += [(start, middle), (middle, end)]
    return np.array(bad, np.int64)


def _numbers(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    name, logical = (avro, None) if isinstance(avro, str) else (avro["type"], avro.get("logicalType"))
    numbers = cursors.varints(present, is_int=name == "int")
    if pa.types.is_floating(kind):
        floats = numbers.astype(kind.to_pandas_dtype())
        if "exact" in avro:
            large = both((numbers > SURE[kind]) | (numbers < -SURE[kind]), present)
            for at in np.flatnonzero(large).tolist():
                large[at] = kept(int(numbers[at]), kind) != numbers[at]
            if large.any():
                cursors.refuse(large, "a whole number has more digits than its column")
        return pa.array(floats, mask=_absent(present))
    if kind.bit_width < 64:
        return pa.array(numbers.astype(np.int32), mask=_absent(present)).view(kind)
    if pa.types.is_timestamp(kind) and kind.unit == "us" and logical in _MILLIS:
        largest = np.iinfo(np.int64).max // _THOUSAND
        beyond = both((numbers > largest) | (numbers < -largest), present)
        if beyond.any():
            cursors.refuse(beyond, "a time is beyond 64 bits of microseconds")
        numbers = numbers * _THOUSAND
    return pa.array(numbers, mask=_absent(present)).view(kind)


def _symbols(cursors: Cursors, symbols: list[str | None], present: Mask) -> pa.Array:
    codes = cursors.varints(present, is_int=True)
    unknown = both((codes < 0) | (codes >= len(symbols)), present)
    for code, symbol in enumerate(symbols):
        if symbol is None:
            unknown |= both(codes == code, present)
    if unknown.any():
        cursors.refuse(unknown, "an enum has no such symbol")
        codes[unknown] = 0
    return pa.array(symbols, pa.string()).take(pa.array(codes, mask=_absent(present)))


def _decimals(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    """Big-endian integers of any length to Arrow's little-endian ones of 16 bytes."""
    lengths = _sizes(avro, cursors, present) if avro["type"] == "fixed" else cursors.lengths(present)
    odd = both((lengths > _DECIMAL_BYTES) | (lengths == 0), present)
    if odd.any():
        cursors.leave(odd, f"decimals of {lengths[odd].max()} bytes")
        lengths = np.where(odd, 0, lengths)
    shift = avro.get("shift", 0)
    digits = kind.precision - shift
    numbers = cursors.integers(lengths)
    too_long = both(beyond_digits(numbers, digits), present)
    if too_long.any():
        cursors.refuse(too_long, f"a decimal has more than {digits} digits")
        numbers[too_long] = 0
    written = pa.decimal128(digits, kind.scale - shift)
    found = pa.Array.from_buffers(written, len(cursors), [_bitmap(present), pa.py_buffer(numbers)])
    return found.cast(kind) if shift else found


def beyond_digits(numbers: npt.NDArray[np.int64], digits: int) -> Bools:
    """Numbers of two words that have more digits."""
    low, high = numbers[:, 0], numbers[:, 1]
    limit = 10**digits
    if limit < 2**63:
        return (high != low >> 63) | (low >= limit) | (low <= -limit)
    low = low.view(np.uint64)
    most, least = divmod(limit, 2**64), divmod(1 - limit, 2**64)
    above = (high > most[0]) | ((high == most[0]) & (low >= np.uint64(most[1])))
    return above | (high < least[0]) | ((high == least[0]) & (low < np.uint64(least[1])))


def _sizes(avro: Any, cursors: Cursors, present: Mask) -> Places:
    """Bytes of a fixed type in each row."""
    size = np.int64(avro["size"])
    return np.full(len(cursors), size) if present is None else present * size


def _lists(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    owners, steps = read_items(cursors, present, lambda step: _field(step, avro["items"], kind.value_type, None))
    items, offsets = in_order(owners, steps, kind.value_type, len(cursors))
    return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present), offsets], children=[items])


def _maps(cursors: Cursors, avro: Any, kind: pa.DataType, present: Mask) -> pa.Array:
    keys: list[pa.Array] = []

    def read(step: Cursors) -> pa.Array:
        keys.append(_texts(step, None))
        return _field(step, avro["values"], kind.item_type, None)

    owners, steps = read_items(cursors, present, read)
    items, offsets = in_order(owners, steps, kind.item_type, len(cursors))
    names, _ = in_order(owners, keys, pa.string(), len(cursors))
    entries = pa.struct([pa.field("key", pa.string(), nullable=False), kind.item_field])
    children = [pa.Array.from_buffers(entries, len(items), [None], children=[names, items])]
    repeated = _repeated(names, np.sort(np.concatenate(owners)) if owners else np.zeros(0, np.int64))
    if len(repeated):
        cursors.leave(repeated, "maps with a key that occurs twice")
    return pa.Array.from_buffers(kind, len(cursors), [_bitmap(present), offsets], children=children)


def _repeated(names: pa.Array, rows: Places) -> Places:
    """The rows in which a name occurs twice."""
    codes = names.dictionary_encode()
    of_row = rows * len(codes.dictionary) + codes.indices.to_numpy()
    if len(of_row) == len(np.unique(of_row)):
        return np.zeros(0, np.int64)
    _, firsts, counts = np.unique(of_row, return_index=True, return_counts=True)
    return rows[firsts[counts > 1]]


def _absent(present: Mask) -> Mask:
    return None if present is None else ~present


def _bitmap(present: Mask) -> pa.Buffer | None:
    return None if present is None else pa.array(present).buffers()[1]


def _masked(array: pa.Array, present: Mask) -> pa.Array:
    """The array, as Arrow has just made it, with nulls where nothing was present."""
    if present is None:
        return array
    return pa.Array.from_buffers(array.type, len(array), [_bitmap(present), *array.buffers()[1:]])
