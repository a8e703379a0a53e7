"""What a JSON message is by docs/kafka-json.md, said once more and simply: with Python's parser, which keeps numbers as
their text, and a plain model of each type.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, NoReturn

import pyarrow as pa

from bucketingest.decode.json.times import parse_date, parse_timestamp, timestamp_of_number

_WIDE = Context(prec=3000)
_LEVELS_MAX = 500
_BITS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


class NoRowError(Exception):
    """The message is a dead letter."""


class Number(str):
    """A number, as it is written."""

    __slots__ = ()


@dataclass(frozen=True)
class Verbatim:
    """A text column's value that is no text: what the message has there, of which only the meaning is known here."""

    value: Any

    def is_written_as(self, text: str, message: bytes) -> bool:
        return text in message.decode() and parsed(text) == self.value


class Members(list[tuple[str, Any]]):
    """Of an object, in order, also those of one name."""


def parsed(text: str) -> Any:
    """A JSON value. Raises NoRowError."""
    try:
        value = json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=_no_constant, object_pairs_hook=Members
        )
        repr(value).encode()
    except RecursionError:
        raise NoRowError("levels") from None
    except ValueError:
        raise NoRowError from None
    _check_texts(value, _LEVELS_MAX)
    return value


def row_of(message: bytes, columns: pa.Schema, unit: int) -> dict[str, Any]:
    """The row, with times as their count. Raises NoRowError."""
    try:
        value = parsed(message.decode())
    except UnicodeDecodeError:
        raise NoRowError from None
    if not isinstance(value, Members):
        raise NoRowError
    row = _value(value, pa.struct(list(columns)), unit)
    assert isinstance(row, dict)
    return row


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _check_texts(value: Any, levels: int) -> None:
    """Half a surrogate is no text; and levels are counted."""
    if isinstance(value, list) and not levels:
        raise NoRowError("levels")
    try:
        if isinstance(value, Members):
            for name, inner in value:
                name.encode()
                _check_texts(inner, levels - 1)
        elif isinstance(value, list):
            for inner in value:
                _check_texts(inner, levels - 1)
        elif isinstance(value, str):
            value.encode()
    except UnicodeEncodeError:
        raise NoRowError from None


def _value(value: Any, kind: pa.DataType, unit: int) -> Any:
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) and not isinstance(value, Number) else Verbatim(value)
    if pa.types.is_struct(kind) and isinstance(value, Members):
        types = {kind.field(at).name: kind.field(at).type for at in range(kind.num_fields)}
        row = dict.fromkeys(types)
        return row | {name: _value(inner, types[name], unit) for name, inner in value if name in types}
    if pa.types.is_map(kind) and isinstance(value, Members):
        return list({name: _value(inner, kind.item_type, unit) for name, inner in value}.items())
    if pa.types.is_list(kind) and isinstance(value, list) and not isinstance(value, Members):
        return [_value(inner, kind.value_type, unit) for inner in value]
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if isinstance(value, Number):
        return _of_number(value, kind, unit)
    if isinstance(value, str):
        return _of_text(value, kind)
    raise NoRowError


def _of_number(text: Number, kind: pa.DataType, unit: int) -> Any:
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        if re.search("[.eE]", text) or len(text) > 30 or not -limit <= int(text) < limit:
            raise NoRowError
        return int(text)
    if pa.types.is_floating(kind):
        if text == "-0":
            return 0.0
        value = float(pa.scalar(str(text)).cast(kind).as_py())
        if math.isinf(value):
            raise NoRowError
        return value
    if pa.types.is_decimal(kind):
        return _decimal(text, kind)
    if pa.types.is_timestamp(kind) and unit:
        micros = timestamp_of_number(text, unit)
        if micros is not None:
            return micros
    raise NoRowError


def _of_text(text: str, kind: pa.DataType) -> Any:
    if pa.types.is_floating(kind) and text in {"NaN", "Infinity", "-Infinity"}:
        return float(text)
    if pa.types.is_decimal(kind) and re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return _decimal(text, kind)
    if pa.types.is_binary(kind) and len(text) % 4 == 0:  # Python takes some others
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise NoRowError from None
    found = None
    if pa.types.is_date(kind):
        found = parse_date(text)
    elif pa.types.is_timestamp(kind):
        found = parse_timestamp(text)
    if found is None:
        raise NoRowError
    return found


def _decimal(text: str, kind: pa.Decimal128Type) -> Decimal:
    exponent = re.search("[eE][+-]?([0-9]+)", text)
    if exponent and len(exponent[1]) > 9 and not isinstance(text, Number):
        raise NoRowError
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise NoRowError from None
    if value and value.adjusted() > 50:
        raise NoRowError
    value = value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE) if value else Decimal(0)
    if abs(value) >= Decimal(10) ** (kind.precision - kind.scale):
        raise NoRowError
    return value.quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
