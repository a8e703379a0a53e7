"""Avro's schema resolution: what a writer wrote, read as the table's schema says."""

from __future__ import annotations

import io
import os
from typing import Any

import fastavro
import numpy as np
import pytest

from bucketingest.decode.registered.wire_format import WriterSchema
from support.decoding.avro_messages import AvroMessages
from support.decoding.evolved_schemas import EvolvedSchemas, without_logical_types
from support.decoding.registered_avro import NEW, OLD, decode, decoder, encoded, header, record, why

DATE, MILLIS, MICROS = (
    {"type": kind, "logicalType": name}
    for kind, name in (("int", "date"), ("long", "timestamp-millis"), ("long", "timestamp-micros"))
)
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.parametrize(
    ("writer", "reader", "given", "expected"),
    [
        ("int", "long", -7, -7),
        ("int", "double", 2**31 - 1, float(2**31 - 1)),
        ("long", "float", 2**24 + 1, float(2**24)),
        # Rounded once: by way of a double the number would become 2**60.
        ("long", "float", 2**60 + 2**36 + 1, float(2**60 + 2**37)),
        ("float", "double", 0.5, 0.5),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", b"plain", "plain"),
        ("int", ["null", "long"], 3, 3),
        (["int", "null"], ["null", "long"], None, None),
        (["null", "int"], "long", 4, 4),
        ("null", ["null", "string"], None, None),
        ("long", MICROS, 5, "1970-01-01 00:00:00.000005+00:00"),
        (MILLIS, "long", 5, 5),
        ("int", MILLIS, -1, "1969-12-31 23:59:59.999000+00:00"),
        (MILLIS, MILLIS, 7, "1970-01-01 00:00:00.007000+00:00"),
        (MILLIS, MICROS, 7, "1970-01-01 00:00:00.007000+00:00"),
        (MICROS, MILLIS, 7, "1970-01-01 00:00:00.000007+00:00"),
        (MONEY, MONEY, b"\x01\x00", "2.56"),
        ({**MONEY, "scale": 1}, MONEY, b"\x01\x00", "25.60"),
        ({**MONEY, "scale": 0}, {**MONEY, "precision": 38, "scale": 37}, b"\xf7", f"-9.{'0' * 37}"),
        ("bytes", MONEY, b"\x01\x00", "2.56"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "float"}, [1, 2], [1.0, 2.0]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": ["null", "long"]}, {"a": 1}, [("a", 1)]),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "x.E", "symbols": ["A", "Z"], "default": "Z"},
            "B",
            "Z",
        ),
    ],
)
@pytest.mark.parametrize("doubted", [False, True])
def test_types_are_promoted_in_bulk_and_one_by_one(
    writer: Any, reader: Any, given: Any, expected: Any, *, doubted: bool
) -> None:
    written = without_logical_types(record(writer))  # what is given is the bare value
    message = encoded(written, {"x": given})
    if doubted:  # the same value after a number of more bytes than it needs
        written["fields"].insert(0, {"name": "odd", "type": ["null", "int"]})
        writer_schema = {**record(writer), "fields": [written["fields"][0], *record(writer)["fields"]]}
        message = message[:5] + b"\x80\x00" + message[5:]
    else:
        writer_schema = record(writer)
    decoded = decode(decoder(record(reader), {1: writer_schema}), message)
    assert (decoded.refused, decoded.one_by_one) == ([], int(doubted))
    found = decoded.rows.column("x")[0].as_py()
    assert (str(found) if isinstance(expected, str) and not isinstance(found, str) else found) == expected


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (["null", "int"], None, None),
        (["int", "null"], 3, 3),
        ("bytes", "\u00ff", b"\xff"),
        (MONEY, "\u0001\u0000", "2.56"),
        (MILLIS, 1, "1970-01-01 00:00:00.001000+00:00"),
        (DATE, 1, "1970-01-02"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A", "A"),
        ({"type": "array", "items": "long"}, [1], [1]),
        ({"type": "map", "values": "long"}, {"k": 1}, [("k", 1)]),
        (record("int"), {"x": 4}, {"x": 4}),
    ],
)
def test_a_field_that_the_writer_lacks_has_its_default(kind: Any, default: Any, expected: Any) -> None:
    reader = {**OLD, "fields": [OLD["fields"][0], {"name": "added", "type": kind, "default": default}]}
    rows = [encoded(OLD, {"id": "a", "n": 1, "gone": ""}), header(1) + b"\x82\x00" + b"a" + b"\2\0"]
    decoded = decode(decoder(reader, {1: OLD}), *rows)
    assert (decoded.refused, decoded.one_by_one) == ([], 0)
    for row in decoded.rows.to_pylist():
        found = row["added"]
        assert (str(found) if isinstance(expected, str) else found) == expected


