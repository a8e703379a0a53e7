"""The columns of messages, and what is no column, by the spec's text alone."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from bucketingest.decode.message_columns import columns_of, why_refused
from bucketingest.spec.formats.format import Format


def ddl(text: str) -> Format:
    return Format.model_validate({"type": "json", "schema": text})


def test_every_type_of_ddl_is_a_column() -> None:
    found = columns_of(
        ddl(
            "a STRING NOT NULL COMMENT 'x, y', `b ``c` BINARY, d BOOLEAN, e tinyint, f SMALLINT, g INT, h LONG, i REAL,"
            "j DOUBLE, k DATE, l TIMESTAMP, m DECIMAL, n numeric(5), o dec(38, 38), p ARRAY<MAP<STRING, INT>>,"
            "q STRUCT<x: STRUCT<y INT COMMENT 'z'>, X2: ARRAY<ARRAY<DATE>>>"
        )
    )
    assert dict(zip(found.names, map(str, found.types), strict=True)) == {
        "a": "string",
        "b `c": "binary",
        "d": "bool",
        "e": "int8",
        "f": "int16",
        "g": "int32",
        "h": "int64",
        "i": "float",
        "j": "double",
        "k": "date32[day]",
        "l": "timestamp[us, tz=UTC]",
        "m": "decimal128(10, 0)",
        "n": "decimal128(5, 0)",
        "o": "decimal128(38, 38)",
        "p": "list<element: map<string, int32>>",
        "q": "struct<x: struct<y: int32>, X2: list<element: list<element: date32[day]>>>",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("id STRING, ID INT", "has the columns id and ID, which differ in case only: Spark cannot tell them apart"),
        ("s STRUCT<a INT, `A` INT>", "has the columns a and A, which differ in case only"),
        ("id STRING, id INT", "has the column id twice"),
        ("d DECIMAL(39,2)", "has DECIMAL(39,2) in d; a decimal has 1 to 38 digits"),
        (
            "d DECIMAL(5,6)",
            "has DECIMAL(5,6) in d; a decimal has 1 to 38 digits, of which",
        ),
        ("d DECIMAL(x)", "has a DECIMAL of x in d"),
        ("c VARCHAR(3)", "has the type VARCHAR in c, whose length nothing would check: use STRING"),
        ("c ARRAY<INTERVAL>", "has the type INTERVAL of c[], which is not decoded; known are STRING, "),
        ("m MAP<INT, STRING>", "has a MAP with keys of another type than STRING in m (int32)"),
        ("x INT DEFAULT 3", "has 'DEFAULT' behind the type of x: only NOT NULL and COMMENT may follow it"),
        ("s STRING COLLATE UTF8_LCASE", "has 'COLLATE' behind the type of s"),
        ("id STRIN", "has the type STRIN of id, which is not decoded"),
        ("id STRING,", "ends before a column's name"),
        ("id", "ends before the type of id"),
        ("a ARRAY<INT", "ends without '>'"),
        ("a INT> b", "has '>' instead of ','"),
        ("{}", "has '{}', which is no part of a column"),
    ],
)
def test_what_is_no_column_is_named(text: str, why: str) -> None:
    found = why_refused(ddl(text))
    assert found is not None
    assert found.startswith(why)


def test_every_type_of_avro_is_a_column() -> None:
    fixed = {"type": "fixed", "name": "F", "size": 27}
    types = {
        "decimal_of_connect": {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2},
        "fixed_decimal": {**fixed, "logicalType": "decimal", "precision": 5},
        "fixed": {**fixed, "name": "G"},
        "date": {"type": "int", "logicalType": "date"},
        "time": {"type": "int", "logicalType": "time-millis"},
        "millis": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "map": {"type": "map", "values": {"type": "array", "items": "float"}},
        "enum": {"type": "enum", "name": "E", "symbols": ["A"]},
        "several": ["int", "null", "string"],
    }
    schema = {"type": "record", "name": "r", "fields": [{"name": name, "type": kind} for name, kind in types.items()]}
    found = columns_of(Format.model_validate({"type": "avro", "schema": json.dumps(schema)}))
    assert dict(zip(found.names, map(str, found.types), strict=True)) == {
        "decimal_of_connect": "decimal128(38, 2)",
        "fixed_decimal": "decimal128(5, 0)",
        "fixed": "binary",
        "date": "date32[day]",
        "time": "int32",
        "millis": "timestamp[us, tz=UTC]",
        "local": "timestamp[us]",
        "map": "map<string, list<element: float>>",
        "enum": "string",
        "several": "struct<member0: int32, member1: string>",
    }
    assert found.field("millis").type == pa.timestamp("us", "UTC")
