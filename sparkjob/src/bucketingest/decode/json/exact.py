"""One message after the other, exactly as Spark's `from_json` decodes it: slow, and the judge of every message that a
block of messages cannot be trusted with.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.json.scanner import (
    DEPTH_MAX,
    NON_NUMERIC,
    as_float,
    as_java,
    as_utf8,
    kind_of,
    next_member,
    read_any,
    read_name,
    read_number,
    read_string,
    skip_space,
)
from bucketingest.decode.json.times import parse_date, parse_timestamp
from bucketingest.decode.rows import Undecodable

ROW: Final = "_bucketingest_row"
"""Name of the member that Spark's way puts a message into. A message that closes the row can go on with members of
that object, this one among them; the last one counts.
"""

Reader = Callable[[str, int, int], tuple[Any, int]]
"""Text, position of a value, brackets open around it → value as Arrow takes it, position behind the value."""

_DECIMAL_TEXT: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d{1,10}))?")
_DECIMAL_LIMIT: Final = 60
"""Digits before the point above which a number fits no column; the longest has 38."""
_NOT_A_NUMBER: Final = {"NaN": float("nan"), "+INF": float("inf"), "+Infinity": float("inf"), "Infinity": float("inf")}
_SPECIAL: Final = _NOT_A_NUMBER | {"-INF": float("-inf"), "-Infinity": float("-inf")}
_CONTEXT: Final = decimal.Context(prec=2 * _DECIMAL_LIMIT, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_MICROS: Final = 1_000_000


class ExactDecoder:
    """Decodes single messages into rows of a schema."""

    def __init__(self, schema: pa.Schema) -> None:
        self._read_row = _struct_reader(list(schema))

    def decode(self, message: bytes) -> dict[str, Any]:
        """The row, with values that Arrow's constructor takes. Raises Undecodable."""
        try:
            text = as_java(message.decode())
        except UnicodeDecodeError as error:
            raise Undecodable(error.start, "a byte that is not UTF-8") from error
        text += "}"
        row, at = self._row(text, skip_space(text, 0))
        while True:
            more, at = next_member(text, at, closing="}", first=False)
            if not more:
                break
            name, at = read_name(text, at)
            if name == ROW:
                row, at = self._row(text, at)
            else:
                at = read_any(text, at, 1)
        if row is None:
            raise Undecodable(0, "null instead of a row")
        return row

    def _row(self, text: str, at: int) -> tuple[dict[str, Any] | None, int]:
        if at == len(text) - 1:  # what was added
            raise Undecodable(0, "the message is empty")
        return self._read_row(text, at, 1)


def unsupported_type(schema: pa.Schema) -> pa.DataType | None:
    """A type in the schema that cannot be decoded; None if there is none."""
    for field in schema:
        kind = field.type
        if pa.types.is_struct(kind):
            inner: pa.Schema | None = pa.schema([kind.field(at) for at in range(kind.num_fields)])
        else:
            inner = pa.schema([kind.value_field]) if pa.types.is_list(kind) else None
        if inner is not None:
            if (found := unsupported_type(inner)) is not None:
                return found
        elif not (pa.types.is_string(kind) or pa.types.is_decimal128(kind) or kind in _READERS):
            return kind
    return None


def _reader(arrow_type: pa.DataType) -> Reader:
    """Reads a value that may be null."""
    if pa.types.is_struct(arrow_type):
        return _struct_reader([arrow_type.field(at) for at in range(arrow_type.num_fields)])
    if pa.types.is_list(arrow_type):
        return _list_reader(_reader(arrow_type.value_type))
    if pa.types.is_string(arrow_type):
        return _read_text
    if pa.types.is_decimal(arrow_type):
        return partial(_read_decimal, arrow_type.precision, arrow_type.scale)
    return _READERS[arrow_type]


