"""Types that Arrow's JSON reader would read otherwise than is meant are read as text, and their text in bulk.

A text of a form that is not usual is parsed by itself; what is then no value is a doubt about the row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.json.doubts import Mask
from bucketingest.decode.json.times import parse_date, parse_timestamp
from bucketingest.years import DAYS_MAX, DAYS_MIN, MICROS_MAX, MICROS_MIN

_STAMP: Final = "yyyy-MM-ddTHH:mm:ss"
_FRACTION_MAX: Final = len(".123456")
_OFFSET: Final = r"^.{19}(?:\.[0-9]{1,6})?[+-](?:0[0-9]|1[0-7]):[0-5][0-9]$"
_PARTS_MIN: Final = 64
_DIGITS_MAX: Final = 38
"""Beyond so many, a number that Arrow's reader shifts to the column's scale may become another one."""


def is_read_by_arrow(wanted: pa.DataType) -> bool:
    """Whether Arrow's reader can read the type at all."""
    if pa.types.is_struct(wanted):
        return all(is_read_by_arrow(wanted.field(at).type) for at in range(wanted.num_fields))
    if pa.types.is_list(wanted):
        return is_read_by_arrow(wanted.value_type)
    return not (pa.types.is_map(wanted) or pa.types.is_binary(wanted))


def read_type(wanted: pa.DataType, unit: int = 0) -> pa.DataType:
    """The type that Arrow's reader is asked for. `unit`: see `times.MICROS_OF`."""
    if unit and pa.types.is_timestamp(wanted):
        return pa.int64()
    if pa.types.is_temporal(wanted):
        return pa.string()
    if pa.types.is_decimal(wanted) and wanted.precision + wanted.scale > _DIGITS_MAX:
        return pa.decimal256(wanted.precision, wanted.scale)
    if pa.types.is_struct(wanted):
        return pa.struct(
            [wanted.field(at).with_type(read_type(wanted.field(at).type, unit)) for at in range(wanted.num_fields)]
        )
    if pa.types.is_list(wanted):
        return pa.list_(wanted.value_field.with_type(read_type(wanted.value_type, unit)))
    return wanted


def converted(array: pa.Array, wanted: pa.DataType, unit: int = 0) -> tuple[pa.Array, Mask | None]:
    """The array in the wanted type, and the rows that are doubtful (None: none), whose values do not count."""
    if pa.types.is_timestamp(wanted):
        if unit:
            return _of_numbers(array, wanted, unit)
        return _completed(array, *_timestamps(array, wanted), parse_timestamp)
    if pa.types.is_date(wanted):
        return _completed(array, *_dates(array), parse_date)
    if pa.types.is_floating(wanted):
        return array, _infinite_or_minus_zero(array)
    if pa.types.is_decimal(wanted):
        return _decimals(array, wanted)
    if pa.types.is_struct(wanted):
        return _struct(array, wanted, unit)
    if pa.types.is_list(wanted):
        return _list(array, wanted, unit)
    return array, None


def _struct(array: pa.StructArray, wanted: pa.StructType, unit: int) -> tuple[pa.Array, Mask | None]:
    doubted: Mask | None = None
    children = []
    for field, child in zip(wanted, array.flatten(), strict=True):  # what is null has no member that may be doubtful
        values, doubts = converted(child, field.type, unit)
        children.append(values)
        doubted = either(doubted, doubts)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask), doubted


