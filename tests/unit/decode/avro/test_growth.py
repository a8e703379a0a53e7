"""The columns' schema is the union of the messages' schemas."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.growth import grown, lenient
from bucketingest.decode.avro.schema import read_reader
from support.decoding.registered_avro import decode, decoder, encoded


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


ID = {"name": "id", "type": "string"}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}


def columns(text: str) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in columns_of(read_reader(text))}


def test_new_fields_are_columns_behind_the_others() -> None:
    writer = record(
        {"name": "note", "type": ["null", "string"], "default": None},
        ID,
        {"name": "from", "type": PLACE},
        {"name": "to", "type": "Place"},
        {"name": "n", "type": "long", "default": 7},
    )
    text, added = grown(record(ID, {"name": "gone", "type": "int"}), writer)
    assert added == ("note", "from", "to", "n")
    place = pa.struct([("x", pa.int32())])
    kinds = {"id": pa.string(), "gone": pa.int32(), "note": pa.string(), "from": place, "to": place, "n": pa.int64()}
    assert columns(text) == kinds
    assert list(columns(text)) == list(kinds)
    assert grown(text, writer) == (text, ())
    assert grown(text, record(ID)) == (text, ())


@pytest.mark.parametrize(
    "field",
    [
        {"name": "ID", "type": "string"},
        {"name": "id", "type": "long"},
        {"name": "nickname", "type": "string"},
        {"name": "any", "type": ["int", "string"]},
        {"name": "nothing", "type": "null"},
        {"name": "odd", "type": {"type": "record", "name": "Odd", "fields": []}},
    ],
)
def test_what_is_no_new_column_is_left_out(field: dict[str, Any]) -> None:
    reader = record(ID, {"name": "name", "type": "string", "aliases": ["nickname"]})
    assert grown(reader, record(field))[1] == ()


def test_what_a_message_lacks_is_null_or_its_default() -> None:
    reader = lenient(record(ID, {"name": "gone", "type": "int"}, {"name": "n", "type": "int", "default": 7}))
    old, new = record(ID, {"name": "gone", "type": "int"}), record(ID, {"name": "note", "type": "string"})
    reader, added = grown(reader, new)
    assert added == ("note",)
    found = decoder(json.loads(reader), {1: json.loads(old), 2: json.loads(new)})
    messages = [
        encoded(json.loads(old), {"id": "a", "gone": 3}, 1),
        encoded(json.loads(new), {"id": "b", "note": "x"}, 2),
    ]
    assert decode(found, *messages).rows.to_pylist() == [
        {"id": "a", "gone": 3, "n": 7, "note": None},
        {"id": "b", "gone": None, "n": 7, "note": "x"},
    ]
