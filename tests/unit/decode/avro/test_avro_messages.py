"""Blocks of Avro messages become rows and verdicts, each message one of both, however odd its neighbours are."""

from __future__ import annotations

import io
import json
import pickle
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.decoder import AvroDecoder
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_record
from bucketingest.decode.rows import Decoded
from support.decoding.avro_messages import AvroMessages, as_text

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
    return AvroDecoder(as_text(schema), columns_of(read_record(as_text(schema))), header)


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
    refused = decode(*messages, schema=logical).refused
    assert {each.why for each in refused} <= {HEADER}
    assert len(refused) <= 3, "hardly any is also one behind a header"
    messages = [message for at, message in enumerate(messages) if at not in {each.number for each in refused}]
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


HEADER = (
    "byte 1: it is a message behind Confluent's header of five bytes: "
    "format.registry or format.confluentSchemaId says so"
)
DECIMAL_64 = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 2}
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
    "a number of more bytes than it needs": ("int", b"\x82\x80\x00", 1),
    "a branch of more bytes than it needs": (["null", "int"], b"\x82\x00\x04", 2),
    "a key twice": ({"type": "map", "values": "int"}, b"\x04\x02k\x02\x02k\x04\x00", [("k", 2)]),
    "a wrong size in front of a block": ({"type": "array", "items": "int"}, b"\x01\x7e\x02\x02\x04\x00", [1, 2]),
    "a zero byte of its own": ("string", b"\x00", ""),
    "five bytes that are no header": ("string", b"\x0c\x00\x00\x00\x00\x00\x00", "\x00" * 6),
    "a decimal of a type with more digits": (DECIMAL_64, b"\x04\x30\x39", Decimal("123.45")),
    "the first of several types": (["null", "string", "int"], b"\x02\x02a", {"member0": "a", "member1": None}),
    "the second of several types": (["null", "string", "int"], b"\x04\x06", {"member0": None, "member1": 3}),
    "none of several types": (["null", "string", "int"], b"\x00", None),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_odd_and_sure_is_taken(what: str) -> None:
    kind, message, expected = ODD[what]
    assert value(kind, message) == expected


LUCK: dict[str, tuple[Any, bytes, str]] = {
    "bytes are left over": ("int", b"\x02rest", "byte 2: 4 bytes are left over behind the last field"),
    "a true that is not 1": ("boolean", b"\x02", "field x, byte 1: a boolean of the byte 02"),
    "bits beyond the 32nd": ("int", b"\x82\x80\x80\x80\x70", "field x, byte 1: an int has more than 32 bits"),
    "bits beyond the 64th": ("long", b"\x82" + b"\x80" * 8 + b"\x7e", "field x, byte 1: a long has more than 64 bits"),
    "JSON": ("int", b'{"id": 1}', "byte 2: 8 bytes are left over behind the last field"),
    "a header": ("string", b"\x00\x00\x00\x00\x07\x02a", HEADER),
    "a header and a body, also without it": (
        {"type": "fixed", "name": "F", "size": 5},
        b"\x00\x00\x00\x00\x07" + b"abcde",
        HEADER,
    ),
    "a decimal of more digits than a column": (
        DECIMAL_64,
        b"\x22" + b"\x7f" * 17,
        "field x, byte 1: a number of 17 bytes does not fit into DECIMAL(38,2)",
    ),
    "a branch that several types lack": (["null", "string", "int"], b"\x06", "field x, byte 1: a union of 3 has no"),
}


@pytest.mark.parametrize("what", LUCK)
def test_what_would_decode_by_luck_only_is_refused(what: str) -> None:
    kind, message, reason = LUCK[what]
    assert why(message, record(kind)).startswith(reason)
    among = decode(*[message] * 20, schema=record(kind))
    assert (among.rows.num_rows, {each.why for each in among.refused}) == (0, {why(message, record(kind))})


def test_a_row_that_is_also_one_behind_a_header_is_refused() -> None:
    fields = [{"name": name, "type": "bytes"} for name in "abc"]
    array = {"name": "list", "type": {"type": "array", "items": "int"}}
    schema = {"type": "record", "name": "R", "fields": [array, *fields]}
    start = b"\x00\x00\x00\x0a\x07"  # an empty list, two empty texts, one of five bytes; or the header of schema 2567
    assert why(start + b"\x00\x00\x00\x00", schema) == HEADER
    plain = decode(start + b"abcd", *[start + b"\x00\x00\x00\x00"] * 9, schema=schema)
    assert plain.rows.to_pylist() == [{"list": [], "a": b"", "b": b"", "c": b"\x07abcd"}]
    assert decoder(schema, b"\x00\x00\x00\x0a\x07").decode(pa.array([start + b"\x00" * 4], pa.binary())).refused == []


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
    json.dumps(record("null")): "has the type null in field x",
    json.dumps(record({"type": "null"})): "has the type null in field x",
    json.dumps(record(["null"])): "has a union without a type in field x",
    json.dumps(record(["null", "R"])): "has the type R inside itself, which no column can be, in field x",
    json.dumps(
        record({"type": "array", "items": "R"})
    ): "has the type R inside itself, which no column can be, in field x",
    json.dumps(record("Unknown")): "has the type Unknown, which is not defined, in field x",
    json.dumps(record({"type": "fixed", "name": "F", "size": 0})): "has the type F of no bytes in field x",
    json.dumps(record({"type": "record", "name": "I", "fields": []})): "has a record without fields in field x",
    json.dumps(record({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 39})): (
        "has a decimal with 39 digits behind the point, and no column more than 38 in field x"
    ),
    json.dumps(record({"type": "record", "name": "I", "fields": [{"name": n, "type": "int"} for n in ("a", "A")]})): (
        "has the columns a and A, which differ in case only: Spark cannot tell them apart in field x"
    ),
}


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_schema_that_has_no_columns_says_which_field(text: str) -> None:
    with pytest.raises(UnreadableSchema) as caught:
        read_record(text)
    assert str(caught.value) == UNREADABLE[text]


def test_with_a_registry_a_union_of_several_types_is_no_column() -> None:
    with pytest.raises(UnreadableSchema, match="has a union of several types in field x"):
        read_reader(json.dumps(record(["null", "int", "string"])))


def test_names_are_found_in_their_namespace() -> None:
    inner = {"type": "enum", "name": "Kind", "symbols": ["A"], "doc": "d", "connect.name": "n"}
    fields = [{"name": "a", "type": inner}, {"name": "b", "type": "Kind"}, {"name": "c", "type": ["null", "x.y.Kind"]}]
    schema = {"type": "record", "name": "R", "namespace": "x.y", "aliases": ["Old"], "fields": fields}
    found = read_record(json.dumps(schema))
    assert [field["type"] for field in found["fields"]] == [inner, inner, ["null", inner]]