def _struct_reader(fields: list[pa.Field]) -> Reader:
    readers = {field.name: _reader(field.type) for field in fields}

    def read(text: str, at: int, depth: int) -> tuple[dict[str, Any] | None, int]:
        kind = kind_of(text, at)
        if kind != "object":
            return _null(kind, at, "an object")
        values: dict[str, Any] = {}
        more, at = next_member(text, _opened(at, depth), closing="}", first=True)
        while more:
            name, at = read_name(text, at)
            if (reader := readers.get(name)) is None:
                at = read_any(text, at, depth + 1)
            else:
                try:
                    values[name], at = reader(text, at, depth + 1)
                except Undecodable as error:
                    error.path.append(name)
                    raise
            more, at = next_member(text, at, closing="}", first=False)
        return values, at

    return read


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
    kind = kind_of(text, at)
    if kind == "text":
        value, at = read_string(text, at)
        return as_utf8(value), at
    if kind == "null":
        return None, at + len(kind)
    written: list[str] = []
    at = read_any(text, at, depth, written)
    return as_utf8("".join(written)), at


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
        value, end = read_string(text, at)
        if value not in _SPECIAL:
            raise Undecodable(at, f"a number ({name}) is expected, not text")
        return _SPECIAL[value], end
    if kind != "number":
        return _null(kind, at, f"a number ({name})")
    number, is_whole, end = read_number(text, at)
    if NON_NUMERIC.fullmatch(number):
        return as_float(number), end
    if is_whole and number == "-0":
        return 0.0, end
    if pa.types.is_float32(arrow_type):  # from the text: by way of a double it would be rounded twice
        return pa.scalar(number).cast(arrow_type).as_py(), end
    return float(number), end


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
        written = written.replace(",", "")
    elif kind == "number":
        written, _, end = read_number(text, at)
    else:
        return _null(kind, at, f"a number ({name})")
    found = _DECIMAL_TEXT.fullmatch(written)
    if found is None or int(found[1] or 0) >= 2**31:
        raise Undecodable(at, f"a number ({name}) is expected, not {_shortened(as_utf8(written))!r}")
    value = _CONTEXT.create_decimal(written) if len(written) < _DECIMAL_LIMIT else decimal.Decimal(written)
    if value and value.adjusted() > _DECIMAL_LIMIT:
        raise Undecodable(at, f"{_shortened(written)} does not fit into {name}")
    value = value.quantize(decimal.Decimal(1).scaleb(-scale), decimal.ROUND_HALF_UP, context=_CONTEXT)
    if value and value.adjusted() + 1 > precision - scale:
        raise Undecodable(at, f"{_shortened(written)} does not fit into {name}")
    return value, end


def _read_time(
    parse: Callable[[str], int | None], name: str, text: str, at: int, _depth: int
) -> tuple[int | None, int]:
    kind = kind_of(text, at)
    if kind == "number" and name == "TIMESTAMP":
        seconds, end = _read_whole(64, name, text, at, 0)
        assert seconds is not None, "it is a number"
        return (seconds * _MICROS + 2**63) % 2**64 - 2**63, end  # too large, it overflows as in Spark
    if kind != "text":
        return _null(kind, at, f"text with a {name}")
    written, end = read_string(text, at)
    value = parse(written)
    if value is None:
        raise Undecodable(at, f"{_shortened(as_utf8(written))!r} is no {name}")
    return value, end


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."


_READERS: Final[dict[pa.DataType, Reader]] = {
    pa.bool_(): _read_boolean,
    pa.int16(): partial(_read_whole, 16, "SMALLINT"),
    pa.int32(): partial(_read_whole, 32, "INT"),
    pa.int64(): partial(_read_whole, 64, "BIGINT"),
    pa.float32(): partial(_read_float, pa.float32(), "FLOAT"),
    pa.float64(): partial(_read_float, pa.float64(), "DOUBLE"),
    pa.date32(): partial(_read_time, parse_date, "DATE"),
    pa.timestamp("us", "UTC"): partial(_read_time, parse_timestamp, "TIMESTAMP"),
}
