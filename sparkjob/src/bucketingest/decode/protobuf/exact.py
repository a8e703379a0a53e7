"""One message after the other: slow, and the judge of every message of which the decoder of many is not sure.

A message is read into the last value of each field, or all of a repeated one, and only then becomes a row: of a field
that occurs twice the last value counts, and messages that occur twice are merged.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from bucketingest.decode.protobuf.schema import BYTES, FIXED64, VARINT, Field, Message
from bucketingest.decode.rows import Undecodable

_VARINT_BYTES: Final = 10
_GROUPS_MAX: Final = 100
_FORMATS: Final = {
    "fixed32": struct.Struct("<i"),  # unsigned ones are Java's, which has signed ones only
    "sfixed32": struct.Struct("<i"),
    "long fixed32": struct.Struct("<I"),
    "whole fixed64": struct.Struct("<Q"),
    "float": struct.Struct("<f"),
    "fixed64": struct.Struct("<q"),
    "sfixed64": struct.Struct("<q"),
    "double": struct.Struct("<d"),
}
_MICROS_MAX: Final = 2**63 - 1
_END_GROUP: Final = 4

Values = dict[int, Any]
"""Of each field's number: the value, all values, or those of a message."""


class ExactDecoder:
    """Decodes single messages into rows."""

    def __init__(self, message: Message) -> None:
        self._message = message

    def decode(self, data: bytes, at: int = 0) -> dict[str, Any]:
        """The row of what follows a place, with values that Arrow's constructor takes. Raises Undecodable."""
        values: Values = {}
        _read(self._message, _Bytes(data, at, len(data)), values)
        return _row(self._message, values, len(data))


class _Bytes:
    """A message's bytes, from a place to an end."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    def varint(self) -> int:
        """A number of up to 64 bits; further ones are lost, as in Java."""
        value, start = 0, self.at
        for number in range(_VARINT_BYTES):
            if start + number >= self.end:
                raise Undecodable(start, "the message ends within a number")
            byte = self.data[start + number]
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80:
                self.at = start + number + 1
                return value & 2**64 - 1
        raise Undecodable(start, f"a number has more than {_VARINT_BYTES} bytes")

    def tag(self) -> tuple[int, int]:
        """A field's number and wire type."""
        start = self.at
        tag = self.varint() & 0xFFFFFFFF
        if tag >> 3 == 0:
            raise Undecodable(start, "a field of number 0")
        return tag >> 3, tag & 7

    def piece(self) -> _Bytes:
        """What has a length."""
        start = self.at
        size = self.varint() & 0xFFFFFFFF
        if size >= 1 << 31:
            raise Undecodable(start, f"a length of {size - (1 << 32)} bytes")
        return self.next(size, start)

    def next(self, size: int, start: int) -> _Bytes:
        """The next bytes. `start`: where what says so begins."""
        if self.at + size > self.end:
            raise Undecodable(start, f"the message ends within a value of {size} bytes")
        found = _Bytes(self.data, self.at, self.at + size)
        self.at = found.end
        return found

    def skip(self, number: int, wire: int, start: int, depth: int = 0) -> None:
        """Pass over the value of a field that is not known. `start`: of its tag."""
        match wire:
            case 0:
                self.varint()
            case 1 | 5:
                self.next(8 if wire == FIXED64 else 4, self.at)
            case 2:
                self.piece()
            case 3 if depth < _GROUPS_MAX:
                self._skip_group(number, depth + 1)
            case 3:
                raise Undecodable(start, f"groups of more than {_GROUPS_MAX} levels")
            case _:
                raise Undecodable(start, f"wire type {wire}, which does not belong here")

    def _skip_group(self, number: int, depth: int) -> None:
        while self.at < self.end:
            start = self.at
            inner, wire = self.tag()
            if wire == _END_GROUP and inner == number:
                return
            if wire == _END_GROUP:
                raise Undecodable(start, f"the end of group {inner} within group {number}")
            self.skip(inner, wire, start, depth)
        raise Undecodable(self.end, f"the message ends within group {number}")


