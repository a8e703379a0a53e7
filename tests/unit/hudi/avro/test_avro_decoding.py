"""Rows of any type are decoded as fastavro decodes them, one by one; what is no row is refused."""

from __future__ import annotations

import contextlib
import io
import random
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.avro.cursors import NotVectorised
from bucketingest.hudi.avro.encoding import encode_rows
from bucketingest.hudi.log.reader import decode_rows
from bucketingest.hudi.table.schema import AvroSchema, arrow_to_avro, avro_to_arrow
from support.tables.arrow_values import arrow_types, to_arrow, values


def decoded(rows: list[bytes], schema: AvroSchema, columns: list[str] | None = None) -> pa.Table:
    lengths = np.array([len(row) for row in rows], np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    return decode_rows(memoryview(b"".join(rows)), starts, ends, schema, columns)


def one_by_one(rows: list[bytes], schema: AvroSchema) -> pa.Table:
    parsed = fastavro.parse_schema(schema)
    found: Any = [fastavro.schemaless_reader(io.BytesIO(row), parsed, None) for row in rows]
    return pa.Table.from_pylist(found, schema=avro_to_arrow(schema))


def by_fastavro(rows: list[dict[str, Any]], schema: AvroSchema) -> list[bytes]:
    parsed, found = fastavro.parse_schema(schema), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        found.append(out.getvalue())
    return found


def record(*fields: Any) -> AvroSchema:
    return {"type": "record", "name": "r", "fields": [{"name": f"c{i}", "type": kind} for i, kind in enumerate(fields)]}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.tuples(arrow_types(), st.booleans()), min_size=1, max_size=5))
    schema = pa.schema([pa.field(f"c{i}", *kind) for i, kind in enumerate(kinds)])
    rows = draw(st.lists(st.fixed_dictionaries({f.name: values(f) for f in schema}), min_size=1, max_size=12))
    return pa.table([to_arrow(field, [row[field.name] for row in rows]) for field in schema], schema=schema)


@given(tables(), st.data())
def test_any_rows_are_decoded_as_fastavro_decodes_them(table: pa.Table, data: st.DataObject) -> None:
    rows = [datum for chunk in encode_rows(table) for datum in chunk.to_pylist()]
    schema = arrow_to_avro(table.schema, table_name="t")
    expected = one_by_one(rows, schema)
    found = decoded(rows, schema)
    found.validate(full=True)
    assert found.equals(expected)
    columns = data.draw(st.lists(st.sampled_from(table.column_names), min_size=1, unique=True))
    some = decoded(rows, schema, [*columns, "absent"])
    assert some.equals(expected.select([name for name in expected.column_names if name in columns]))


NUMBERS = [
    0,
    1,
    -1,
    63,
    64,
    -64,
    -65,
    *(sign * 2**bits + off for bits in range(7, 63) for sign in (1, -1) for off in (-1, 0)),
]


def test_integers_of_every_length_are_decoded() -> None:
    every = [*NUMBERS, 2**63 - 1, -(2**63)]
    schema = record(["null", "long"], "long")
    rows = [{"c0": number, "c1": -1 - number} for number in every] + [{"c0": None, "c1": 5}]
    assert decoded(by_fastavro(rows, schema), schema).to_pylist() == rows


