"""Each type of each format with odd values, and what becomes of a message that has one: a row's value, or a dead letter
with its reason. The one table for tests without Spark, and for those through a whole run and both of Hudi's readers.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from bucketingest.spec.formats.format import Format


@dataclass(frozen=True, slots=True)
class Letter:
    """The message is a dead letter."""

    why: str
    """Part of its detail."""


class Case(NamedTuple):
    """One message, whose other columns are null."""

    kind: str
    """Of the column, as the format's schema has it."""
    given: Any
    """JSON: the text of the value; Avro and Protobuf: its bytes."""
    becomes: Any
    """The value, or `Letter`."""


def utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


LONGEST: Final = Decimal("12345678901234567890.123456789012345678")
NO_TIME: Final = "is no TIMESTAMP"
NO_FIT: Final = "does not fit into"

JSON: Final = [
    Case("STRING", '"a"', "a"),
    Case("STRING", '""', ""),
    Case("STRING", "null", None),
    Case("STRING", '"\\ud83e\\udd94"', "🦔"),
    Case("STRING", "12.50", "12.50"),
    Case("STRING", "12345678901234567890.123", "12345678901234567890.123"),
    Case("STRING", "1E5", "1E5"),
    Case("STRING", '{"b": [1, 2.0]}', '{"b": [1, 2.0]}'),
    Case("STRING", "true", "true"),
    Case("STRING", "'a'", Letter("JSON is malformed: invalid character")),
    Case("STRING", '"\\ud83e"', Letter("Input data was truncated")),
    Case("TINYINT", "-128", -128),
    Case("TINYINT", "128", Letter("Expected `int` <= 127")),
    Case("SMALLINT", "32767", 32767),
    Case("SMALLINT", "32768", Letter("Expected `int` <= 32767")),
    Case("INT", "-2147483648", -(2**31)),
    Case("INT", "2147483648", Letter("Expected `int` <= 2147483647")),
    Case("INT", "1.0", Letter("Expected `int | null`, got `float`")),
    Case("INT", "1e2", Letter("Expected `int | null`, got `float`")),
    Case("INT", '"1"', Letter("Expected `int | null`, got `str`")),
    Case("INT", "01", Letter("invalid number")),
    Case("INT", "true", Letter("Expected `int | null`, got `bool`")),
    Case("BIGINT", "9223372036854775807", 2**63 - 1),
    Case("BIGINT", "9223372036854775808", Letter("Expected `int` <= 9223372036854775807")),
    Case("FLOAT", "0.1", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    Case("FLOAT", "1e39", Letter(NO_FIT)),
    Case("DOUBLE", "-0.0", -0.0),
    Case("DOUBLE", "5e-324", 5e-324),
    Case("DOUBLE", "1e400", Letter("Number out of range")),
    Case("DOUBLE", "NaN", Letter("invalid character")),
    Case("DOUBLE", '"NaN"', math.nan),
    Case("DOUBLE", '"-Infinity"', -math.inf),
    Case("DOUBLE", '"1.5"', Letter("a number (DOUBLE) is expected, not '1.5'")),
    Case("DECIMAL(10,2)", "12.5", Decimal("12.50")),
    Case("DECIMAL(10,2)", '"12.50"', Decimal("12.50")),
    Case("DECIMAL(10,2)", "0.005", Decimal("0.01")),
    Case("DECIMAL(10,2)", '"12,50"', Letter("a number (DECIMAL(10,2)) is expected, not '12,50'")),
    Case("DECIMAL(10,2)", "123456789.0", Letter(NO_FIT)),
    Case("DECIMAL(38,18)", f"{LONGEST}", LONGEST),
    Case("BOOLEAN", "true", True),
    Case("BOOLEAN", '"true"', Letter("Expected `bool | null`, got `str`")),
    Case("BOOLEAN", "1", Letter("Expected `bool | null`, got `int`")),
    Case("DATE", '"2024-02-29"', dt.date(2024, 2, 29)),
    Case("DATE", '"0001-01-01"', dt.date(1, 1, 1)),
    Case("DATE", '"9999-12-31"', dt.date(9999, 12, 31)),
    Case("DATE", '"10000-01-01"', Letter("is no DATE")),
    Case("DATE", '"-0044-03-15"', Letter("is no DATE")),
    Case("DATE", '"2023-02-29"', Letter("is no DATE")),
    Case("DATE", '"2024-02-29T10:00:00Z"', Letter("is no DATE")),
    Case("DATE", "19782", Letter("19782 is no DATE")),
    Case("DATE", '"19782"', Letter("is no DATE")),
    Case("TIMESTAMP", '"2026-01-01T00:00:00.1234567+01:00"', utc(2025, 12, 31, 23, 0, 0, 123456)),
    Case("TIMESTAMP", '"2026-01-01 00:00:00"', utc(2026, 1, 1)),
    Case("TIMESTAMP", '"2026-01-01"', utc(2026, 1, 1)),
    Case("TIMESTAMP", '"0001-01-01T00:00:00Z"', utc(1, 1, 1)),
    Case("TIMESTAMP", '"9999-12-31T23:59:59.999999Z"', utc(9999, 12, 31, 23, 59, 59, 999999)),
    Case("TIMESTAMP", '"9999-12-31T23:59:59-00:01"', Letter(NO_TIME)),
    Case("TIMESTAMP", '"2026-01-01T24:00:00Z"', Letter(NO_TIME)),
    Case("TIMESTAMP", '"12:30"', Letter(NO_TIME)),
    Case("TIMESTAMP", '"2026-01-01 00:00:00 Europe/Berlin"', Letter(NO_TIME)),
    Case("TIMESTAMP", "1767225600000", Letter("format.timestamps says whether numbers are")),
    Case("BINARY", '"AP8="', b"\x00\xff"),
    Case("BINARY", '"AP8"', Letter("Invalid base64 encoded string")),
    Case("ARRAY<INT>", "[1, null]", [1, None]),
    Case("ARRAY<INT>", "[]", []),
    Case("ARRAY<INT>", "[1, 2.5]", Letter("Expected `int | null`, got `float`")),
    Case("ARRAY<INT>", "1", Letter("Expected `array | null`, got `int`")),
    Case("ARRAY<DATE>", '["2026-01-01", "12026-01-01"]', Letter("is no DATE")),
    Case("MAP<STRING, INT>", '{"a": 1, "a": 2}', [("a", 2)]),
    Case("MAP<STRING, INT>", '{"a": "1"}', Letter("Expected `int | null`, got `str`")),
    Case("STRUCT<x: INT, y: STRING>", '{"y": 1.0, "z": 1}', {"x": None, "y": "1.0"}),
    Case("STRUCT<x: INT, y: STRING>", "[]", Letter("Expected `object | null`, got `array`")),
]


def long(number: int) -> bytes:
    """A number of Avro's."""
    rest, out = (number << 1) ^ (number >> 63), b""
    while rest >= 0x80:
        out += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return out + bytes([rest])


DECIMAL_64: Final = json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2})
FIXED: Final = json.dumps({"type": "fixed", "name": "F", "size": 2})
ENUM: Final = json.dumps({"type": "enum", "name": "E", "symbols": ["A", "B"]})
DATE: Final = json.dumps({"type": "int", "logicalType": "date"})
MILLIS: Final = json.dumps({"type": "long", "logicalType": "timestamp-millis"})
MICROS: Final = json.dumps({"type": "long", "logicalType": "timestamp-micros"})
LOCAL: Final = json.dumps({"type": "long", "logicalType": "local-timestamp-micros"})
INTS: Final = json.dumps({"type": "array", "items": "int"})
MAP: Final = json.dumps({"type": "map", "values": "int"})
BEYOND: Final = "is beyond the years 0001 to 9999"

