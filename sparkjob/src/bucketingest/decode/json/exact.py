"""One message after the other: slow, and the judge of every message that a block of messages cannot be trusted with."""

from __future__ import annotations

import base64
import decimal
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.json.scanner import (
    DEPTH_MAX,
    kind_of,
    next_member,
    read_any,
    read_name,
    read_number,
    read_string,
    skip_space,
    unexpected,
)
from bucketingest.decode.json.times import parse_date, parse_timestamp, timestamp_of_number
from bucketingest.decode.rows import Undecodable

Reader = Callable[[str, int, int], tuple[Any, int]]
"""Text, position of a value, brackets open around it → value as Arrow takes it, position behind the value."""

_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DECIMAL_LIMIT: Final = 60
"""Digits before the point above which a number fits no column; the longest has 38."""
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Numbers that JSON has no words for, as text."""
_CONTEXT: Final = decimal.Context(prec=2 * _DECIMAL_LIMIT, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)


class ExactDecoder:
    """Decodes single messages into rows of a schema."""

    def __init__(self, schema: pa.Schema, unit: int = 0) -> None:
        """`unit`: see `times.MICROS_OF`."""
        self._read_row = _struct_reader(list(schema), unit)

    def decode(self, message: bytes) -> dict[str, Any]:
        """The row, with values that Arrow's constructor takes. Raises Undecodable."""
        try:
            text = message.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(error.start, "a byte that is not UTF-8") from error
        start = skip_space(text, 0)
        if start == len(text):
            raise Undecodable(0, "the message is empty")
        row, at = self._read_row(text, start, 0)
        at = skip_space(text, at)
        if at < len(text):
            raise unexpected(text, at, "the end of the message")
        if row is None:
            raise Undecodable(0, "null instead of a row")
        assert isinstance(row, dict), "it is read as a struct"
        return row


def _reader(arrow_type: pa.DataType, unit: int) -> Reader:
    """Reads a value that may be null."""
    if pa.types.is_struct(arrow_type):
        return _struct_reader([arrow_type.field(at) for at in range(arrow_type.num_fields)], unit)
    if pa.types.is_list(arrow_type):
        return _list_reader(_reader(arrow_type.value_type, unit))
    if pa.types.is_map(arrow_type):
        return _map_reader(_reader(arrow_type.item_type, unit))
    if pa.types.is_decimal(arrow_type):
        return partial(_read_decimal, arrow_type.precision, arrow_type.scale)
    if arrow_type == pa.timestamp("us", "UTC"):
        return partial(_read_timestamp, unit)
    return _READERS[arrow_type]


def _struct_reader(fields: list[pa.Field], unit: int) -> Reader:
    readers = {field.name: _reader(field.type, unit) for field in fields}

    def read(text: str, at: int, depth: int) -> tuple[dict[str, Any] | None, int]:
        return _members(text, at, depth, readers.get)

    return read


def _map_reader(reader: Reader) -> Reader:
    def read(text: str, at: int, depth: int) -> tuple[list[tuple[str, Any]] | None, int]:
        values, at = _members(text, at, depth, lambda _: reader)
        return None if values is None else list(values.items()), at

    return read


def _members(
    text: str, at: int, depth: int, reader_of: Callable[[str], Reader | None]
) -> tuple[dict[str, Any] | None, int]:
    """The members of an object that have a reader. Of a name that occurs twice the last one counts."""
    kind = kind_of(text, at)
    if kind != "object":
        return _null(kind, at, "an object")
    values: dict[str, Any] = {}
    more, at = next_member(text, _opened(at, depth), closing="}", first=True)
    while more:
        name, at = read_name(text, at)
        if (reader := reader_of(name)) is None:
            at = read_any(text, at, depth + 1)
        else:
            try:
                values[name], at = reader(text, at, depth + 1)
            except Undecodable as error:
                error.path.append(name)
                raise
        more, at = next_member(text, at, closing="}", first=False)
    return values, at


def _list_reader(reader: Reader) -> Reader:
    def read(text: str, at: int, depth: int) -> tuple[list[Any] | None, int]:
        kind = kind_of(text, at)
        if kind != "array":
            return _null(kind, at, "an array")
        values: list[Any] = []
        more, at = next_member(text, _opened(at, depth), closing="]", first=True)
        while more:
            try:
                value, at = reader(text, at, depth + 1)
            except Undecodable as error:
                error.path.append(f"[{len(values)}]")
                raise
            values.append(value)
            more, at = next_member(text, at, closing="]", first=False)
        return values, at

    return read