def test_aliases_rename_fields_and_types() -> None:
    inner = {"type": "record", "name": "Line", "fields": [{"name": "sku", "type": "string"}]}
    other = {
        **inner,
        "name": "Item",
        "aliases": ["x.Line"],
        "fields": [{"name": "code", "type": "string", "aliases": ["sku"]}],
    }
    reader = record({"type": "array", "items": other})
    message = encoded(record({"type": "array", "items": inner}), {"x": [{"sku": "a"}, {"sku": "b"}]})
    decoded = decode(decoder(reader, {1: record({"type": "array", "items": inner})}), message)
    assert decoded.rows.to_pylist() == [{"x": [{"code": "a"}, {"code": "b"}]}]


def test_what_the_reader_lacks_may_be_of_any_type() -> None:
    odd = [
        *(
            "null",
            "string",
            "bytes",
            "boolean",
            "int",
            "long",
            "float",
            "double",
            ["null", "int", "string"],
            ["string"],
        ),
        {"type": "enum", "name": "E", "symbols": ["A"]},
        {"type": "fixed", "name": "F", "size": 3},
        {"type": "array", "items": ["int", "string"]},
        {
            "type": "map",
            "values": {"type": "record", "name": "I", "fields": [{"name": "u", "type": ["string", "long"]}]},
        },
        {"type": "record", "name": "Empty", "fields": []},
    ]
    values = [
        *(None, "s", b"\xff", True, 1, 2, 0.5, 0.5, "text", "s", "A", b"abc", [1, "x", 2], {"k": {"u": 7}}, {}),
    ]
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(odd)]
    writer = {"type": "record", "name": "Order", "fields": [*fields, {"name": "n", "type": "int"}], "owner": "me"}
    reader = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "int"}]}
    row = {f"f{number}": each for number, each in enumerate(values)}
    good = [encoded(writer, {**row, "n": number}) for number in range(20)]
    decoded = decode(decoder(reader, {1: writer}), *good, good[0][:-1])
    assert decoded.rows.column("n").to_pylist() == list(range(20))
    assert [each.number for each in decoded.refused] == [20]


LEFT_OUT = "cannot be read with the table's: "


@pytest.mark.parametrize(
    ("writer", "reader", "expected"),
    [
        (record("long"), record("int"), "field x is long and cannot be read as int"),
        (record("string"), record(MONEY), "field x is string and cannot be read as decimal(9,2)"),
        (
            record(MILLIS),
            record({**MICROS, "logicalType": "local-timestamp-micros"}),
            "field x is timestamp-millis, not local",
        ),
        (record({**MONEY, "scale": 3}), record(MONEY), "field x is decimal(9,3), not decimal(9,2)"),
        (record({**MONEY, "scale": 0}), record({**MONEY, "scale": 9}), "field x is decimal(9,0), not decimal(9,9)"),
        (record("int"), {**record("int"), "name": "Other"}, "the record is of the type R, not Other"),
        (record("int"), {**record("int"), "fields": [{"name": "y", "type": "int"}]}, "field y is not in it"),
        (record(["string", "boolean"]), record("int"), "field x is string and cannot be read as int"),
        (record(["null"]), record("int"), "field x is always null"),
        (record({"type": "array", "items": "string"}), record({"type": "array", "items": "int"}), "field x is string"),
        (
            record({"type": "fixed", "name": "F", "size": 3}),
            record({"type": "fixed", "name": "F", "size": 4}),
            "field x has 3 bytes, not 4",
        ),
        (
            record("int"),
            {**record("int"), "fields": [{"name": "y", "type": "int", "default": "text"}]},
            "field y has a default that is no value of its type",
        ),
    ],
)
def test_schemas_that_cannot_be_resolved_refuse_every_message_and_name_field_and_id(
    writer: dict[str, Any], reader: dict[str, Any], expected: str
) -> None:
    assert why(writer, reader, header(1) + b"\2\2\2").startswith(f"byte 2: schema 1 {LEFT_OUT}{expected}")


