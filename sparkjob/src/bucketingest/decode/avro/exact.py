"""One message after the other: slow, and the judge of every message of which the decoder of many is not sure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from bucketingest.avro.conversion import kept
from bucketingest.decode.avro.column_types import branches_of, member
from bucketingest.decode.avro.resolution import EITHER, EXACT, REFUSED, SHIFT
from bucketingest.decode.avro.schema import AvroRecord
from bucketingest.decode.rows import Undecodable

Reader = Callable[[bytes, int], tuple[Any, int]]
"""Bytes, position of a value → value as Arrow takes it, position behind the value."""

_CONTEXT: Final = Context(prec=38)
_FORMATS: Final = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_INT_BYTES: Final = 5
_LONG_BYTES: Final = 10
_LONG_MAX: Final = 2**63 - 1
_THOUSAND: Final = 1000


class ExactDecoder:
    """Decodes single messages into rows of a schema."""

    def __init__(self, record: AvroRecord, columns: pa.Schema) -> None:
        """`record`: as `avro/columns` takes it, also resolved with a reader's."""
        self._read = _record_reader(record, columns)

    def decode(self, message: bytes) -> dict[str, Any]:
        """The row, with values that Arrow's constructor takes. Raises Undecodable."""
        try:
            row, end = self._read(message, 0)
        except RecursionError as error:
            raise Undecodable(0, "types are inside each other too often") from error
        if end < len(message):
            raise Undecodable(end, f"{len(message) - end} bytes are left over behind the last field")
        return row


def _reader(avro: Any, kind: pa.DataType) -> Reader:
    if isinstance(avro, list):
        if len(branches := branches_of(avro)) > 1:
            members = iter([_member_reader(at, branch, kind.field(at).type) for at, branch in enumerate(branches)])
            return _union_reader([None if branch == "null" else next(members) for branch in avro])
        return _union_reader([None if branch == "null" else _reader(branch, kind) for branch in avro])
    if avro["type"] in _OF_UNIONS:
        return _OF_UNIONS[avro["type"]](avro, kind)
    if pa.types.is_decimal(kind):
        shift = avro.get(SHIFT, 0)
        return partial(_read_decimal, kind.precision - shift, kind.scale - shift, avro.get("size"))
    match avro["type"]:
        case "record":
            return _record_reader(avro, kind)
        case "array":
            return _array_reader(_reader(avro["items"], kind.value_type))
        case "map":
            return _map_reader(_reader(avro["values"], kind.item_type))
        case "enum":
            return partial(_read_symbol, avro["symbols"])
        case "fixed":
            return partial(_read_fixed, avro["size"])
        case "int" | "long" as name:
            return _number_reader(name, avro, kind)
        case "float" | "double" as name:
            by_text = EXACT in avro and name == "float" and kind == pa.float64()
            return partial(_read_float, name) if not by_text else _read_float_as_double
        case name:
            return _READERS[name]


def _member_reader(number: int, avro: Any, kind: pa.DataType) -> Reader:
    return _converting(_reader(avro, kind), lambda value: {member(number): value})


def _number_reader(name: str, avro: Any, kind: pa.DataType) -> Reader:
    logical = avro.get("logicalType", "")
    if EXACT in avro:
        return _whole_reader(name, kind)
    if pa.types.is_timestamp(kind) and logical.endswith("-millis"):
        return _read_millis if name == "long" else _converting(_read_int, lambda number: number * _THOUSAND)
    if kind == pa.float32():
        # By way of a double, which `pa.array` would take, some numbers are rounded twice.
        return _converting(_READERS[name], lambda number: np.int64(number).astype(np.float32))
    return _READERS[name] if kind != pa.float64() else _converting(_READERS[name], float)


def _whole_reader(name: str, kind: pa.DataType) -> Reader:
    """Of an int or long that is to be a float or double, and the same number."""

    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, end = _READERS[name](data, at)
        if kept(number, kind) != number:
            raise Undecodable(at, f"{number} has more digits than a {kind} keeps")
        return float(number), end

    return read


def _record_skipper(record: AvroRecord) -> Reader:
    """Made when there is such a record: it may be inside itself."""
    made: list[Reader] = []

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if not made:
            made.append(_record_reader(record, ()))
        return made[0](data, at)

    return read


def _skipper(avro: Any) -> Reader:
    """Passes a value over: checks no more of it than the decoder of many does."""
    if isinstance(avro, list):
        return _union_reader([None if branch == "null" else _skipper(branch) for branch in avro])
    match avro["type"]:
        case "record":
            return _record_skipper(avro)
        case "array":
            return _array_reader(_skipper(avro["items"]))
        case "map":
            return _map_reader(_skipper(avro["values"]), _read_bytes)
        case "enum":
            return _read_int
        case "fixed":
            return partial(_read_fixed, avro["size"])
        case "float" | "double" as name:
            return partial(_read_fixed, _FORMATS[name].size)
        case "string":
            return _read_bytes
        case name:
            return _READERS[name]