def _opened(at: int, depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise Undecodable(at, f"more than {DEPTH_MAX} levels")
    return at + 1


def _null(kind: str, at: int, wanted: str) -> tuple[None, int]:
    if kind == "null":
        return None, at + len(kind)
    raise Undecodable(at, f"{wanted} is expected, not {kind}")


def _read_text(text: str, at: int, depth: int) -> tuple[str | None, int]:
    """Text; of anything else but null what the message has there, character by character."""
    kind = kind_of(text, at)
    if kind == "text":
        return read_string(text, at)
    if kind == "null":
        return None, at + len(kind)
    end = read_any(text, at, depth)
    return text[at:end], end


def _read_bytes(text: str, at: int, _depth: int) -> tuple[bytes | None, int]:
    kind = kind_of(text, at)
    if kind != "text":
        return _null(kind, at, "text in Base64")
    written, end = read_string(text, at)
    try:
        return base64.b64decode(written, validate=True), end
    except ValueError:
        raise Undecodable(at, f"{_shortened(written)!r} is not Base64") from None


def _read_whole(bits: int, name: str, text: str, at: int, _depth: int) -> tuple[int | None, int]:
    kind = kind_of(text, at)
    if kind != "number":
        return _null(kind, at, f"a number ({name})")
    number, is_whole, end = read_number(text, at)
    if not is_whole:
        raise Undecodable(at, f"a whole number ({name}) is expected, not {number}")
    limit = 1 << (bits - 1)
    value = int(number)
    if not -limit <= value < limit:
        raise Undecodable(at, f"{_shortened(number)} does not fit into {name}")
    return value, end


def _read_float(arrow_type: pa.DataType, name: str, text: str, at: int, _depth: int) -> tuple[float | None, int]:
    kind = kind_of(text, at)
    if kind == "text":
        written, end = read_string(text, at)
        if written not in _NOT_FINITE:
            raise Undecodable(at, f"a number ({name}) is expected, not text")
        return _NOT_FINITE[written], end
    if kind != "number":
        return _null(kind, at, f"a number ({name})")
    number, _, end = read_number(text, at)
    # A FLOAT from the text: by way of a double it would be rounded twice.
    value = pa.scalar(number).cast(arrow_type).as_py() if pa.types.is_float32(arrow_type) else float(number)
    if math.isinf(value):
        raise Undecodable(at, f"{_shortened(number)} does not fit into {name}")
    return value, end


def _read_boolean(text: str, at: int, _depth: int) -> tuple[bool | None, int]:
    kind = kind_of(text, at)
    if kind in {"true", "false"}:
        return kind == "true", at + len(kind)
    return _null(kind, at, "true or false")


def _read_decimal(precision: int, scale: int, text: str, at: int, _depth: int) -> tuple[decimal.Decimal | None, int]:
    name = f"DECIMAL({precision},{scale})"
    kind = kind_of(text, at)
    if kind == "text":
        written, end = read_string(text, at)
    elif kind == "number":
        written, _, end = read_number(text, at)
    else:
        return _null(kind, at, f"a number ({name})")
    found = _DECIMAL_TEXT.fullmatch(written)
    if found is None:
        raise Undecodable(at, f"a number ({name}) is expected, not {_shortened(written)!r}")
    value = _CONTEXT.create_decimal(written) if len(written) < _DECIMAL_LIMIT else decimal.Decimal(written)
    if value and value.adjusted() > _DECIMAL_LIMIT:
        raise Undecodable(at, f"{_shortened(written)} does not fit into {name}")
    value = value.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, context=_CONTEXT)
    if value and value.adjusted() + 1 > precision - scale:
        raise Undecodable(at, f"{_shortened(written)} does not fit into {name}")
    return value, end


def _read_timestamp(unit: int, text: str, at: int, _depth: int) -> tuple[int | None, int]:
    if kind_of(text, at) != "number":
        return _read_time(parse_timestamp, "TIMESTAMP", text, at, _depth)
    number, _, end = read_number(text, at)
    if not unit:
        hint = "format.timestamps says whether numbers are seconds, millis or micros"
        raise Undecodable(at, f"{_shortened(number)} is no TIMESTAMP: {hint}")
    value = timestamp_of_number(number, unit)
    if value is None:
        raise Undecodable(
            at, f"{_shortened(number)} is beyond the years 0001 to 9999: is its unit that of format.timestamps?"
        )
    return value, end


def _read_time(
    parse: Callable[[str], int | None], name: str, text: str, at: int, _depth: int
) -> tuple[int | None, int]:
    kind = kind_of(text, at)
    if kind != "text":
        return _null(kind, at, f"text with a {name}")
    written, end = read_string(text, at)
    value = parse(written)
    if value is None:
        raise Undecodable(at, f"{_shortened(written)!r} is no {name}")
    return value, end


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


_READERS: Final[dict[pa.DataType, Reader]] = {
    pa.bool_(): _read_boolean,
    pa.string(): _read_text,
    pa.binary(): _read_bytes,
    pa.int8(): partial(_read_whole, 8, "TINYINT"),
    pa.int16(): partial(_read_whole, 16, "SMALLINT"),
    pa.int32(): partial(_read_whole, 32, "INT"),
    pa.int64(): partial(_read_whole, 64, "BIGINT"),
    pa.float32(): partial(_read_float, pa.float32(), "FLOAT"),
    pa.float64(): partial(_read_float, pa.float64(), "DOUBLE"),
    pa.date32(): partial(_read_time, parse_date, "DATE"),
}