AVRO: Final = [
    Case('"boolean"', b"\x01", True),
    Case('"boolean"', b"\x02", Letter("a boolean of the byte 02")),
    Case('"int"', long(-(2**31)), -(2**31)),
    Case('"int"', b"\x82\x80\x80\x80\x70", Letter("an int has more than 32 bits")),
    Case('"int"', b"", Letter("the message ends within an int")),
    Case('"int"', b"\x02\x00", Letter("bytes are left over")),
    Case('"long"', long(2**63 - 1), 2**63 - 1),
    Case('"long"', b"\x82" + b"\x80" * 8 + b"\x7e", Letter("a long has more than 64 bits")),
    Case('"float"', struct.pack("<f", 1.5), 1.5),
    Case('"double"', struct.pack("<d", math.inf), math.inf),
    Case('"string"', b"\x08\xf0\x9f\xa6\x94", "🦔"),
    Case('"string"', b"\x02\xff", Letter("a byte that is not UTF-8")),
    Case('"string"', b"\x01", Letter("a length of -1 bytes")),
    Case('"bytes"', b"\x04\x00\xff", b"\x00\xff"),
    Case(FIXED, b"\x00\xff", b"\x00\xff"),
    Case(ENUM, b"\x02", "B"),
    Case(ENUM, b"\x04", Letter("an enum of 2 has no symbol 2")),
    Case(DECIMAL_64, b"\x04\x30\x39", Decimal("123.45")),
    Case(DECIMAL_64, b"\x00", Letter("a decimal of no bytes")),
    Case(DECIMAL_64, b"\x22" + b"\x7f" * 17, Letter("does not fit into DECIMAL(38,2)")),
    Case(DATE, long(0), dt.date(1970, 1, 1)),
    Case(DATE, long(-719162), dt.date(1, 1, 1)),
    Case(DATE, long(2932897), Letter(BEYOND)),
    Case(MILLIS, long(1767225600000), utc(2026, 1, 1)),
    Case(MILLIS, long(1767225600000000), Letter(BEYOND)),
    Case(MILLIS, long(2**62), Letter("milliseconds do not fit into TIMESTAMP")),
    Case(MICROS, long(1767225600000000), utc(2026, 1, 1)),
    Case(MICROS, long(1767225600000000000), Letter(BEYOND)),
    Case(LOCAL, long(1767225600000000), dt.datetime(2026, 1, 1)),  # noqa: DTZ001 - it has no zone
    Case(LOCAL, long(-(2**62)), Letter(BEYOND)),
    Case(INTS, b"\x04\x02\x04\x00", [1, 2]),
    Case(INTS, b"\x03\x04\x02\x04\x00", [1, 2]),
    Case(INTS, b"\x04\x02", Letter("the message ends within an int")),
    Case(MAP, b"\x04\x02k\x02\x02k\x04\x00", [("k", 2)]),
]


