"""What values of an event mean. The names that Debezium gives to types are in the part `schema` of a message; without
it the column's own type decides, and a number in a DATE column counts days.

Names as io.debezium.time, io.debezium.data and org.apache.kafka.connect.data have them.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.avro.columns import beyond_digits
from bucketingest.avro.cursors import Cursors, padded
from bucketingest.decode.json.columns import converted
from bucketingest.decode.json.doubts import UNREADABLE
from bucketingest.years import MICROS_MAX, MICROS_MIN

Converted: TypeAlias = tuple[pa.Array, dict[int, str]]
"""The values, and why some of them are none, by their numbers."""

_CONNECT: Final = "org.apache.kafka.connect.data."
_DEBEZIUM: Final = "io.debezium."
_DATES: Final = frozenset({f"{_CONNECT}Date", f"{_DEBEZIUM}time.Date"})
_MICROS: Final = {
    f"{_CONNECT}Timestamp": (1000, 1),
    f"{_DEBEZIUM}time.Timestamp": (1000, 1),
    f"{_DEBEZIUM}time.MicroTimestamp": (1, 1),
    f"{_DEBEZIUM}time.NanoTimestamp": (1, 1000),
}
"""Microseconds of one, as a fraction."""
_ZONED: Final = f"{_DEBEZIUM}time.ZonedTimestamp"
_INSTANT: Final = pa.timestamp("us", "UTC")
_DECIMAL: Final = f"{_CONNECT}Decimal"
_VARIABLE: Final = f"{_DEBEZIUM}data.VariableScaleDecimal"
_VARIABLE_TYPE: Final = pa.struct([("scale", pa.int32()), ("value", pa.string())])
_CODES: Final = np.full(256, 255, np.uint8)
"""Of Base64's letters; `=` and all others are beyond them."""
_CODES[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")] = np.arange(64)
_LETTER_MAX: Final = 63
_DECIMAL_BYTES: Final = 16
_SCALES: Final = range(-1000, 16_384)
_UNSCALED_BYTES: Final = 64 * 1024
"""All that a NUMERIC of PostgreSQL may have, of all databases the most: 131,072 digits before the point, 16,383 behind
it. A short message with a larger scale would be a very long text.
"""
_EXACT: Final = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


@dataclass(frozen=True, slots=True)
class Reading:
    """How the values of a column are read."""

    read: pa.DataType
    """As what they stand in the JSON text."""
    convert: Callable[[pa.Array], Converted]
    """What the column has of that."""
    column: pa.DataType


def readings_of(columns: pa.Schema, schema: bytes) -> list[Reading]:
    """One of each column. `schema`: what a message says of its types, as JSON; empty if it says nothing."""
    named = _fields(schema) if schema else {}
    return [_reading(column.type, named.get(column.name)) for column in columns]


def _reading(wanted: pa.DataType, said: dict[str, Any] | None) -> Reading:
    name = None if said is None else str(said.get("name"))
    if pa.types.is_date(wanted) and (said is None or name in _DATES):
        return Reading(pa.int32(), _days, wanted)
    if pa.types.is_timestamp(wanted) and name in _MICROS:
        return Reading(pa.int64(), _times(wanted, *_MICROS[name]), wanted)
    if said is not None and (pa.types.is_decimal(wanted) or pa.types.is_string(wanted)):
        if name == _DECIMAL:
            scale = _scale(said.get("parameters", {}))
            return Reading(pa.string(), lambda array: _of_base64(array, scale, wanted), wanted)
        if name == _VARIABLE:
            return Reading(_VARIABLE_TYPE, lambda array: _decimals(map(_variable, array.to_pylist()), wanted), wanted)
    return Reading(wanted, _as_is, wanted)


def _scale(parameters: Any) -> int | str:
    """The scale, or what is there instead of one."""
    said = parameters.get("scale", 0) if isinstance(parameters, dict) else parameters
    return int(said) if re.fullmatch(r"-?[0-9]{1,9}", str(said)) else str(said)[:40]


def reading_of_avro(said: dict[str, Any], read: pa.DataType) -> Reading:
    """The column that a field is, of the Avro type that a message says, and of the type that its decoder reads. What
    Debezium's names say of times is a TIMESTAMP or a DATE, a number with a scale of its own is a STRING.
    """
    name = said.get("connect.name") or ".".join(filter(None, [said.get("namespace"), said.get("name")]))
    if read == pa.int32() and name in _DATES:
        return Reading(read, _days, pa.date32())
    if read == pa.int64() and name in _MICROS:
        return Reading(read, _times(_INSTANT, *_MICROS[name]), _INSTANT)
    if read == pa.string() and name == _ZONED:
        return Reading(read, _zoned, _INSTANT)
    if name == _VARIABLE and pa.types.is_struct(read):
        return Reading(read, lambda array: _decimals(map(_variable, array.to_pylist()), pa.string()), pa.string())
    return Reading(read, _as_is, read)


def _as_is(array: pa.Array) -> Converted:
    return array, {}


def _zoned(array: pa.Array) -> Converted:
    values, doubted = converted(array, _INSTANT)
    at = [] if doubted is None else np.flatnonzero(doubted).tolist()
    return values, {each: f"{array[each].as_py()[:40]!r} is no TIMESTAMP" for each in at}


def _fields(schema: bytes) -> dict[str, dict[str, Any]]:
    """The fields of a row's images, or of a key, by name."""
    try:
        read = msgspec.json.decode(schema)
        images = [each for each in read["fields"] if each.get("field") in {"before", "after"} and "fields" in each]
        images = images or [read]
        return {each["field"]: each for image in images for each in image["fields"]}
    except (*UNREADABLE, KeyError, TypeError, AttributeError):
        return {}


def _days(array: pa.Array) -> Converted:
    return array.cast(pa.date32()), {}


def _times(wanted: pa.DataType, factor: int, divisor: int) -> Callable[[pa.Array], Converted]:
    def convert(array: pa.Array) -> Converted:
        numbers = pc.fill_null(array, 0).to_numpy(zero_copy_only=False)
        beyond = (numbers > MICROS_MAX // factor * divisor) | (numbers < -(-MICROS_MIN // factor) * divisor)
        micros = np.where(beyond, 0, numbers) * factor // divisor
        mask = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
        why = {at: f"{numbers[at]} is beyond the years 0001 to 9999" for at in np.flatnonzero(beyond).tolist()}
        return pa.array(micros, pa.int64(), mask=mask).view(wanted), why

    return convert


def _variable(value: dict[str, Any] | None) -> tuple[str | bytes | None, int]:
    return (None, 0) if value is None else (value["value"], value["scale"] or 0)


def _decimals(values: Iterable[tuple[str | bytes | None, int | str]], wanted: pa.DataType) -> Converted:
    """Of unscaled numbers, text in Base64, with their scales."""
    found: list[Decimal | str | None] = []
    why: dict[int, str] = {}
    for at, (text, scale) in enumerate(values):
        try:
            found.append(None if text is None else _decimal(text, scale, wanted))
        except ValueError as error:
            found.append(None)
            why[at] = str(error)
    return pa.array(found, wanted), why


def _of_base64(array: pa.StringArray, scale: int | str, wanted: pa.DataType) -> Converted:
    """Unscaled numbers in Base64, those of the usual form all at once."""
    if not pa.types.is_decimal(wanted) or wanted.scale != scale or not len(array):
        return _decimals(((text, scale) for text in array.to_pylist()), wanted)
    found, sure = _integers(array)
    has_text = array.is_valid().to_numpy(zero_copy_only=False)
    sure &= ~beyond_digits(found, wanted.precision)
    values = pa.Array.from_buffers(wanted, len(array), [pa.array(has_text & sure).buffers()[1], pa.py_buffer(found)])
    odd = np.flatnonzero(has_text & ~sure)
    if not len(odd):
        return values, {}
    others, why = _decimals(((text, scale) for text in array.take(pa.array(odd)).to_pylist()), wanted)
    mask = pa.array(has_text & ~sure)
    return pc.replace_with_mask(values, mask, others), {int(odd[at]): text for at, text in why.items()}


def _integers(array: pa.StringArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The numbers as a lower and an upper word, and which are surely so."""
    texts = pc.fill_null(array, "")
    buffers: list[Any] = texts.buffers()
    offsets = np.frombuffer(buffers[1], np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    codes = _CODES[np.frombuffer(buffers[2] or b"", np.uint8)[offsets[0] : offsets[-1]]]
    offsets -= offsets[0]
    lengths = np.diff(offsets)
    if (lengths & 3).any():
        return np.zeros((len(texts), 2), np.int64), np.zeros(len(texts), np.bool_)
    first, second, third, fourth = codes.reshape(-1, 4).T
    data = np.column_stack([first << 2 | second >> 4, second << 4 | third >> 2, third << 6 | fourth]).ravel()
    ends = np.maximum(offsets[1:], 2)
    padding = (lengths > 0) * ((codes.take(ends - 1) > _LETTER_MAX) * (1 + (codes.take(ends - 2) > _LETTER_MAX)))
    odd = np.bincount(
        np.searchsorted(offsets[1:], np.flatnonzero(codes > _LETTER_MAX), side="right"), minlength=len(texts)
    )
    sizes = lengths // 4 * 3 - padding
    sure = (odd == padding) & (sizes > 0) & (sizes <= _DECIMAL_BYTES)
    starts = offsets[:-1] // 4 * 3
    cursors = Cursors(padded(data, 0, len(data)), starts, starts + sizes)
    return cursors.integers(np.where(sure, sizes, 0)), sure


def _decimal(text: str | bytes, scale: int | str, wanted: pa.DataType) -> Decimal | str:
    """Raises ValueError."""
    if isinstance(scale, str) or scale not in _SCALES:
        raise ValueError(f"the scale {scale!r} is none of {_SCALES[0]} to {_SCALES[-1]}")
    try:
        found = text if isinstance(text, bytes) else binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise ValueError(f"{text[:40]!r} is no decimal's bytes in Base64") from None
    if len(found) > _UNSCALED_BYTES:
        raise ValueError(f"a number of {len(found)} bytes, and {_UNSCALED_BYTES} are the most")
    number = Decimal(int.from_bytes(found, "big", signed=True)).scaleb(-scale, _EXACT)
    if not pa.types.is_decimal(wanted):
        return f"{number:f}"
    if number.copy_abs() < Decimal(10) ** (wanted.precision - wanted.scale):  # not abs(), which rounds
        fitting = number.quantize(Decimal(1).scaleb(-wanted.scale), context=_EXACT)
        if fitting == number:
            return fitting
    raise ValueError(f"{number:f} does not fit into DECIMAL({wanted.precision},{wanted.scale})")