def _converting(reader: Reader, convert: Callable[[Any], Any]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = reader(data, at)
        return convert(value), at

    return read


def _record_reader(record: AvroRecord, columns: Iterable[pa.Field]) -> Reader:
    kinds = {column.name: column.type for column in columns}
    readers = [
        (name, _reader(field["type"], kinds[name]) if name in kinds else _skipper(field["type"]))
        for field in record["fields"]
        for name in (field["name"],)
    ]
    defaults = {name: column[0].as_py() for name, column in record.get("defaults", {}).items()}

    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        values = dict(defaults)
        for name, reader in readers:
            try:
                value, at = reader(data, at)
            except Undecodable as error:
                error.path.append(name or "(not read)")
                raise
            if name is not None:
                values[name] = value
        return values, at

    return read


def _required_reader(avro: Any, kind: pa.DataType) -> Reader:
    reader = _reader(avro["branches"], kind)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, end = reader(data, at)
        if value is None:
            raise Undecodable(at, "null, which is no value of this field")
        return value, end

    return read


def _union_reader(readers: list[Reader | None]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number, end = _read_int(data, at)
        if not 0 <= number < len(readers):
            raise Undecodable(at, f"a union of {len(readers)} has no branch {number}")
        reader = readers[number]
        return (None, end) if reader is None else reader(data, end)

    return read


def _either_reader(avro: Any, kind: pa.DataType) -> Reader:
    return _union_reader([None if branch == "null" else _reader(branch, kind) for branch in avro["branches"]])


def _refusing_reader(avro: Any, _: pa.DataType) -> Reader:
    def read(_: bytes, at: int) -> tuple[Any, int]:
        raise Undecodable(at, avro["why"])

    return read


def _array_reader(reader: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        left, at = _read_count(data, at)
        while left:
            for _ in range(left):
                try:
                    value, at = reader(data, at)
                except Undecodable as error:
                    error.path.append(f"[{len(values)}]")
                    raise
                values.append(value)
            left, at = _read_count(data, at)
        return values, at

    return read


def _map_reader(reader: Reader, read_key: Reader | None = None) -> Reader:
    read_key = read_key or _read_text

    def read(data: bytes, at: int) -> tuple[list[tuple[str, Any]], int]:
        values: dict[str, Any] = {}  # of a key that occurs twice the last value counts, as in Java's map
        left, at = _read_count(data, at)
        while left:
            for _ in range(left):
                key, at = read_key(data, at)
                try:
                    values[key], at = reader(data, at)
                except Undecodable as error:
                    error.path.append(f"[{key!r}]")
                    raise
            left, at = _read_count(data, at)
        return list(values.items()), at

    return read


def _read_count(data: bytes, at: int) -> tuple[int, int]:
    count, end = _read_long(data, at)
    if count < 0:
        _, end = _read_long(data, end)
        count = -count
    if count > len(data):
        raise Undecodable(at, f"the message ends within a block of {count} items")
    return count, end


def _varint(bits: int, bytes_max: int, name: str, data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for number in range(bytes_max):
        if at + number >= len(data):
            raise Undecodable(at, f"the message ends within {name}")
        byte = data[at + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            if value >> bits:
                raise Undecodable(at, f"{name} has more than {bits} bits")
            return value, at + number + 1
    raise Undecodable(at, f"{name} has more than {bytes_max} bytes")


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(32, _INT_BYTES, "an int", data, at)
    return (value >> 1) ^ -(value & 1), at


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(64, _LONG_BYTES, "a long", data, at)
    return (value >> 1) ^ -(value & 1), at


def _read_millis(data: bytes, at: int) -> tuple[int, int]:
    value, end = _read_long(data, at)
    if abs(value * _THOUSAND) > _LONG_MAX:
        raise Undecodable(at, f"{value} milliseconds do not fit into TIMESTAMP")
    return value * _THOUSAND, end


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    value, end = _read_fixed(1, data, at)
    if value not in {b"\x00", b"\x01"}:
        raise Undecodable(at, f"a boolean of the byte {value.hex()}")
    return value == b"\x01", end


def _read_float(name: str, data: bytes, at: int) -> tuple[float, int]:
    form = _FORMATS[name]
    value, end = _read_fixed(form.size, data, at)
    (number,) = form.unpack(value)
    return number, end


def _read_float_as_double(data: bytes, at: int) -> tuple[float, int]:
    """0.1 is 0.1, as in rows of before the column was a double."""
    number, end = _read_float("float", data, at)
    return float(str(np.float32(number))), end


def _read_fixed(size: int, data: bytes, at: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise Undecodable(at, f"the message ends within a value of {size} bytes")
    return data[at : at + size], at + size


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, start = _read_long(data, at)
    if length < 0:
        raise Undecodable(at, f"a length of {length} bytes")
    if start + length > len(data):
        raise Undecodable(at, f"the message ends within a value of {length} bytes")
    return data[start : start + length], start + length


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    value, end = _read_bytes(data, at)
    try:
        return value.decode(), end
    except UnicodeDecodeError as error:
        raise Undecodable(end - len(value) + error.start, "a byte that is not UTF-8") from error


def _read_symbol(symbols: list[str | None], data: bytes, at: int) -> tuple[str, int]:
    number, end = _read_int(data, at)
    if not 0 <= number < len(symbols):
        raise Undecodable(at, f"an enum of {len(symbols)} has no symbol {number}")
    if (symbol := symbols[number]) is None:
        raise Undecodable(at, f"symbol {number} is not one of the column's")
    return symbol, end


def _read_decimal(precision: int, scale: int, size: int | None, data: bytes, at: int) -> tuple[Decimal, int]:
    value, end = _read_bytes(data, at) if size is None else _read_fixed(size, data, at)
    if not value:
        raise Undecodable(at, "a decimal of no bytes")
    number = int.from_bytes(value, "big", signed=True)
    if abs(number) >= 10**precision:
        raise Undecodable(at, f"a number of {len(value)} bytes does not fit into DECIMAL({precision},{scale})")
    return Decimal(number).scaleb(-scale, _CONTEXT), end


_READERS: Final[dict[str, Reader]] = {
    "null": lambda _, at: (None, at),
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "bytes": _read_bytes,
    "string": _read_text,
}
_OF_UNIONS: Final = {"required": _required_reader, EITHER: _either_reader, REFUSED: _refusing_reader}
"""Types that a resolved schema has in place of a union, or in one."""
