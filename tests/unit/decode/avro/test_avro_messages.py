"""Blocks of Avro messages become rows and verdicts, each message one of both, however odd its neighbours are."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import differing
from bucketingest.decode.avro.decoder import AvroDecoder
from bucketingest.decode.avro.schema import UnreadableSchema, read_fields
from bucketingest.decode.rows import Decoded
from support.decoding.avro_messages import AvroMessages, as_text
from support.decoding.spark_columns import spark_columns

LINE = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}, {"name": "n", "type": "int"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "paid", "type": "boolean"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "lines", "type": {"type": "array", "items": LINE}},
        {"name": "more", "type": {"type": "map", "values": "int"}},
    ],
}
AFTER_ID = b"\x01" + b"\x04\x01\x00" + b"\x00" + b"\x02" + b"\x02\x02a\x06\x00" + b"\x02\x02k\x0e\x00"
"""True, 2.56, null, OLD, one line (a, 3), one entry (k, 7)."""


def good(number: int) -> bytes:
    name = b"k%d" % number
    return bytes([2 * len(name)]) + name + AFTER_ID


GOOD = [good(number) for number in range(300)]


def decoder(schema: dict[str, Any] = ORDER, header: bytes = b"") -> AvroDecoder:
    return AvroDecoder(as_text(schema), spark_columns(schema), header)


def decode(*messages: bytes | None, schema: dict[str, Any] = ORDER) -> Decoded:
    return decoder(schema).decode(pa.array(messages, pa.binary()))


def record(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind}]}


def why(message: bytes | None, schema: dict[str, Any] = ORDER) -> str:
    decoded = decode(message, schema=schema)
    assert decoded.rows.num_rows == 0
    (refused,) = decoded.refused
    return refused.why


def value(kind: Any, message: bytes) -> Any:
    decoded = decode(message, schema=record(kind))
    assert decoded.refused == []
    return decoded.rows.column("x")[0].as_py()


def test_good_messages_are_decoded_at_once_with_every_value() -> None:
    decoded = decode(*GOOD)
    assert (decoded.one_by_one, decoded.refused) == (0, [])
    assert decoded.rows.column("id").to_pylist() == [f"k{number}" for number in range(300)]
    assert {name: str(found) for name, found in decoded.rows.to_pylist()[7].items()} == {
        "id": "k7",
        "paid": "True",
        "amount": "2.56",
        "at": "None",
        "kind": "OLD",
        "lines": "[{'sku': 'a', 'n': 3}]",
        "more": "[('k', 7)]",
    }


@pytest.mark.parametrize("seed", range(8))
def test_any_good_message_is_decoded_as_fastavro_decodes_it(seed: int) -> None:
    source = AvroMessages(seed)
    logical = source.schema()
    messages = source.take(logical, 300, well_formed=True)
    assert decode(*messages, schema=logical).refused == []
    schema = physical(logical)  # Python lacks the oddest times
    parsed = fastavro.parse_schema(schema)
    expected: Any = [fastavro.schemaless_reader(io.BytesIO(message or b""), parsed, None) for message in messages]
    found = decode(*messages, schema=schema).rows.to_pylist()
    assert [comparable(row) for row in found] == [comparable(row) for row in expected]


def physical(schema: Any) -> Any:
    """The schema without logical types."""
    if isinstance(schema, list):
        return [physical(branch) for branch in schema]
    if isinstance(schema, dict):
        return {
            name: physical(part) for name, part in schema.items() if name not in {"logicalType", "precision", "scale"}
        }
    return schema


def comparable(found: Any) -> Any:
    if isinstance(found, dict):
        return sorted((name, repr(comparable(part))) for name, part in found.items())
    if isinstance(found, list) and found and isinstance(found[0], tuple):
        return sorted((name, repr(comparable(part))) for name, part in found)
    if isinstance(found, list):
        return [comparable(part) for part in found] if found else []
    return repr(found)


REFUSED = {
    b"": "field id, byte 1: the message ends within a long",
    b"\x06ab": "field id, byte 1: the message ends within a value of 3 bytes",
    b"\x01": "field id, byte 1: a length of -1 bytes",
    b"\x04a\xff" + AFTER_ID: "field id, byte 3: a byte that is not UTF-8",
    b"\xff" * 30: "field id, byte 1: a long has more than 10 bytes",
    b"\x02a\x01\x00": "field amount, byte 4: a decimal of no bytes",
    b"\x02a\x01\x06\x7f\xff\xff": "field amount, byte 4: a number of 3 bytes does not fit into DECIMAL(5,2)",
    b"\x02a\x01\x02\x05\x04": "field at, byte 6: a union of 2 has no branch 2",
    b"\x02a\x01\x02\x05\x02" + b"\xff" * 9 + b"\x00": "field at, byte 7: -4611686018427387904 milliseconds do not fit",
    b"\x02a\x01\x02\x05\x00\x04": "field kind, byte 7: an enum of 2 has no symbol 2",
    b"\x02a\x01\x02\x05\x00\x02\x04\x02a\x06\x02b": "field lines[1].n, byte 14: the message ends within an int",
    b"\x02a\x01\x02\x05\x00\x02\x00\x02\x02k": "field more['k'], byte 12: the message ends within an int",
    b"\x02a\x01\x02\x05\x00\x02\x80\x80\x80\x80\x10": "field lines, byte 8: the message ends within a block of",
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_refused_message_says_which_byte_of_which_field(message: bytes) -> None:
    assert why(message).startswith(REFUSED[message])


def test_refused_messages_do_not_disturb_their_neighbours() -> None:
    bad: list[bytes | None] = [*REFUSED, None]
    messages = [each for pair in zip(GOOD, bad * 25, strict=False) for each in pair]
    decoded = decode(*messages)
    assert [each.number for each in decoded.refused] == list(range(1, len(messages), 2))
    assert decoded.rows.column("id").to_pylist() == [f"k{number}" for number in range(len(messages) // 2)]
    assert decoded.rows.column("more").to_pylist() == [[("k", 7)]] * (len(messages) // 2)
    assert {each.why for each in decoded.refused if messages[each.number] is None} == {""}
    sliced = decoder().decode(pa.array(messages, pa.binary())[5:-3])
    assert sliced.rows.num_rows == (len(messages) - 8) // 2


ODD: dict[str, tuple[Any, bytes, Any]] = {
    "what follows is left out": ("int", b"\x02rest", 1),
    "a true that is not 1 is false": ("boolean", b"\x02", False),
    "a number of more bytes than it needs": ("int", b"\x82\x80\x00", 1),
    "bits of an int beyond the 32nd": ("int", b"\x82\x80\x80\x80\x70", 1),
    "bits of a long beyond the 64th": ("long", b"\x82" + b"\x80" * 8 + b"\x7e", 1),
    "a branch of more bytes than it needs": (["null", "int"], b"\x82\x00\x04", 2),
    "a key twice": ({"type": "map", "values": "int"}, b"\x04\x02k\x02\x02k\x04\x00", [("k", 2)]),
    "a wrong size in front of a block": ({"type": "array", "items": "int"}, b"\x01\x7e\x02\x02\x04\x00", [1, 2]),
}


@pytest.mark.parametrize("what", ODD)
def test_what_java_takes_is_taken(what: str) -> None:
    kind, message, expected = ODD[what]
    assert value(kind, message) == expected


def test_long_arrays_are_decoded_by_themselves() -> None:
    schema = record({"type": "array", "items": "int"})
    long = b"\x90\x4e" + b"\x02" * 5000 + b"\x00"
    decoded = decode(*[b"\x02\x08\x00"] * 50, long, schema=schema)
    assert decoded.one_by_one == 1
    assert [len(each) for each in decoded.rows.column("x").to_pylist()] == [1] * 50 + [5000]


def test_the_header_is_taken_off_and_any_other_is_named() -> None:
    header = b"\x00\x00\x00\x01\x2c"
    pickled = pickle.loads(pickle.dumps(decoder(header=header)))
    others = [b"\x00\x00\x00\x01\x2d" + good(1), good(2), header[:3], b"", header]
    decoded = pickled.decode(pa.array([header + good(0), *others, header + good(3)], pa.binary()))
    assert decoded.rows.column("id").to_pylist() == ["k0", "k3"]
    assert [each.why for each in decoded.refused] == [
        "byte 1: the header is 000000012d, not 000000012c",
        f"byte 1: the header is {good(2)[:5].hex()}, not 000000012c",
        "byte 1: the header is 000000, not 000000012c",
        "byte 1: the header is nothing, not 000000012c",
        "field id, byte 6: the message ends within a long",
    ]


@pytest.mark.parametrize("seed", range(8))
def test_together_and_alone_messages_are_the_same(seed: int) -> None:
    source = AvroMessages(seed)
    schema = physical(source.schema())
    messages = source.take(schema, 100)
    together = decode(*messages, schema=schema)
    together.rows.validate(full=True)
    rows, refused = iter(together.rows.to_pylist()), {each.number: each.why for each in together.refused}
    for number, message in enumerate(messages):
        alone = decode(message, schema=schema)
        assert [each.why for each in alone.refused] == ([refused[number]] if number in refused else [])
        assert [repr(row) for row in alone.rows.to_pylist()] == ([] if number in refused else [repr(next(rows))])


UNREADABLE = {
    "{": "is no JSON",
    '"string"': "is not a record",
    '{"type": "record", "name": "r"}': "is no Avro schema",
    json.dumps(record("null")): "has the type null",
    json.dumps(record({"type": "null"})): "has the type null",
    json.dumps(record(["null", "int", "string"])): "has a union of other than null and one type",
    json.dumps(record(["null", "R"])): "has the type R inside itself",
    json.dumps(record("Unknown")): "has the type Unknown",
    json.dumps(record({"type": "int", "catalystType": "x"})): "has the attribute catalystType",
    json.dumps(record({"type": "fixed", "name": "F", "size": 0})): "has the type F of no bytes",
    json.dumps(record({"type": "record", "name": "I", "fields": []})): "has a record without fields",
    json.dumps(record("int") | {"aliases": ["x"]}): "has the alias x, which is also a name",
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_schema_that_is_left_to_spark_says_why(text: str) -> None:
    with pytest.raises(UnreadableSchema) as caught:
        read_fields(text)
    assert str(caught.value) == UNREADABLE[text]


def test_names_are_found_in_their_namespace() -> None:
    inner = {"type": "enum", "name": "Kind", "symbols": ["A"], "doc": "d", "connect.name": "n"}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "Kind"}, {"name": "c", "type": ["null", "x.y.Kind"]}]
    schema = {"type": "record", "name": "R", "namespace": "x.y", "aliases": ["Old"], "fields": fields}
    found = read_fields(json.dumps(schema))
    assert [field["type"] for field in found] == [inner, inner, ["null", inner]]


def test_columns_that_spark_makes_otherwise_are_noticed() -> None:
    fields = read_fields(json.dumps(ORDER))
    columns = spark_columns(ORDER)
    assert differing(fields, columns) is None
    assert differing(fields, columns.set(3, pa.field("at", pa.int64()))) == "int64"
    assert differing(fields, columns.set(2, pa.field("amount", pa.decimal128(6, 2)))) == "decimal128(6, 2)"
    assert differing(fields, columns.remove(0)) == "other columns"