def varint(number: int) -> bytes:
    """A number of Protobuf's."""
    rest, out = number % 2**64, b""
    while rest >= 0x80:
        out += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return out + bytes([rest])


def piece(content: bytes) -> bytes:
    return varint(len(content)) + content


def timestamp(seconds: int, nanos: int = 0) -> bytes:
    return piece(b"\x08" + varint(seconds) + b"\x10" + varint(nanos))


PROTOBUF: Final = [
    Case("int32", varint(-1), -1),
    Case("uint32", varint(2**32 - 1), -1),
    Case("sint64", varint(3), -2),
    Case("int64", b"\x80" * 11, Letter("a number has more than 10 bytes")),
    Case("int64", b"\x80", Letter("the message ends within a number")),
    Case("fixed32", struct.pack("<I", 7), 7),
    Case("fixed64", b"\x00", Letter("the message ends within a value of 8 bytes")),
    Case("bool", b"\x01", True),
    Case("float", struct.pack("<f", 0.5), 0.5),
    Case("double", struct.pack("<d", -0.0), -0.0),
    Case("string", piece("🦔".encode()), "🦔"),
    Case("string", piece(b"\xff"), Letter("a byte that is not UTF-8")),
    Case("string", b"\x05a", Letter("the message ends within a value of 5 bytes")),
    Case("bytes", piece(b"\x00\xff"), b"\x00\xff"),
    Case("timestamp", timestamp(1767225600, 123456789), utc(2026, 1, 1, 0, 0, 0, 123456)),
    Case("timestamp", timestamp(1767225600000), Letter(BEYOND)),
    Case("timestamp", timestamp(2**62), Letter("seconds do not fit into TIMESTAMP")),
]
_WIRES: Final = {"fixed64": 1, "double": 1, "fixed32": 5, "float": 5, "string": 2, "bytes": 2, "timestamp": 2}