OTHERS: dict[str, tuple[Any, list[Any] | None]] = {
    "enum": ({"type": "enum", "name": "e", "symbols": ["a", "b"]}, ["a", "b"]),
    "fixed": ({"type": "fixed", "name": "f", "size": 3}, [b"abc", b"\x00\xff\x01"]),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, None),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, None),
    "timestamp-millis": ({"type": "long", "logicalType": "timestamp-millis"}, None),
    "local-timestamp-millis": ({"type": "long", "logicalType": "local-timestamp-millis"}, None),
    "decimal in bytes": (
        {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2},
        [Decimal("0.00"), Decimal("-0.01"), Decimal("123456789012345678.99"), Decimal("-1.28"), Decimal("1.28")],
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_types_that_only_other_writers_use_are_decoded(name: str) -> None:
    kind, given_values = OTHERS[name]
    if given_values is None:
        given_values, plain = [0, 1, 86_399_999], record(kind["type"], ["null", kind["type"]], [kind["type"], "null"])
    else:
        plain = record(kind, ["null", kind], [kind, "null"])
    # Named types once only: Hudi's tables have each in one column.
    if kind["type"] in ("enum", "fixed"):
        plain = record(["null", kind])
    names = [field["name"] for field in plain["fields"]]
    rows = [dict.fromkeys(names, value) for value in given_values]
    rows.append(
        {
            name: None if isinstance(field["type"], list) else given_values[0]
            for name, field in zip(names, plain["fields"], strict=True)
        }
    )
    data = by_fastavro(rows, plain)
    schema = plain if kind["type"] not in ("int", "long") else record(kind, ["null", kind], [kind, "null"])
    assert decoded(data, schema).equals(one_by_one(data, schema))


def test_blocks_of_items_may_be_several_and_have_a_size_in_front() -> None:
    schema = record({"type": "array", "items": "long"}, {"type": "map", "values": ["null", "int"]})
    row = b"\x02\x02" + b"\x03\x04\x04\x06" + b"\x00" + b"\x01\x08\x02a\x02\x0e" + b"\x00"
    # array: 1 item, then 2 of 2 bytes; map: 1 entry of 4 bytes
    assert decoded([row, b"\x00\x00"], schema).equals(one_by_one([row, b"\x00\x00"], schema))
    assert decoded([row], schema)["c0"].to_pylist() == [[1, 2, 3]]


def test_many_rows_come_in_order_in_several_chunks() -> None:
    chance = random.Random(1)
    texts = [None if chance.random() < 0.2 else "x" * chance.randrange(40) + str(number) for number in range(40_000)]
    table = pa.table({"n": list(range(40_000)), "t": texts})
    rows = [datum for chunk in encode_rows(table) for datum in chunk.to_pylist()]
    assert decoded(rows, arrow_to_avro(table.schema, table_name="t")).equals(table)


def test_long_arrays_of_few_rows_are_left_to_a_decoder_of_single_values() -> None:
    schema = record({"type": "array", "items": "int"})
    with pytest.raises(NotVectorised, match="items"):
        decoded(by_fastavro([{"c0": list(range(500))}], schema), schema)


def test_decimals_of_more_bytes_than_they_need_are_left_to_it_as_well() -> None:
    schema = record({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 0})
    with pytest.raises(NotVectorised, match="17 bytes"):
        decoded([b"\x22" + bytes(16) + b"\x01"], schema)


BROKEN: dict[str, tuple[Any, bytes]] = {
    "cut short in a string": ("string", b"\x08ab"),
    "cut short in a double": ("double", b"abc"),
    "a string of negative length": ("string", b"\x01"),
    "a string beyond 64 bits": ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    "no such branch": (["null", "long"], b"\x04\x02"),
    "an integer of 65 bits": ("long", b"\xff" * 9 + b"\x02"),
    "an int of 33 bits": ("int", b"\x80\x80\x80\x80\x20"),
    "no UTF-8": ("string", b"\x02\xff"),
    "a decimal of too many digits": ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x04\x7f\xff"),
    "no such symbol": ({"type": "enum", "name": "e", "symbols": ["a"]}, b"\x02"),
    "an array without an end": ({"type": "array", "items": "int"}, b"\x04\x02\x02"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_bytes_that_are_no_row_are_refused(what: str) -> None:
    kind, row = BROKEN[what]
    with pytest.raises((ValueError, IndexError)):  # pa.ArrowInvalid is a ValueError
        decoded([row], record(kind))


@given(tables(), st.randoms())
def test_damaged_rows_give_rows_or_an_error_but_never_read_beyond(table: pa.Table, chance: random.Random) -> None:
    rows = [bytearray(datum) for chunk in encode_rows(table) for datum in chunk.to_pylist()]
    for row in rows:
        if row:
            row[chance.randrange(len(row))] = chance.randrange(256)
    with contextlib.suppress(ValueError, IndexError, NotVectorised):
        decoded([bytes(row) for row in rows], arrow_to_avro(table.schema, table_name="t")).validate(full=True)


def test_no_rows_have_the_columns() -> None:
    assert decoded([], record("long")).schema == avro_to_arrow(record("long"))
