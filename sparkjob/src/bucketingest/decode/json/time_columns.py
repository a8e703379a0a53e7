"""Many texts, or numbers, as dates or times at once. What has no usual form is a doubt, and is to be read by itself."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.json.alike.text import Mask
from bucketingest.years import DAYS_MAX, DAYS_MIN, MICROS_MAX, MICROS_MIN

_STAMP: Final = "yyyy-MM-ddTHH:mm:ss"
_FRACTION_MAX: Final = len(".123456")
_OFFSET: Final = r"^.{19}(?:\.[0-9]{1,6})?[+-](?:0[0-9]|1[0-7]):[0-5][0-9]$"
_PARTS_MIN: Final = 64


def converted(array: pa.Array, wanted: pa.DataType, unit: int = 0) -> tuple[pa.Array, Mask | None]:
    """Texts, or with a unit whole numbers, as dates or times, and which of them are doubtful (None: none), whose values
    do not count.
    """
    if pa.types.is_date(wanted):
        return _dates(array)
    return _of_numbers(array, wanted, unit) if unit else _timestamps(array, wanted)


def _of_numbers(array: pa.Array, wanted: pa.DataType, unit: int) -> tuple[pa.Array, Mask | None]:
    numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
    doubted = (numbers > MICROS_MAX // unit) | (numbers < -(-MICROS_MIN // unit))
    mask = None if not array.null_count else array.is_null().to_numpy(zero_copy_only=False)
    micros = pa.array(np.where(doubted, 0, numbers) * unit, pa.int64(), mask=mask)
    return micros.view(wanted), doubted if doubted.any() else None


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
