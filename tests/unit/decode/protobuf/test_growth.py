"""Columns of a registry's Protobuf schemas grow by the rules of all formats; each message is read as its own schema."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.growth import grown, left_out, lenient
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader
from bucketingest.decode.protobuf.compiled import compiled
from bucketingest.decode.protobuf.descriptors import descriptor_of
from bucketingest.decode.protobuf.registered import RegisteredProtobufDecoder, columns_text
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.decode.rows import Decoded

NAME = "shop.Order"


def schema(fields: str, more: str = "") -> str:
    times = 'import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";'
    return compiled(f'syntax = "proto3"; package shop; {times} message Order {{ string id = 1; {fields} }} {more}', {})


def reader_of(*descriptors: str) -> str:
    """The schema of the columns after messages of these came."""
    text = lenient(columns_text(descriptors[0], NAME))
    for each in descriptors[1:]:
        known = RegisteredProtobufDecoder(NAME, columns_of(read_reader(text)), {}, text)
        text, _ = grown(text, known.columns_in(WriterSchema(each)))
    return text


def kinds(text: str) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in columns_of(read_reader(text))}


def message(descriptors: str, schema_id: int, **values: Any) -> bytes:
    made = message_factory.GetMessageClass(descriptor_of(descriptors, NAME))(**values)
    return b"\0" + schema_id.to_bytes(4, "big") + b"\0" + made.SerializeToString()


def decoded(text: str, known: dict[int, str], *messages: bytes) -> Decoded:
    columns = columns_of(read_reader(text))
    found = RegisteredProtobufDecoder(NAME, columns, {}, text)
    found = found.knowing({number: WriterSchema(each) for number, each in known.items()})
    return pickle.loads(pickle.dumps(found)).decode(pa.array(messages, pa.binary()))


def test_each_type_is_the_column_that_a_table_can_have() -> None:
    text = reader_of(
        schema(
            """uint32 u = 2; sint64 s = 3; bool b = 4; float f = 5; double d = 6; bytes raw = 7; Kind kind = 8;
            google.protobuf.Timestamp at = 9; google.protobuf.Duration took = 10; repeated Line lines = 11;
            map<int32, Line> by_number = 12; map<bool, string> flags = 13;
            oneof one { string x = 14; int32 y = 15; }""",
            "enum Kind { NONE = 0; NEW = 1; } message Line { int32 n = 1; }",
        )
    )
    line = pa.struct([("n", pa.int32())])
    assert kinds(text) == {
        "id": pa.string(),
        "u": pa.int32(),
        "s": pa.int64(),
        "b": pa.bool_(),
        "f": pa.float32(),
        "d": pa.float64(),
        "raw": pa.binary(),
        "kind": pa.string(),
        "at": pa.timestamp("us", "UTC"),
        "took": pa.int64(),
        "lines": pa.list_(pa.field("element", line)),
        "by_number": pa.map_(pa.string(), line),
        "flags": pa.map_(pa.string(), pa.string()),
        "x": pa.string(),
        "y": pa.int32(),
    }


def test_old_and_new_producers_are_read_as_the_union_of_their_fields() -> None:
    old = schema("int32 n = 2; Line line = 3; repeated Line lines = 4;", "message Line { int32 x = 1; }")
    new = schema(
        "int64 n = 2; Line line = 3; repeated Line lines = 4; Place at = 5; google.protobuf.Duration took = 6;"
        "map<int32, int64> counts = 7; google.protobuf.Timestamp when = 8;",
        "message Line { int64 x = 1; string sku = 2; } message Place { double y = 1; }",
    )
    text, changed = grown(reader_of(old), columns_text(new, NAME))
    assert changed == (
        "n",
        "line.x",
        "line.sku",
        "lines.element.x",
        "lines.element.sku",
        "at",
        "took",
        "counts",
        "when",
    )
    assert grown(text, columns_text(old, NAME)) == (text, ())
    found = decoded(
        text,
        {7: old, 8: new},
        message(old, 7, id="a", n=-1, line={"x": 1}, lines=[{"x": 2}, {}]),
        message(
            new,
            8,
            id="b",
            n=2**40,
            line={"x": 2**41, "sku": "s"},
            at={"y": 0.5},
            took={"seconds": 2, "nanos": 1000},
            counts={5: 6},
            when={"seconds": 3},
        ),
        message(old, 7, id="c"),
    )
    assert found.refused == []
    a, b, c = found.rows.to_pylist()
    none = dict.fromkeys(["at", "took", "counts", "when"])
    lines = [{"x": 2, "sku": None}, {"x": None, "sku": None}]
    assert a == {"id": "a", "n": -1, "line": {"x": 1, "sku": None}, "lines": lines, **none}
    when = datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
    line = {"x": 2**41, "sku": "s"}
    expected = {"n": 2**40, "line": line, "lines": [], "at": {"y": 0.5}, "took": 2_000_001, "counts": [("5", 6)]}
    assert b == {"id": "b", **expected, "when": when}
    assert c == {"id": "c", "n": None, "line": None, "lines": [], **none}


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("int64 n = 2;", "string n = 2;", "field n is string and cannot be read as long"),
        ("string n = 2;", "Line n = 2;", "field n is record and cannot be read as string"),
        ("int64 n = 2;", "double n = 3;", "field n is double and cannot be read as long"),
        ("int32 n = 2;", "repeated int32 n = 2;", "field n is array and cannot be read as int"),
    ],
)
def test_a_type_that_is_no_wider_one_is_refused_by_its_name_and_others_go_on(one: str, other: str, why: str) -> None:
    line = "message Line { int32 x = 1; }"
    old, new = schema(one, line), schema(other, line)
    text = reader_of(old, new)
    assert text == reader_of(old)
    found = decoded(text, {7: old, 8: new}, message(old, 7, id="a"), message(new, 8, id="b"))
    assert found.rows.column("id").to_pylist() == ["a"]
    assert [each.why for each in found.refused] == [f"byte 2: schema 8 cannot be read with the table's: {why}"]


@pytest.mark.parametrize("odd", [b"", b"\xa3\x06\xa4\x06"], ids=["in bulk", "with a group"])
def test_a_single_value_is_an_array_of_one_and_a_bool_a_number(odd: bytes) -> None:
    """Where the columns are so: registries take the change, and the topic still has messages of before."""
    old = schema(
        "string s = 2; Line line = 3; bytes raw = 4; oneof one { string t = 5; bool b = 6; }"
        "repeated bool r = 7; map<string, bool> m = 8;",
        "message Line { int32 x = 1; }",
    )
    new = schema(
        "repeated string s = 2; repeated Line line = 3; repeated bytes raw = 4; repeated string t = 5; int64 b = 6;"
        "repeated int32 r = 7; map<string, uint32> m = 8;",
        "message Line { int64 x = 1; int32 y = 2; }",
    )
    messages = [
        message(old, 7, id="a", s="x", line={"x": 1}, raw=b"r", b=True, r=[True, False], m={"k": True}) + odd,
        message(old, 7, id="b", t="t") + odd,
        message(new, 8, id="c", s=["x", "y"], line=[{"y": 2}, {}], t=["z"], b=2**40, r=[7]) + odd,
    ]
    for text in (reader_of(new, old), reader_of(new)):
        found = decoded(text, {7: old, 8: new}, *messages)
        assert (found.refused, found.one_by_one) == ([], 3 * bool(odd))
        none = {"x": None, "y": None}
        assert [tuple(each.values()) for each in found.rows.to_pylist()] == [
            ("a", ["x"], [{"x": 1, "y": None}], [b"r"], [], 1, [1, 0], [("k", 1)]),
            ("b", [], [], [], ["t"], None, [], []),
            ("c", ["x", "y"], [{**none, "y": 2}, none], [], ["z"], 2**40, [7], []),
        ]
    text = reader_of(old, new)
    assert text == reader_of(old)
    (refused,) = decoded(text, {8: new}, message(new, 8, id="c")).refused
    assert (
        refused.why == "byte 2: schema 8 cannot be read with the table's: field s is array and cannot be read as string"
    )


@pytest.mark.parametrize("around", ["{} n = 2;", "repeated {} n = 2;", "map<string, {}> n = 2;", "Line n = 2;"])
def test_a_number_is_no_time_and_a_time_is_no_number(around: str) -> None:
    """Nobody knows what it counts: its messages were times that the producer did not mean."""
    kinds = "int64", "google.protobuf.Timestamp"
    both = [schema(around.format(kind), f"message Line {{ {kind} at = 1; }}") for kind in kinds]
    place = "n.at" if around.startswith("Line") else "n"
    whys = "timestamp and cannot be read as int64", "int64 and cannot be read as timestamp"
    for (old, new), why in zip((both, both[::-1]), whys, strict=True):
        text = reader_of(old, new)
        assert text == reader_of(old)
        found = decoded(text, {7: old, 8: new}, message(old, 7, id="a"), message(new, 8, id="b"))
        assert found.rows.column("id").to_pylist() == ["a"]
        (refused,) = found.refused
        assert refused.why == f"byte 2: schema 8 cannot be read with the table's: field {place} is {why}"


def test_a_number_that_is_used_again_and_a_name_that_moves_are_what_their_own_schema_says() -> None:
    """Read by the numbers of the newest, `note` of old messages would be a `total`, and the moved `n` be lost."""
    old, new = schema("string note = 2; int32 n = 3;"), schema("string total = 2; int32 n = 4;")
    for text in (reader_of(old, new), reader_of(new, old)):
        found = decoded(text, {7: old, 8: new}, message(old, 7, id="a", note="x", n=1), message(new, 8, id="b", n=2))
        a, b = found.rows.to_pylist()
        assert a == {"id": "a", "note": "x", "n": 1, "total": None}
        assert b == {"id": "b", "note": None, "n": 2, "total": None}


def test_a_float_column_that_became_double_keeps_its_text_and_a_number_that_it_would_round_is_a_dead_letter() -> None:
    known = {7: schema("float v = 2;"), 8: schema("double v = 3;"), 9: schema("int64 v = 4;")}
    text = reader_of(known[7], known[8])
    assert kinds(text)["v"] == pa.float64()
    rounded = 2**53 + 1
    messages = [message(known[7], 7, id="a", v=0.1), message(known[8], 8, id="b", v=0.1)]
    messages += [message(known[9], 9, id=str(each), v=each) for each in (2**60, rounded, -(2**53))]
    found = decoded(text, known, *messages)
    assert found.rows.column("v").to_pylist() == [0.1, 0.1, float(2**60), -(2.0**53)]
    assert [(each.number, each.why) for each in found.refused] == [
        (3, f"schema 9, field v: {rounded} has more digits than a double keeps")
    ]


@pytest.mark.parametrize("unsigned", ["uint32", "fixed32"])
@pytest.mark.parametrize("odd", [b"", b"\xa3\x06\xa4\x06"], ids=["in bulk", "with a group"])
def test_an_unsigned_number_of_32_bits_is_that_number_where_a_column_has_room(unsigned: str, odd: bytes) -> None:
    """As INT it is negative; beside messages whose schema says uint64 it would be another number."""
    old = schema(f"{unsigned} n = 2; repeated {unsigned} many = 3; Line line = 4; map<{unsigned}, {unsigned}> map = 5;"
                 f"{unsigned} d = 6; {unsigned} same = 7;", f"message Line {{ {unsigned} n = 1; }}")  # fmt: skip
    new = schema("uint64 n = 2; repeated uint64 many = 3; Line line = 4; map<uint64, uint64> map = 5; double d = 6;"
                 "int32 same = 7;", "message Line { int64 n = 1; }")  # fmt: skip
    most = 2**32 - 1
    values: dict[str, Any] = {"n": most, "many": [1, most], "line": {"n": most}, "map": {most: most}, "d": most}
    messages = [message(old, 7, id="a", same=most, **values) + odd, message(new, 8, id="a", same=-1, **values) + odd]
    for text in (reader_of(old, new), reader_of(new, old)):
        found = decoded(text, {7: old, 8: new}, *messages)
        assert found.refused == []
        assert found.one_by_one == 2 * bool(odd)
        one, other = found.rows.to_pylist()
        assert one == other == {"id": "a", **values, "map": [(str(most), most)], "same": -1}


@pytest.mark.parametrize("unsigned", ["uint64", "fixed64"])
@pytest.mark.parametrize("odd", [b"", b"\xa3\x06\xa4\x06"], ids=["in bulk", "with a group"])
def test_an_unsigned_number_of_64_bits_is_that_number_in_a_double_and_in_a_maps_key_or_none(
    unsigned: str, odd: bytes
) -> None:
    """As BIGINT it is negative."""
    first = schema("double d = 2; repeated double many = 3; map<string, double> map = 4;")
    more = f"{unsigned} d = 2; repeated {unsigned} many = 3; map<{unsigned}, {unsigned}> map = 4; {unsigned} n = 5;"
    other = schema(more)
    text = reader_of(first, other)
    large, kept = 2**64 - 1, [0, 2**53, 2**63, 2**64 - 2**11]
    messages = [
        message(other, 8, id="a", d=2**63, many=kept, map={large: 2**63}, n=large) + odd,
        message(other, 8, id="b", d=large) + odd,
        message(other, 8, id="c", map={1: large}) + odd,
    ]
    found = decoded(text, {8: other}, *messages)
    assert found.rows.to_pylist() == [
        {"id": "a", "d": 2.0**63, "many": [float(each) for each in kept], "map": [(str(large), 2.0**63)], "n": -1}
    ]
    assert [(each.number, each.why) for each in found.refused] == [
        (1, f"schema 8, field d: {large} has more digits than a double keeps"),
        (2, f"schema 8, field map: {large} has more digits than a double keeps"),
    ]


@pytest.mark.parametrize(
    ("fields", "more", "left"),
    [
        ("Node node = 2;", "message Node { Node next = 1; string x = 2; }", ("node",)),
        ("map<string, Node> nodes = 2;", "message Node { Node next = 1; string x = 2; }", ("nodes",)),
        ("string ID = 2;", "", ("ID",)),
        ("Node node = 2;", "message Node { Node next = 1; }", ("node",)),
        ("repeated Node nodes = 2;", "message Node { Node next = 1; }", ("nodes",)),
    ],
)
def test_a_field_that_can_be_no_column_is_left_out_while_the_job_runs(
    fields: str, more: str, left: tuple[str, ...]
) -> None:
    old, new = schema(""), schema(f"{fields} string fine = 9;", more)
    text = reader_of(old, new)
    assert list(kinds(text)) == ["id", "fine"]
    assert left_out(text, columns_text(new, NAME)) == left
    with pytest.raises(UnreadableSchema, match=r"inside itself|case"):
        lenient(columns_text(new, NAME))
    found = decoded(text, {7: new}, message(new, 7, id="a", fine="f"))
    assert found.rows.to_pylist() == [{"id": "a", "fine": "f"}]


def test_what_has_none_of_the_columns_is_refused() -> None:
    other = compiled('syntax = "proto3"; package shop; message Order { string x = 1; }', {})
    text = reader_of(schema(""))
    (refused,) = decoded(text, {7: other}, b"\0\0\0\0\x07\0").refused
    assert refused.why == "byte 2: schema 7 has no column in shop.Order"
    with pytest.raises(UnreadableSchema, match=r"has no message shop.Order, but shop.Other"):
        columns_text(compiled('syntax = "proto3"; package shop; message Other { string x = 1; }', {}), NAME)


def test_a_record_that_shares_no_field_is_null() -> None:
    old = schema("Line line = 2;", "message Line { int32 x = 1; }")
    new = schema("Line line = 2; string s = 3;", "message Line { int32 y = 1; }")
    found = decoded(reader_of(old), {8: new}, message(new, 8, id="a", line={"y": 1}))
    assert found.rows.to_pylist() == [{"id": "a", "line": None}]
    assert json.loads(columns_text(new, NAME))["fields"][1]["name"] == "line"
