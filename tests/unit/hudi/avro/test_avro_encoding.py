import io
import math
import struct
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.avro.encoding import encode_rows
from bucketingest.hudi.errors import SchemaError
from bucketingest.hudi.table.schema import arrow_to_avro
from support.tables.arrow_values import arrow_types, as_given, to_arrow, to_avro, values


def encoded(table: pa.Table, *, framed: bool = False) -> list[bytes]:
    return [datum for rows in encode_rows(table, framed=framed) for datum in rows.to_pylist()]


def parsed(table: pa.Table) -> Any:
    return fastavro.parse_schema(arrow_to_avro(table.schema, table_name="t"))


def by_fastavro(table: pa.Table, rows: list[dict[str, Any]]) -> list[bytes]:
    schema, found = parsed(table), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        found.append(out.getvalue())
    return found


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, Any]]]:
    """A table of random columns, sliced out of a longer one, and its rows as Python values."""
    kinds = draw(st.lists(st.tuples(arrow_types(), st.booleans()), min_size=1, max_size=5))
    schema = pa.schema([pa.field(f"c{i}", *kind) for i, kind in enumerate(kinds)])
    rows = draw(st.lists(st.fixed_dictionaries({f.name: values(f) for f in schema}), min_size=1, max_size=12))
    skipped = draw(st.integers(0, len(rows) - 1))
    columns = [to_arrow(field, [row[field.name] for row in rows]) for field in schema]
    return pa.table(columns, schema=schema).slice(skipped), rows[skipped:]


@given(tables())
def test_any_rows_are_encoded_as_fastavro_encodes_them(case: tuple[pa.Table, list[dict[str, Any]]]) -> None:
    table, rows = case
    kind = pa.struct(list(table.schema))
    assert encoded(table) == by_fastavro(table, [to_avro(kind, row) for row in rows])


@given(tables())
def test_any_rows_are_read_back_by_fastavro(case: tuple[pa.Table, list[dict[str, Any]]]) -> None:
    table, rows = case
    schema, kind = parsed(table), pa.struct(list(table.schema))
    read = [fastavro.schemaless_reader(io.BytesIO(datum), schema, None) for datum in encoded(table)]
    assert [as_given(kind, row) for row in read] == rows


@given(tables())
def test_a_framed_row_has_its_length_in_front(case: tuple[pa.Table, list[dict[str, Any]]]) -> None:
    table, _ = case
    assert encoded(table, framed=True) == [struct.pack(">i", len(row)) + row for row in encoded(table)]


@given(st.lists(st.none() | st.text(max_size=20), min_size=1, max_size=20))
def test_a_dictionary_column_is_encoded_as_its_strings(texts: list[str | None]) -> None:
    plain = pa.table({"a": pa.array(texts, pa.string()), "n": pa.array(range(len(texts)))})
    coded = plain.set_column(0, "a", plain["a"].dictionary_encode())
    assert encoded(coded) == encoded(plain)


def test_constant_dictionary_columns_next_to_each_other_are_encoded_as_their_strings() -> None:
    zeros = pa.array(np.zeros(3, np.int32))
    constants = [pa.DictionaryArray.from_arrays(zeros, pa.array([text])) for text in ("eins", "zwei")]
    table = pa.table([*constants, pa.array([1, None, 3])], names=["a", "b", "n"])
    assert encoded(table) == [b"\x02\x08eins\x02\x08zwei" + n for n in (b"\x02\x02", b"\x00", b"\x02\x06")]


def test_a_table_of_constants_alone_has_all_its_rows() -> None:
    constant = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["x"]))
    assert encoded(pa.table({"a": constant})) == [b"\x02\x02x"] * 2


def test_rows_of_several_chunks_come_in_order() -> None:
    numbers = pa.chunked_array([list(range(20_000)), list(range(20_000, 40_000))])
    rows = encoded(pa.table({"n": numbers}))
    schema = parsed(pa.table({"n": numbers}))
    read = [fastavro.schemaless_reader(io.BytesIO(row), schema, None) for row in rows]
    assert read == [{"n": number} for number in range(40_000)]


def test_negative_zero_decimals_are_plain_zero() -> None:
    table = pa.table({"d": pa.array([Decimal("-0.00"), Decimal("0.00")], pa.decimal128(10, 2))})
    assert encoded(table) == [b"\x02" + bytes(5)] * 2


def test_special_doubles_keep_their_bits() -> None:
    special = [math.nan, math.inf, -math.inf, -0.0]
    table = pa.table({"x": pa.array(special)})
    assert encoded(table) == [b"\x02" + struct.pack("<d", value) for value in special]


def test_nulls_in_a_required_column_are_refused_by_name() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = pa.Table.from_arrays([pa.array([1, None, 3])], schema=schema)
    with pytest.raises(SchemaError, match=r"'id' is not nullable but has 1 nulls"):
        encoded(table)


def test_a_null_list_hiding_items_is_a_null() -> None:
    hiding = pa.ListArray.from_arrays(pa.array([0, 2, 3]), pa.array([7, 8, 9]), mask=pa.array([True, False]))
    assert encoded(pa.table({"l": hiding})) == [b"\x00", b"\x02\x02\x02\x12\x00"]


def test_a_table_without_rows_has_no_datums() -> None:
    assert encoded(pa.table({"n": pa.array([], pa.int64())})) == []