def test_a_schema_that_is_none_is_the_reason() -> None:
    assert why({"type": "recorde"}, NEW, header(1)).startswith("byte 2: schema 1 cannot be read: it ")
    found = decoder(NEW, {1: WriterSchema("{")})
    assert decode(found, header(1)).refused[0].why == "byte 2: schema 1 cannot be read: it is no JSON"


@pytest.mark.parametrize(
    ("writer", "reader", "message", "expected"),
    [
        (record(["null", "int"]), record("int"), b"\0", "field x, byte 6: null, which is no value of this field"),
        (record("bytes"), record("string"), b"\2\xff", "field x, byte 7: a byte that is not UTF-8"),
        (
            record({"type": "enum", "name": "E", "symbols": ["A", "B"]}),
            record({"type": "enum", "name": "E", "symbols": ["A"]}),
            b"\2",
            "field x, byte 6: symbol 1 is not one of the column's",
        ),
        (
            record(["int", "string"]),
            {**NEW, "name": "R", "fields": NEW["fields"][2:]},
            b"\4",
            "field (not read), byte 6",
        ),
    ],
)
def test_a_value_that_the_reader_does_not_take_is_refused_alone(
    writer: dict[str, Any], reader: dict[str, Any], message: bytes, expected: str
) -> None:
    assert why(writer, reader, header(1) + message).startswith(f"schema 1, {expected}")


SCHEMAS = int(os.environ.get("FUZZED_SCHEMAS", "25"))


MESSAGES = int(os.environ.get("FUZZED_MESSAGES", "60"))


@pytest.mark.parametrize("seed", range(SCHEMAS))
def test_rows_are_what_fastavro_reads_with_both_schemas(seed: int) -> None:
    source, evolved = AvroMessages(seed), EvolvedSchemas(seed)
    writer = without_logical_types(source.schema())
    reader = evolved.reader_of(writer)
    writers = {1: writer, 2: reader}
    blocks = {number: source.take(each, MESSAGES, well_formed=True) for number, each in writers.items()}
    messages = [
        header(number) + (each or b"")
        for pair in zip(blocks[1], blocks[2], strict=True)
        for number, each in zip((1, 2), pair, strict=True)
    ]

    decoded = decode(decoder(reader, writers), *messages)

    refused = {each.number for each in decoded.refused}
    rows = iter(decoded.rows.to_pylist())
    for number, message in enumerate(messages):
        expected = by_fastavro(message, writers, reader)
        assert (number in refused) == (expected is None), (writer, reader, message)
        if expected is not None:
            assert plain(next(rows), reader) == plain(expected, reader), (writer, reader, message)


def by_fastavro(message: bytes, writers: dict[int, Any], reader: Any) -> Any:
    writer = writers[int.from_bytes(message[1:5], "big")]
    try:
        return fastavro.schemaless_reader(io.BytesIO(message[5:]), writer, reader)
    except (ValueError, EOFError, KeyError, TypeError, IndexError, fastavro.read.SchemaResolutionError):
        return None


def plain(found: Any, kind: Any, known: dict[str, Any] | None = None) -> Any:
    """A value in a form in which both can be compared. `known`: the types of the whole schema that have a name."""
    known = named_types(kind) if known is None else known
    if found is None:
        return None
    if isinstance(kind, list):
        kind = next(branch for branch in kind if branch != "null")
    kind = known.get(kind, kind) if isinstance(kind, str) else kind
    match kind if isinstance(kind, str) else kind["type"]:
        case "record":
            return {each["name"]: plain(found[each["name"]], each["type"], known) for each in kind["fields"]}
        case "array":
            return [plain(each, kind["items"], known) for each in found]
        case "map":
            return {key: plain(each, kind["values"], known) for key, each in dict(found).items()}
        case "float":
            return repr(np.float32(found))
        case "double":
            return repr(float(found))
        case "bytes" | "fixed":
            return found if isinstance(found, bytes) else found.encode("latin-1")
    return found


def named_types(kind: Any) -> dict[str, Any]:
    if isinstance(kind, list):
        return {name: each for branch in kind for name, each in named_types(branch).items()}
    if not isinstance(kind, dict):
        return {}
    inner = [kind.get("items"), kind.get("values"), *(each["type"] for each in kind.get("fields", ()))]
    found = {name: each for part in inner for name, each in named_types(part).items()}
    return {**found, kind["name"]: kind} if "name" in kind else found
