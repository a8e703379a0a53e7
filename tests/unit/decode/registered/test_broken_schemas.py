"""A registry may have any text as a schema: whatever is wrong with it, its messages are rows or dead letters.

It ends no job.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.growth import columns_in_all, grown, left_out, lenient
from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader
from bucketingest.decode.json.as_avro import columns_text, with_references
from bucketingest.decode.json.registered import RegisteredJsonDecoder
from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema

DECIMAL = {"logicalType": "decimal", "precision": 5, "scale": 1}
TIME = {"type": "long", "logicalType": "timestamp-millis", "connect.name": "a.Time"}
INSIDE = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "x", "type": "long", "aliases": ["y"]}, {"name": "t", "type": TIME, "default": 0}],
}
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "aliases": ["Old"],
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "d", "type": {"type": "bytes", **DECIMAL}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 4, **DECIMAL}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"}, "default": "A"},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": ["null", "int"]}}, "default": {}},
        {"name": "r", "type": ["null", INSIDE], "default": None},
        {"name": "s", "type": "R"},
        {"name": "u", "type": "int", "default": 1},
    ],
}
AVRO_LATER = {**AVRO, "fields": [*AVRO["fields"][:-1], {"name": "u", "type": ["int", "string"], "default": 1}]}
INTEGER, STRING = {"type": "integer"}, {"type": "string"}
JSON: dict[str, Any] = {
    "$id": "http://example.test/order.json",
    "type": "object",
    "properties": {
        "id": STRING,
        "p": {"type": "object", "properties": {"x": INTEGER}, "additionalProperties": STRING},
        "m": {"type": "object", "additionalProperties": INTEGER},
        "a": {"type": "array", "items": {"$ref": "#/$defs/d"}},
        "o": {"oneOf": [INTEGER, {"type": "null"}]},
        "n": {"anyOf": [{"$ref": "#foo"}, {"properties": {"z": INTEGER}}]},
    },
    "allOf": [{"properties": {"p": {"properties": {"y": INTEGER}}}}],
    "dependencies": {"id": ["p"], "p": {"properties": {"q": INTEGER}}},
    "if": {},
    "then": {"properties": {"t": STRING}},
    "$defs": {"d": {"properties": {"k": INTEGER}}, "f": {"$anchor": "foo", "type": ["object", "null"]}},
}
PLAIN: list[Any] = [None, 1, False, "", "x", "\ud800", [], {}, [[]]]
ODD = [*PLAIN, -1, 0, 1.5, "int", "null", "record", "object", "#", "#/", "#/$defs/none", "http://[", "E", "R", [{}]]
ODD += [{"type": "int"}, INTEGER, ["null"], ["int"] * 2, {"a": 1}, 10**30]
WORDS = (
    "type name fields items values size symbols logicalType precision scale default aliases namespace connect.name why"
)
WORDS += " any of $ref $id id $anchor oneOf anyOf allOf properties additionalProperties prefixItems then dependencies"
HEADER = b"\0\0\0\0"
MESSAGES = [
    HEADER + b"\1{}",
    HEADER + b"\2" + json.dumps({"id": "a", "p": {"x": 1}, "m": {"q": 1}}).encode(),
    HEADER + b"\2\2a\2",
]


def _places(given: Any) -> Iterator[tuple[Any, Any]]:
    for key, each in given.items() if isinstance(given, dict) else enumerate(given) if isinstance(given, list) else ():
        yield given, key
        yield from _places(each)


def _broken(schema: Any, chance: random.Random, count: int) -> Iterator[Any]:
    """With one odd value: at each place each of the plain ones, if the count allows it. Then so many with odd values,
    words that do not belong there and pieces of itself in up to three places, and without others.
    """
    single = [(number, odd) for number in range(len([*_places(schema)])) for odd in PLAIN]
    for number, odd in chance.sample(single, min(count * 4, len(single))):
        made = copy.deepcopy(schema)
        around, key = [*_places(made)][number]
        around[key] = copy.deepcopy(odd)
        yield made
    for _ in range(count):
        made = copy.deepcopy(schema)
        for _ in range(chance.choice([1, 2, 3])):
            around, key = chance.choice([*_places(made), ({}, "")])
            other, place = chance.choice([*_places(made), ({"": 0}, "")])
            if chance.random() < 0.2 and isinstance(around, dict):
                key = chance.choice(WORDS.split())
            around[key] = copy.deepcopy(chance.choice([*ODD, other[place]]))
            if chance.random() < 0.1:
                del around[key]
        yield made


def _decoder(kind: str, text: str, known: dict[int, WriterSchema]) -> RegisteredDecoder:
    columns = columns_of(read_reader(text))
    if kind == "avro":
        return RegisteredAvroDecoder(text, columns, known)
    return RegisteredJsonDecoder(columns, known, 0, text)


@pytest.mark.parametrize("kind", ["avro", "json"])
def test_a_schema_that_is_broken_somewhere_ends_no_job(kind: str) -> None:
    """At a start, and when its messages come while the job runs."""
    base, later, count = (AVRO, AVRO_LATER, 250) if kind == "avro" else (JSON, JSON, 40)
    starts = 0
    for broken in _broken(later, random.Random(40), count):
        both = [json.dumps(each) for each in (base, broken)]
        if kind == "json":
            both = [with_references(each, {}) for each in both]
        for old, new in (both, both[::-1]):
            try:
                text = lenient(old if kind == "avro" else columns_text(old))
                read_reader(text)
            except UnreadableSchema:
                continue
            starts += old == both[0]
            known = {1: WriterSchema(old), 2: WriterSchema(new)}
            try:
                text, _ = grown(text, _decoder(kind, text, {}).columns_in(known[2]))
                left_out(text, _decoder(kind, text, {}).columns_in(known[2]))
                for each in known.values():  # else the job would start again for ever
                    assert grown(text, _decoder(kind, text, {}).columns_in(each))[1] == ()
            except UnreadableSchema:
                pass  # its messages are dead letters
            assert columns_in_all(text)
            decoder = _decoder(kind, text, known)
            assert decoder.why_refused(1) is None, old
            decoded = decoder.decode(pa.array(MESSAGES, pa.binary()))
            assert decoded.rows.num_rows + len(decoded.refused) == len(MESSAGES)
    assert starts > count