def _read(message: Message, given: _Bytes, values: Values) -> None:
    """Add what is written to the values."""
    fields = {field.number: field for field in message.fields}
    while given.at < given.end:
        start = given.at
        number, wire = given.tag()
        field = fields.get(number)
        if field is None:
            given.skip(number, wire, start)
            continue
        try:
            if wire == BYTES and field.packable:
                piece, items = given.piece(), values.setdefault(number, [])
                while piece.at < piece.end:
                    items.append(_scalar(field, piece))
            elif wire != field.wire:
                raise Undecodable(start, f"wire type {wire}, which a field of type {field.kind} cannot have")
            else:
                _read_one(message, field, given, values)
        except Undecodable as error:
            error.path.append(field.name)
            raise


def _read_one(message: Message, field: Field, given: _Bytes, values: Values) -> None:
    """Add one value of a field."""
    if field.oneof:
        for other in message.fields:
            if other.oneof == field.oneof and other.number != field.number:
                values.pop(other.number, None)
    if field.message is not None:
        piece = given.piece()
        inner: Values = {}
        if field.repeated:
            values.setdefault(field.number, []).append(inner)
        else:
            inner = values.setdefault(field.number, inner)
        _read(field.message, piece, inner)
    elif field.repeated:
        values.setdefault(field.number, []).append(_scalar(field, given))
    else:
        values[field.number] = _scalar(field, given)


def _row(message: Message, values: Values, end: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in message.fields:
        try:
            row[field.name] = _value(field, values.get(field.number), end)
        except Undecodable as error:
            error.path.append(field.name)
            raise
    return row


def _value(field: Field, found: Any, end: int) -> Any:
    if field.is_map:
        assert field.message is not None, "a map has entries"
        entries = [_row(field.message, entry, end) for entry in found or ()]
        # Of a key that occurs twice the last value counts.
        return list({entry["key"]: entry["value"] for entry in entries}.items())
    if field.repeated:
        return [_one(field, each, end) for each in found or ()]
    if found is None:
        if field.required:
            raise Undecodable(end, "it is required, and absent")
        return _row(field.message, {}, end) if field.default == {} and field.message is not None else field.default
    if not field.presence and _is_default(field, found):
        return None
    return _one(field, found, end)


def _one(field: Field, found: Any, end: int) -> Any:
    if field.kind == "message":
        assert field.message is not None, "its kind says so"
        return _row(field.message, found, end)
    if field.kind in {"timestamp", "duration"}:
        nanos = found.get(2, 0)
        micros = found.get(1, 0) * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
        if abs(micros) > _MICROS_MAX:
            raise Undecodable(end, f"{found.get(1, 0)} seconds do not fit into {field.kind.upper()}")
        return micros
    if field.enum is not None:
        # An open enum's numbers have names in Java, too.
        return field.enum.symbols.get(found) or f"UNKNOWN_ENUM_VALUE_{field.enum.name}_{found}"
    return found


def _is_default(field: Field, found: Any) -> bool:
    if field.kind in {"float", "double"}:
        return not any(_FORMATS[field.kind].pack(found))  # -0.0 is another value
    return not found


def _scalar(field: Field, given: _Bytes) -> Any:
    start = given.at
    if field.wire == VARINT:
        number = _integer(field.kind, given.varint())
        if field.enum is not None and field.enum.closed and number not in field.enum.symbols:
            raise Undecodable(start, f"the enum {field.enum.name} has no number {number}")
        return number
    if field.wire != BYTES:
        form = _FORMATS[field.kind]
        piece = given.next(form.size, start)
        return form.unpack_from(piece.data, piece.at)[0]
    piece = given.piece()
    value = piece.data[piece.at : piece.end]
    if field.kind == "bytes":
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(piece.at + error.start, "a byte that is not UTF-8") from error


def _integer(kind: str, value: int) -> int | bool:
    if kind == "bool":
        return value != 0
    if kind in {"sint32", "sint64"}:
        value &= 0xFFFFFFFF if kind == "sint32" else 2**64 - 1
        return (value >> 1) ^ -(value & 1)
    if kind == "whole uint64":
        return value & (2**64 - 1)
    if kind == "long uint32":
        return value & 0xFFFFFFFF
    bits = 64 if kind in {"int64", "uint64"} else 32
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >= 1 << bits - 1 else value