Name = Literal["json", "avro", "protobuf"]
TABLES: Final[dict[Name, list[Case]]] = {"json": JSON, "avro": AVRO, "protobuf": PROTOBUF}


def kinds_of(name: Name) -> list[str]:
    """The types of a format's table, each once: column `c<n>` is of the n-th."""
    return list(dict.fromkeys(case.kind for case in TABLES[name]))


def format_of(name: Name) -> dict[str, Any]:
    """`spec.format` with a column of each type, and the key `id`."""
    kinds = kinds_of(name)
    match name:
        case "json":
            columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(kinds))
            return {"type": "json", "schema": f"id STRING, {columns}"}
        case "avro":
            nullable = [{"name": f"c{at}", "type": ["null", json.loads(kind)]} for at, kind in enumerate(kinds)]
            fields = [{"name": "id", "type": "string"}, *nullable]
            return {"type": "avro", "schema": json.dumps({"type": "record", "name": "R", "fields": fields})}
        case "protobuf":
            return {"type": "protobuf", "schema": _descriptors(kinds), "messageName": "a.R"}


def messages_of(name: Name) -> Iterator[bytes]:
    """The message of each case; its `id` is the number of the case."""
    kinds = kinds_of(name)
    for number, case in enumerate(TABLES[name]):
        at = kinds.index(case.kind)
        match name:
            case "json":
                yield f'{{"id": "{number}", "c{at}": {case.given}}}'.encode()
            case "avro":
                key = str(number).encode()
                # What is cut off is cut off at the message's end.
                is_cut = isinstance(case.becomes, Letter) and "the message ends" in case.becomes.why
                after = b"" if is_cut else b"\x00" * (len(kinds) - at - 1)
                yield long(len(key)) + key + b"\x00" * at + b"\x02" + case.given + after
            case "protobuf":
                tag = varint((at + 2) << 3 | _WIRES.get(case.kind, 0))
                yield b"\x0a" + piece(str(number).encode()) + tag + case.given


def expected_of(name: Name) -> dict[str, dict[str, Any]]:
    """The rows by their `id`."""
    kinds = kinds_of(name)
    return {
        str(number): {f"c{kinds.index(case.kind)}": case.becomes}
        for number, case in enumerate(TABLES[name])
        if not isinstance(case.becomes, Letter)
    }


def reasons_of(name: Name) -> dict[int, str]:
    """Part of the detail of each dead letter, by the number of its message."""
    cases = enumerate(TABLES[name])
    return {number: case.becomes.why for number, case in cases if isinstance(case.becomes, Letter)}


def model_of(name: Name) -> Format:
    return Format.model_validate(format_of(name))


def _descriptors(kinds: list[str]) -> str:
    file = FileDescriptorProto(name="r.proto", package="a", syntax="proto3")
    moment = file.message_type.add(name="Timestamp")
    for number, (name, kind) in enumerate((("seconds", "int64"), ("nanos", "int32")), 1):
        moment.field.add(name=name, number=number, type=_type(kind), label=FieldDescriptorProto.LABEL_OPTIONAL)
    row = file.message_type.add(name="R")
    row.field.add(name="id", number=1, type=_type("string"), label=FieldDescriptorProto.LABEL_OPTIONAL)
    for at, kind in enumerate(kinds):
        row.oneof_decl.add(name=f"_c{at}")
        field = row.field.add(
            name=f"c{at}",
            number=at + 2,
            type=_type("message" if kind == "timestamp" else kind),
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            oneof_index=at,
            proto3_optional=True,
        )
        if kind == "timestamp":
            field.type_name = ".a.Timestamp"
    return base64.b64encode(FileDescriptorSet(file=[file]).SerializeToString()).decode()


def _type(kind: str) -> Any:
    return FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
