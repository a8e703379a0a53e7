"""Texts of JSON values as the values of a column, and which of them another reader has to look at."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.decode.json.alike.shape import Kind, Values
from bucketingest.decode.json.alike.text import Places, Text
from bucketingest.decode.json.doubts import Mask

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_ZERO: Final = ord("0")
_LENGTH_SURE: Final = 900
_DIGITS_SURE: Final = 18
"""Whole numbers of so many digits fit into 64 bits."""


def kind_of(wanted: pa.DataType) -> Kind:
    """How values of a type that Arrow's reader is asked for stand in a message."""
    return "text" if pa.types.is_string(wanted) else "bare"


def not_json(text: Text, values: Values) -> Mask:
    """Which values of a bare member that is no column are no JSON."""
    words = _is_word(text, values, b"true") | _is_word(text, values, b"false")
    if values.is_null is not None:
        words |= values.is_null
    return _Numbers(text, Values(values.starts, values.ends, words)).not_numbers()


def column_of(text: Text, values: Values, wanted: pa.DataType) -> tuple[pa.Array, Mask | None]:
    """The values, and which of them do not count; None: all do."""
    if pa.types.is_string(wanted):
        return text.slices(values.starts, values.ends, values.is_null), None
    if pa.types.is_boolean(wanted):
        is_true = _is_word(text, values, b"true")
        good = is_true | _is_word(text, values, b"false")
        return pa.array(is_true, mask=values.is_null), ~(good if values.is_null is None else good | values.is_null)
    if not (pa.types.is_floating(wanted) or pa.types.is_integer(wanted) or pa.types.is_decimal(wanted)):
        return pa.nulls(len(values.starts), wanted), ~_nulls(values)
    numbers = _Numbers(text, values)
    if pa.types.is_integer(wanted):
        return numbers.whole(wanted)
    if pa.types.is_decimal(wanted):
        return numbers.decimals(wanted)
    bad = numbers.not_numbers()
    return numbers.without(bad).cast(wanted), bad


def _is_word(text: Text, values: Values, word: bytes) -> Mask:
    return text.is_at(values.starts, word) & (values.ends - values.starts == len(word))


class _Numbers:
    """Texts that should be numbers, or null."""

    def __init__(self, text: Text, values: Values) -> None:
        self.texts = text.slices(values.starts, values.ends, values.is_null)
        buffers: list[Any] = self.texts.buffers()
        offsets = np.frombuffer(buffers[1], np.int32, len(self.texts) + 1)
        letters = np.frombuffer(buffers[2] if buffers[2] is not None else b"", np.uint8, int(offsets[-1]))
        starts, ends = offsets[:-1], offsets[1:]
        first, point = starts.copy(), ends.copy()
        odd = np.zeros(len(starts), np.bool_)
        places = np.flatnonzero(letters - np.uint8(_ZERO) > 9)
        if places.size:
            rows = _rows_of(places, offsets)
            is_point = letters[places] == ord(".")
            is_sign = (letters[places] == ord("-")) & (places == starts[rows])
            odd[rows[~(is_point | is_sign)]] = True
            first[rows[is_sign]] += 1
            with_point = rows[is_point]
            odd[with_point[1:][with_point[1:] == with_point[:-1]]] = True
            point[with_point] = places[is_point]
        self.is_null = values.is_null
        self.digits = point - first
        """Before the point."""
        self.fraction = ends - point - 1
        """Digits behind the point; -1 without one."""
        begins_with_zero = letters.take(first, mode="clip") == _ZERO if letters.size else odd
        self.is_minus_zero = begins_with_zero & (first > starts)
        odd |= (self.digits < 1) | (self.fraction == 0) | (begins_with_zero & (self.digits > 1))
        odd |= ends - starts > _LENGTH_SURE
        self.odd: Mask = odd if values.is_null is None else odd & ~values.is_null
        """Those that are no number of a usual length without an exponent."""

    def not_numbers(self) -> Mask:
        bad = self.odd.copy()
        for at in np.flatnonzero(bad).tolist():
            number = self.texts[at].as_py()
            bad[at] = len(number) > _LENGTH_SURE or _NUMBER.fullmatch(number) is None
        return bad

    def without(self, bad: Mask) -> pa.StringArray:
        return pc.if_else(pa.array(bad), None, self.texts) if bad.any() else self.texts

    def whole(self, wanted: pa.DataType) -> tuple[pa.Array, Mask]:
        bad = self.odd | (self.fraction >= 0) | self.is_minus_zero
        try:
            found = self.without(bad).cast(pa.int64())
        except pa.ArrowInvalid:
            bad |= self.digits > _DIGITS_SURE
            found = self.without(bad).cast(pa.int64())
        if wanted == pa.int64():
            return found, bad
        numbers = found.fill_null(0).to_numpy()
        narrow = numbers.astype(wanted.to_pandas_dtype())
        bad |= narrow != numbers
        return pa.array(narrow, mask=self.is_null), bad

    def decimals(self, wanted: pa.Decimal128Type) -> tuple[pa.Array, Mask]:
        bad = self.odd | (self.digits > wanted.precision - wanted.scale) | (self.fraction > wanted.scale)
        return self.without(bad).cast(wanted), bad


def _rows_of(places: Places, offsets: npt.NDArray[np.int32]) -> Places:
    """The row in which each place is. Mostly each row has one: a point."""
    if len(places) == len(offsets) - 1 and (places >= offsets[:-1]).all() and (places < offsets[1:]).all():
        return np.arange(len(places))
    return np.searchsorted(offsets, places, side="right") - 1


def _nulls(values: Values) -> Mask:
    return np.zeros(len(values.starts), np.bool_) if values.is_null is None else values.is_null