def _list(array: pa.ListArray, wanted: pa.ListType, unit: int) -> tuple[pa.Array, Mask | None]:
    values, doubts = converted(array.flatten(), wanted.value_type, unit)
    lengths = pc.fill_null(array.value_lengths(), 0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    mask = array.is_null() if array.null_count else None
    rebuilt = pa.ListArray.from_arrays(pa.array(offsets), values, type=wanted, mask=mask)
    if doubts is None:
        return rebuilt, None
    doubted = np.zeros(len(array), np.bool_)
    doubted[np.repeat(np.arange(len(array)), lengths)[doubts]] = True
    return rebuilt, doubted


def either(one: Mask | None, other: Mask | None) -> Mask | None:
    """Doubts of both."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _infinite_or_minus_zero(array: pa.Array) -> Mask | None:
    """A number that is too large becomes infinity; and 0 has no sign if it was written without a point."""
    values = pc.fill_null(array, 1.0).to_numpy(zero_copy_only=False)
    doubted = np.isinf(values) | ((values == 0) & np.signbit(values))
    return doubted if doubted.any() else None


def _of_numbers(array: pa.Array, wanted: pa.DataType, unit: int) -> tuple[pa.Array, Mask | None]:
    numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    doubted = (numbers > MICROS_MAX // unit) | (numbers < -(-MICROS_MIN // unit))
    mask = None if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
    micros = pa.array(np.where(doubted, 0, numbers) * unit, pa.int64(), mask=mask)
    return micros.view(wanted), doubted if doubted.any() else None


def _decimals(array: pa.Array, wanted: pa.Decimal128Type) -> tuple[pa.Array, Mask | None]:
    """Arrow's reader counts the digits that are written, not those that the column's scale adds."""
    doubted: Mask | None = None
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        doubted = _too_large(array) & array.is_valid().to_numpy(zero_copy_only=False)
        array = pc.if_else(pa.array(doubted), None, array)
    return array.cast(wanted), doubted


def _too_large(array: pa.Array) -> Mask:
    buffers: list[Any] = array.buffers()
    width, limit = array.type.byte_width, 10**array.type.precision
    raw = memoryview(buffers[1])[array.offset * width :]
    parts = (raw[at * width : (at + 1) * width] for at in range(len(array)))
    return np.array([abs(int.from_bytes(part, "little", signed=True)) >= limit for part in parts], np.bool_)


def _completed(
    array: pa.Array, values: pa.Array, doubted: Mask | None, parse: Callable[[str], int | None]
) -> tuple[pa.Array, Mask | None]:
    """With the values of those that have another form than the usual one."""
    if doubted is None:
        return values, None
    parsed = [parse(text) for text in array.filter(pa.array(doubted)).to_pylist()]
    values = pc.replace_with_mask(values, pa.array(doubted), pa.array(parsed, values.type))
    if None not in parsed:
        return values, None
    doubted[doubted] = [value is None for value in parsed]
    return values, doubted


def _dates(array: pa.Array) -> tuple[pa.Array, Mask | None]:
    text = _Text(array)
    good = text.lengths == len("yyyy-MM-dd")
    good[good] = text.is_at(good, 4, b"-") & text.is_at(good, 7, b"-")
    return _cast(array, good, pa.date32())


def _timestamps(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    text = _Text(array)
    good = text.lengths >= len(_STAMP)
    good[good] = (
        text.is_at(good, 10, b"T ")
        & text.is_at(good, 13, b":")
        & text.is_at(good, 16, b":")
        & text.is_at(good, 4, b"-")
    )
    in_utc = good.copy()
    in_utc[good] = text.is_at_end(good, 1, b"Z")
    good[in_utc] = ~text.is_at_end(in_utc, 2, b"Z")  # `_local` trims every Z, and one is allowed
    plain = text.lengths - in_utc <= len(_STAMP) + _FRACTION_MAX
    bare = good & ~in_utc
    if bare.any():
        offset = pc.fill_null(pc.match_substring_regex(array, _OFFSET), False).to_numpy(zero_copy_only=False)  # noqa: FBT003
        if (bare & offset).any():
            return _mixed(array, good & plain & ~offset, good & offset, wanted)
    return _local(array, good & plain, wanted)


def _local(array: pa.Array, good: Mask, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    trimmed = pc.utf8_rtrim(array, "Z") if len(array) else array
    values, doubted = _cast(trimmed, good, pa.timestamp("us"))
    return values.view(wanted), doubted


def _mixed(array: pa.Array, local: Mask, offset: Mask, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """Times of the block's own zone or of UTC, and times with an offset."""
    of_local, _ = _local(array, local, wanted)
    of_offset, _ = _cast(array, offset, wanted)
    values = pc.coalesce(of_local, of_offset)
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    doubted = array.is_valid().to_numpy(zero_copy_only=False) & (is_null | _beyond_years(values))
    return values, doubted if doubted.any() else None


def _cast(array: pa.Array, good: Mask, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """The good rows in the wanted type, all others null; doubted are those that have a text and no value."""
    has_text = array.is_valid().to_numpy(zero_copy_only=False)
    if not (good | ~has_text).all():
        array = pc.if_else(pa.array(good), array, None)
    values = pa.concat_arrays(_cast_parts(array, wanted)) if len(array) else array.cast(wanted)
    doubted = has_text & (values.is_null().to_numpy(zero_copy_only=False) | _beyond_years(values))
    return values, doubted if doubted.any() else None


def _beyond_years(values: pa.Array) -> Mask:
    is_date = pa.types.is_date32(values.type)
    numbers = pc.fill_null(values.view(pa.int32() if is_date else pa.int64()), 0).to_numpy(zero_copy_only=False)
    low, high = (DAYS_MIN, DAYS_MAX) if is_date else (MICROS_MIN, MICROS_MAX)
    return (numbers < low) | (numbers > high)


def _cast_parts(array: pa.Array, wanted: pa.DataType) -> list[pa.Array]:
    """The cast, in parts: nulls where a small part has a value that cannot be cast, such as a 30 February."""
    try:
        return [array.cast(wanted)]
    except pa.ArrowInvalid:
        if len(array) <= _PARTS_MIN:
            return [pa.nulls(len(array), wanted)]
        middle = len(array) // 2
        return [*_cast_parts(array.slice(0, middle), wanted), *_cast_parts(array.slice(middle), wanted)]


class _Text:
    """Bytes of strings, to look at single positions of all of them."""

    def __init__(self, array: pa.Array) -> None:
        buffers: list[Any] = array.buffers()
        offsets = np.frombuffer(buffers[1], np.int32, len(array) + 1, array.offset * 4)
        self._starts = offsets[:-1]
        self._ends = offsets[1:]
        self._bytes = np.frombuffer(buffers[2] if buffers[2] is not None else b"", np.uint8)
        self.lengths: npt.NDArray[np.int32] = self._ends - self._starts

    def is_at(self, rows: Mask, position: int, allowed: bytes) -> Mask:
        """Of these rows, which have one of the allowed bytes at the position."""
        return self._is(self._starts[rows] + position, allowed)

    def is_at_end(self, rows: Mask, position: int, allowed: bytes) -> Mask:
        """The same for a position that is counted from the end: 1 is the last byte."""
        return self._is(self._ends[rows] - position, allowed)

    def _is(self, at: npt.NDArray[np.int32], allowed: bytes) -> Mask:
        found = self._bytes[at]
        matches = found == allowed[0]
        for byte in allowed[1:]:
            matches |= found == byte
        return matches
