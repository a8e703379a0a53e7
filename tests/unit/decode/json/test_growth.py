"""Columns of a registry's JSON Schemas grow by the rules of all formats; what a schema leaves open is text."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.growth import grown, left_out, lenient
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader
from bucketingest.decode.json.as_avro import columns_text, with_references
from bucketingest.decode.json.registered import RegisteredJsonDecoder
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.decode.rows import Decoded

INTEGER, NUMBER, STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}


def schema(references: dict[str, Any] | None = None, **properties: Any) -> str:
    text = json.dumps({"type": "object", "properties": {"id": STRING, **properties}})
    return with_references(text, {name: json.dumps(each) for name, each in (references or {}).items()})


def decoder(text: str, **known: str) -> RegisteredJsonDecoder:
    found = RegisteredJsonDecoder(columns_of(read_reader(text)), {}, 0, text)
    found = found.knowing({int(number[1:]): WriterSchema(each) for number, each in known.items()})
    return pickle.loads(pickle.dumps(found))


def reader_of(*schemas: str) -> str:
    text = lenient(columns_text(schemas[0]))
    for each in schemas[1:]:
        text, _ = grown(text, decoder(text).columns_in(WriterSchema(each)))
    return text


def kinds(text: str) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in columns_of(read_reader(text))}


def decoded(found: RegisteredJsonDecoder, *messages: tuple[int, Any]) -> Decoded:
    values = [b"\0" + number.to_bytes(4, "big") + json.dumps(each).encode() for number, each in messages]
    return found.decode(pa.array(values, pa.binary()))


PLACE = {"type": "object", "properties": {"x": NUMBER, "far": {"$ref": "#/definitions/far"}}, "definitions": {}}
PLACE["definitions"] = {"far": {"type": ["null", "boolean"]}}
FAR = pa.struct([("x", pa.float64()), ("far", pa.bool_())])
WITH_Y = pa.struct([*FAR, ("y", pa.int64())])
TEXTS = pa.list_(pa.field("element", pa.string()))
ANY_PLACE = pa.struct([("x", pa.string()), ("far", pa.bool_())])


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (INTEGER, pa.int64()),
        (NUMBER, pa.float64()),
        ({"type": ["number", "integer"]}, pa.float64()),
        ({"type": ["null", "boolean"]}, pa.bool_()),
        ({"oneOf": [{"type": "null", "title": "Not included"}, INTEGER]}, pa.int64()),
        ({"anyOf": [{"$ref": "place"}, {"type": "null"}]}, FAR),
        ({"allOf": [{"$ref": "place"}, {"properties": {"y": INTEGER}}]}, pa.struct([*FAR, ("y", pa.int64())])),
        ({"type": "array", "items": {"$ref": "place"}}, pa.list_(pa.field("element", FAR))),
        ({"type": "object", "additionalProperties": INTEGER}, pa.map_(pa.string(), pa.int64())),
        ({"properties": {"x": INTEGER}}, pa.struct([("x", pa.int64())])),
        ({"type": "string", "format": "date-time"}, pa.string()),
        ({"enum": ["A", "B"]}, pa.string()),
        # less than one type: text, whatever is there
        ({}, pa.string()),
        (True, pa.string()),
        ({"type": "object"}, pa.string()),
        ({"type": "array"}, pa.string()),
        ({"type": "array", "items": [INTEGER, STRING]}, pa.string()),
        ({"type": "array", "prefixItems": [STRING], "items": INTEGER}, pa.string()),
        ({"type": ["string", "integer"]}, pa.string()),
        ({"oneOf": [INTEGER, STRING]}, pa.string()),
        ({"$ref": "#"}, pa.string()),
        # a choice: what each of them says, and text where that is less than one type
        ({"oneOf": [{"type": "string", "format": "date"}, STRING, {"type": "null"}]}, pa.string()),
        ({"anyOf": [INTEGER, NUMBER]}, pa.float64()),
        ({"oneOf": [INTEGER, {}]}, pa.string()),
        ({**INTEGER, "oneOf": [{"const": 1}, {"const": 2}]}, pa.int64()),
        ({"oneOf": [{"properties": {"x": INTEGER}}, STRING]}, pa.string()),
        ({"oneOf": [{"properties": {"x": INTEGER}}, {"$ref": "place"}]}, ANY_PLACE),
        ({**INTEGER, "allOf": [{**NUMBER, "minimum": 0}]}, pa.int64()),
        ({"allOf": [{"type": ["integer", "string"]}, {"type": ["string", "null"]}]}, pa.string()),
        ({"oneOf": [{"type": "array", "items": INTEGER}, {"type": "array", "items": STRING}]}, TEXTS),
        ({"allOf": [{"$ref": "place"}], "anyOf": [{"required": ["x"]}, {"required": ["far"]}]}, FAR),
        (
            {
                "allOf": [{"$ref": "place"}],
                "if": {"required": ["x"]},
                "then": {"properties": {"x": {"const": 1}, "y": INTEGER}},
            },
            WITH_Y,
        ),
        ({"allOf": [{"$ref": "place"}], "dependentSchemas": {"x": {"properties": {"y": INTEGER}}}}, WITH_Y),
    ],
)
def test_each_type_is_the_column_that_has_all_its_values(given: Any, kind: pa.DataType) -> None:
    assert kinds(lenient(columns_text(schema({"place": PLACE}, v=given)))) == {"id": pa.string(), "v": kind}


def test_an_object_that_is_one_of_several_has_the_columns_of_all() -> None:
    """The kinds of one event, say: nothing that a message may have is left out."""
    card = {"properties": {"kind": {"const": "card"}, "number": STRING, "amount": INTEGER}, "required": ["kind"]}
    cash = {"properties": {"kind": {"const": "cash"}, "till": INTEGER, "amount": NUMBER}, "required": ["kind"]}
    given = json.loads(json.loads(schema())[""]) | {"oneOf": [card, {"$ref": "cash"}]}
    together = with_references(json.dumps(given), {"cash": json.dumps(cash)})
    found = decoded(
        decoder(reader_of(together), _7=together),
        (7, {"id": "a", "kind": "card", "number": "4", "amount": 2}),
        (7, {"id": "b", "kind": "cash", "till": 3, "amount": 2.5}),
    )
    assert found.refused == []
    names = ["id", "kind", "number", "amount", "till"]
    assert found.rows.to_pydict() == dict(
        zip(names, [["a", "b"], ["card", "cash"], ["4", None], ["2", "2.5"], [None, 3]], strict=True)
    )


def test_old_and_new_producers_are_read_as_the_union_of_their_fields() -> None:
    old = schema(n=INTEGER, place={"type": "object", "properties": {"x": INTEGER}})
    new = schema(n=INTEGER, place={"type": "object", "properties": {"x": INTEGER, "name": STRING}}, any={})
    text, changed = grown(reader_of(old), columns_text(new))
    assert changed == ("place.name", "any")
    assert grown(text, columns_text(old)) == (text, ())
    found = decoded(
        decoder(text, _7=old, _8=new),
        (7, {"id": "a", "n": 1, "place": {"x": 2}}),
        (8, {"id": "b", "n": 2, "place": {"x": 3, "name": "n"}, "any": [1, {"y": 2}]}),
        (7, {"id": "c", "any": 1.50}),
    )
    assert found.refused == []
    assert [tuple(each.values()) for each in found.rows.to_pylist()] == [
        ("a", 1, {"x": 2, "name": None}, None),
        ("b", 2, {"x": 3, "name": "n"}, '[1, {"y": 2}]'),
        ("c", None, None, "1.5"),
    ]


def test_another_type_is_refused_by_its_name_and_what_is_left_open_is_looked_at() -> None:
    old = schema(n=INTEGER, s={}, place={"type": "object", "properties": {"x": INTEGER}})
    text = reader_of(old)
    known = {
        "_7": schema(n=STRING),
        "_8": schema(n=NUMBER, s=INTEGER),
        "_9": schema(n={}, place={}),
        "_10": schema(place={"type": "object", "properties": {"x": {"type": "boolean"}}}),
    }
    assert all(grown(text, decoder(text).columns_in(WriterSchema(each))) == (text, ()) for each in known.values())
    found = decoded(
        decoder(text, **known),
        (7, {"id": "a", "n": 1}),
        (8, {"id": "b", "n": 1, "s": 5}),
        (8, {"id": "c", "n": 1.5}),
        (9, {"id": "d", "n": "x"}),
        (9, {"id": "e", "place": {"x": 4}}),
        (10, {"id": "f"}),
    )
    assert [(each["id"], each["n"], each["s"], each["place"]) for each in found.rows.to_pylist()] == [
        ("b", 1, "5", None),
        ("e", None, None, {"x": 4}),
    ]
    assert [(each.number, each.why) for each in found.refused] == [
        (0, "byte 2: schema 7 cannot be read with the table's: field n is string and cannot be read as long"),
        (2, "schema 8, field n: Expected `int | null`, got `float`"),
        (3, "schema 9, field n: Expected `int | null`, got `str`"),
        (5, "byte 2: schema 10 cannot be read with the table's: field place.x is boolean and cannot be read as long"),
    ]


def test_a_map_stays_one_when_a_schema_names_some_of_its_keys() -> None:
    text = reader_of(schema(m={"type": "object", "additionalProperties": NUMBER}))
    known = {
        "_7": schema(m={"type": "object", "properties": {"x": NUMBER, "y": NUMBER}}),
        "_8": schema(m={"type": "object", "properties": {"x": NUMBER}, "additionalProperties": NUMBER}),
        "_9": schema(m={"type": "object", "properties": {"x": NUMBER, "s": STRING}}),
    }
    found = decoded(
        decoder(text, **known),
        (7, {"m": {"x": 1, "y": 2.5}}),
        (8, {"m": {"x": 3, "z": 4, "first-name": 5}}),
        (9, {"m": {"x": 1}}),
        (9, {"m": {"s": "t"}}),
    )
    rows = [dict(each) for each in found.rows["m"].to_pylist()]
    assert rows == [{"x": 1.0, "y": 2.5}, {"x": 3.0, "z": 4.0, "first-name": 5.0}, {"x": 1.0}]
    why = "schema 9, field m[...]: a number (DOUBLE) is expected, not 't'"
    assert [(each.number, each.why) for each in found.refused] == [(3, why)]


def test_a_map_of_objects_grows_with_those_that_a_schema_names() -> None:
    place, more = {"properties": {"x": INTEGER}}, {"properties": {"x": INTEGER, "y": INTEGER}}
    old = schema(m={"type": "object", "additionalProperties": place})
    new = schema(m={"type": "object", "additionalProperties": place, "properties": {"home": more, "work": place}})
    found = decoded(
        decoder(reader_of(old, new), _7=old, _8=new), (7, {"m": {"a": {"x": 1}}}), (8, {"m": {"home": {"y": 2}}})
    )
    assert (found.refused, found.rows["m"].to_pylist()) == (
        [],
        [[("a", {"x": 1, "y": None})], [("home", {"x": None, "y": 2})]],
    )


def test_an_object_stays_one_when_a_schema_names_none_of_its_members() -> None:
    """What else it may have is said to be left out."""
    old = schema(m={"properties": {"x": INTEGER, "s": STRING}})
    known = {
        "_7": schema(m={"type": "object", "additionalProperties": INTEGER}),
        "_8": with_references("{}", {}),
        "_9": with_references('{"type": ["object", "array"]}', {}),
    }
    text = reader_of(old)
    found = decoder(text, **known)
    assert left_out(text, found.columns_in(WriterSchema(known["_7"]))) == ("m.(others)",)
    rows = decoded(found, *((number, {"id": "a", "m": {"x": number, "s": "t"}}) for number in (7, 8, 9)))
    assert (rows.refused, rows.rows["m"].to_pylist()) == ([], [{"x": number, "s": "t"} for number in (7, 8, 9)])


@pytest.mark.parametrize(
    "given",
    [
        {"oneOf": [{"properties": {"x": INTEGER, "y": INTEGER}}, STRING]},
        {"type": ["string", "object"], "properties": {"x": INTEGER, "y": INTEGER}},
        {
            "anyOf": [
                {"type": "array", "items": INTEGER},
                {"properties": {"y": INTEGER}},
                {"properties": {"x": INTEGER}},
            ]
        },
        {"oneOf": [{"additionalProperties": STRING}, {"properties": {"x": INTEGER, "y": INTEGER}}]},
    ],
)
def test_an_object_that_may_be_something_else_grows_too(given: Any) -> None:
    old, new = schema(m={"properties": {"x": INTEGER}}), schema(m=given)
    found = decoded(decoder(reader_of(old, new), _8=new), (8, {"id": "a", "m": {"x": 1, "y": 2}}), (8, {"m": "text"}))
    assert found.rows.to_pylist() == [{"id": "a", "m": {"x": 1, "y": 2}}]
    assert [(each.number, each.why) for each in found.refused] == [
        (1, "schema 8, field m: Expected `object | null`, got `str`")
    ]
    assert kinds(reader_of(new))["m"] == pa.string()


def test_what_several_schemas_say_of_a_member_counts_together() -> None:
    """Wherever a schema has the members of an object: none that a message may have is left out."""
    chance = random.Random(40)

    def spread(members: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
        """An object with the members, each said in any part of the schema."""
        made: dict[str, Any] = {"type": "object", "properties": {}}
        for name, inside in members.items():
            for some in [inside] if inside is None else [dict([each]) for each in inside.items()]:
                kind = INTEGER if some is None else spread(some, definitions)
                part: dict[str, Any] = {"properties": {name: kind}}
                match chance.choice(["", "allOf", "oneOf", "anyOf", "if", "dependentSchemas", "dependencies", "$ref"]):
                    case "oneOf" | "anyOf" | "allOf" as key:
                        made.setdefault(key, [{"required": ["id"]}]).append(part)
                    case "if":
                        made.setdefault("allOf", []).append({"if": {}, chance.choice(["then", "else"]): part})
                    case "dependentSchemas" | "dependencies" as key:
                        made.setdefault(key, {"id": ["other"]} if key == "dependencies" else {})
                        made[key][f"k{len(made[key])}"] = part
                    case "$ref":
                        definitions[f"d{len(definitions)}"] = part
                        made.setdefault("allOf", []).append({"$ref": f"#/definitions/d{len(definitions) - 1}"})
                    case _ if name not in made["properties"]:
                        made["properties"].update(part["properties"])
                    case _:
                        made.setdefault("allOf", []).append(part)
        return made

    members: dict[str, Any] = {"a": None, "b": {"c": None, "d": {"e": None, "f": None}}, "g": {"h": None, "i": None}}
    message = {"a": 1, "b": {"c": 2, "d": {"e": 3, "f": 4}}, "g": {"h": 5, "i": 6}}
    for _ in range(200):
        definitions: dict[str, Any] = {}
        text = with_references(json.dumps({**spread(members, definitions), "definitions": definitions}), {})
        found = decoded(decoder(reader_of(text), _7=text), (7, message))
        assert (found.rows.to_pylist(), found.refused) == ([message], []), text


FAR_AWAY = "http://example.test/schemas/order.json"


@pytest.mark.parametrize(
    ("reference", "more"),
    [
        ("#/$defs/n", {}),
        ("#/$defs/a%20b", {}),
        ("#count", {}),
        ("#old", {}),
        ("order.json#/$defs/n", {"$id": FAR_AWAY}),
        (f"{FAR_AWAY}#count", {"$id": FAR_AWAY}),
        (f"{FAR_AWAY}#/$defs/n", {"id": f"{FAR_AWAY}#"}),
        ("number.json", {"$id": FAR_AWAY}),
        ("number.json", {}),
        ("./number.json#", {}),
        ("/schemas/number.json", {"$id": FAR_AWAY}),
        ("inner.json", {"$id": FAR_AWAY}),
        ("inner.json#/$defs/k", {"$id": FAR_AWAY}),
        ("my%20number.json", {}),
        ("urn:n", {}),
        ("#/$defs/n", {"$id": "http://[no"}),
        ("urn:other", {}),
        ("other#/properties/n", {}),
        ("http://example.test/schemas/other", {"$id": FAR_AWAY}),
    ],
)
@pytest.mark.parametrize("key", ["$ref", "$dynamicRef"])
def test_a_reference_is_found_as_each_draft_has_it(reference: str, more: dict[str, Any], key: str) -> None:
    inner = {"$id": "inner.json", "$ref": "#/$defs/k", "$defs": {"k": INTEGER}}
    given = {
        **more,
        "type": "object",
        "properties": {"id": STRING, "n": {key: reference}},
        "$defs": {
            "n": INTEGER,
            "a b": INTEGER,
            "c": {**INTEGER, "$dynamicAnchor": "count"},
            "o": {**INTEGER, "$id": "#old"},
            "u": {**INTEGER, "$id": "urn:n"},
            "inner": inner,
        },
    }
    others = {
        "number.json": {"$ref": "other#/properties/n"},
        "my number.json": INTEGER,
        "other": {"$id": "urn:other", **INTEGER, "properties": {"n": INTEGER}},
    }
    text = with_references(json.dumps(given), {name: json.dumps(each) for name, each in others.items()})
    assert kinds(reader_of(text)) == {"id": pa.string(), "n": pa.int64()}


def test_a_name_that_no_column_can_have_is_left_out_while_the_job_runs_and_said_at_a_start() -> None:
    old, new = schema(), schema(**{"first-name": STRING, "ID": STRING, "fine": STRING})
    text = reader_of(old, new)
    assert list(kinds(text)) == ["id", "fine"]
    assert left_out(text, columns_text(new)) == ("first-name", "ID")
    with pytest.raises(UnreadableSchema, match="has the name 'first-name', which no column can have,"):
        lenient(columns_text(new))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (with_references("{", {}), "is no JSON"),
        (with_references('{"type": "array"}', {}), "is no JSON Schema of an object"),
        (with_references('{"properties": 1}', {}), "is no JSON Schema"),
        (with_references('{"type": {}}', {}), "is no JSON Schema"),
        (schema(v={"$ref": "other#/x"}), "refers to other, which"),
        (schema(v={"$ref": "other"}), "refers to other, which the registry does not have"),
        (schema(v={"$ref": "#/x"}), "refers to #/x, which is not there"),
        (schema(v={"$ref": "http://[no"}), "refers to http://"),
        (schema(v={"$ref": "#x"}), "refers to #x, which is not there"),
    ],
)
def test_what_is_no_schema_of_columns_says_why(text: str, why: str) -> None:
    with pytest.raises(UnreadableSchema, match=why):
        columns_text(text)
    reader = reader_of(schema())
    (refused,) = decoded(decoder(reader, _7=text), (7, {"id": "a"})).refused
    assert refused.why.startswith(f"byte 2: schema 7 cannot be read: it {why}")


def test_a_schema_that_refers_to_much_again_and_again_is_refused() -> None:
    wide = {f"p{number}": {"$ref": f"#/definitions/{number}"} for number in range(10)}
    definitions: dict[str, Any] = {
        str(number): {"properties": {f"q{each}": {"$ref": "#/definitions/end"} for each in range(10)}}
        for number in range(10)
    }
    definitions["end"] = {"properties": {f"r{each}": {"properties": wide} for each in range(10)}}
    text = json.dumps({"properties": wide, "definitions": definitions})
    with pytest.raises(UnreadableSchema, match="has more than 20000 schemas inside"):
        columns_text(with_references(text, {}))
