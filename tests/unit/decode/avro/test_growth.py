"""The columns' schema is the union of the messages' schemas."""

from __future__ import annotations

import json
from contextlib import nullcontext
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.avro.conversion import exact
from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.exact import ExactDecoder
from bucketingest.decode.avro.growth import grown, left_out, lenient
from bucketingest.decode.avro.resolution import resolved
from bucketingest.decode.avro.schema import UnreadableSchema, read_reader, read_writer
from support.decoding.registered_avro import decode, decoder, encoded


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": list(fields)})


ID = {"name": "id", "type": "string"}
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "int"}]}
DECIMAL = {"logicalType": "decimal", "precision": 9, "scale": 2}
LOCAL = {"type": "long", "logicalType": "local-timestamp-millis"}


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
    text, added = grown(lenient(record(ID, {"name": "gone", "type": "int"})), writer)
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
        {"name": "_hoodie_operation", "type": "string"},
        {"name": "_HOODIE_is_deleted", "type": "boolean"},
        {"name": "nothing", "type": "null"},
        {"name": "odd", "type": {"type": "record", "name": "Odd", "fields": []}},
        {"name": "long", "type": "double"},
        {"name": "at", "type": "long"},
        {"name": "cents", "type": {"type": "bytes", "logicalType": "decimal", "precision": 35, "scale": 32}},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 9, **DECIMAL, "precision": 18}},
        {"name": "float", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "long"}]}},
    ],
)
def test_what_is_no_new_column_and_no_wider_type_is_left_out(field: dict[str, Any]) -> None:
    reader = lenient(
        record(
            ID,
            {"name": "name", "type": "string", "aliases": ["nickname"]},
            {"name": "long", "type": "long"},
            {"name": "at", "type": {"type": "int", "logicalType": "date"}},
            {"name": "cents", "type": {"type": "bytes", **DECIMAL}},
            {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 8, **DECIMAL}},
            {"name": "float", "type": {"type": "record", "name": "P", "fields": [{"name": "x", "type": "float"}]}},
        )
    )
    assert grown(reader, record(field))[1] == ()


@pytest.mark.parametrize(
    ("narrow", "other", "wide"),
    [
        ("int", "long", pa.int64()),
        ("int", "double", pa.float64()),
        ("float", "double", pa.float64()),
        ("int", "float", pa.float64()),
        ("float", "int", pa.float64()),
        (["null", "int"], ["long", "null"], pa.int64()),
        ({"type": "bytes", **DECIMAL}, {"type": "bytes", **DECIMAL, "precision": 20}, pa.decimal128(20, 2)),
        (
            {"type": "bytes", **DECIMAL},
            {"type": "bytes", **DECIMAL, "precision": 9, "scale": 4},
            pa.decimal128(11, 4),
        ),
        (
            {"type": "array", "items": "float"},
            {"type": "array", "items": "double"},
            pa.list_(pa.field("element", pa.float64())),
        ),
        (
            {"type": "array", "items": PLACE},
            {"type": "array", "items": {**PLACE, "fields": [{"name": "x", "type": "long"}, ID]}},
            pa.list_(pa.field("element", pa.struct([("x", pa.int64()), ("id", pa.string())]))),
        ),
        (
            {"type": "map", "values": "int"},
            {"type": "map", "values": "long"},
            pa.map_(pa.string(), pa.int64()),
        ),
    ],
)
def test_a_column_gets_the_type_that_has_the_values_of_all(narrow: Any, other: Any, wide: pa.DataType) -> None:
    reader, writer = record({"name": "v", "type": narrow}), record({"name": "v", "type": other})
    text, changed = grown(reader, writer)
    assert changed
    assert columns(text) == {"v": wide}
    for each in (reader, writer):
        assert grown(text, each) == (text, ())
        decoder(json.loads(text), {1: json.loads(each)})


def test_a_column_of_an_enum_has_every_symbol() -> None:
    def of(*symbols: str) -> dict[str, Any]:
        return json.loads(record({"name": "s", "type": {"type": "enum", "name": "S", "symbols": symbols}}))

    reader = lenient(json.dumps(of("A")))
    text, changed = grown(reader, json.dumps(of("B", "A")))
    assert changed == ()
    found = decoder(json.loads(text), {1: of("B", "A")})
    assert decode(found, encoded(of("B", "A"), {"s": "B"}, 1)).rows.to_pylist() == [{"s": "B"}]


def test_a_null_is_a_value_of_every_column_and_of_what_is_inside() -> None:
    """Whoever makes a field nullable later: also one with a default, and elements."""
    kinds = {"n": "int", "items": {"type": "array", "items": "int"}, "m": {"type": "map", "values": "int"}}
    default = {"n": {"default": 7}}
    reader = lenient(record(*({"name": name, "type": kind, **default.get(name, {})} for name, kind in kinds.items())))
    kinds = {"n": ["null", "int"], "items": {"type": "array", "items": ["null", "int"]}}
    writer = json.loads(record(*({"name": name, "type": kind} for name, kind in kinds.items())))
    writer["fields"].append({"name": "m", "type": ["null", {"type": "map", "values": ["int", "null"]}]})
    found = decoder(json.loads(reader), {1: writer, 2: {**writer, "fields": writer["fields"][1:]}})
    row = {"n": None, "items": [1, None], "m": {"k": None}}
    decoded = decode(found, encoded(writer, row, 1), encoded({**writer, "fields": writer["fields"][1:]}, row, 2))
    assert decoded.refused == []
    assert decoded.rows.to_pylist() == [
        {"n": None, "items": [1, None], "m": [("k", None)]},
        {"n": 7, "items": [1, None], "m": [("k", None)]},
    ]


def test_what_a_message_lacks_is_null_or_its_default_also_inside() -> None:
    deep = {"type": "record", "name": "Deep", "fields": [ID, {"name": "gone", "type": "int"}]}
    less = {**deep, "fields": [ID]}
    reader = json.loads(lenient(record({"name": "deep", "type": {"type": "array", "items": deep}})))
    writer = json.loads(record({"name": "deep", "type": {"type": "array", "items": less}}))
    found = decoder(reader, {1: writer})
    assert decode(found, encoded(writer, {"deep": [{"id": "x"}]}, 1)).rows.to_pylist() == [
        {"deep": [{"id": "x", "gone": None}]}
    ]
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


@pytest.mark.parametrize(
    "writer",
    [
        record(ID, {"name": "note", "type": "string"}).replace("Order", "Customer"),
        record({"name": "id", "type": "long"}, {"name": "note", "type": "string"}),
    ],
    ids=["another record", "another type"],
)
def test_a_schema_whose_messages_cannot_be_read_adds_no_columns(writer: str) -> None:
    reader = lenient(record(ID, {"name": "place", "type": PLACE}))
    assert grown(reader, writer) == (reader, ())


@pytest.mark.parametrize("around", ["plain", "array", "map"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (PLACE, {"x": 1}),
        ({"type": "enum", "name": "Place", "symbols": ["ON", "OFF"]}, "OFF"),
        ({"type": "fixed", "name": "Place", "size": 2}, b"ab"),
    ],
    ids=["record", "enum", "fixed"],
)
def test_a_type_inside_may_get_another_name(kind: dict[str, Any], value: Any, around: str) -> None:
    """The field's name says what it is."""

    def field(named: dict[str, Any]) -> dict[str, Any]:
        shapes = {"array": {"type": "array", "items": named}, "map": {"type": "map", "values": named}}
        return {"name": "place", "type": shapes.get(around, named)}

    renamed = {**kind, "name": "Spot", "namespace": "other"}
    if "fields" in kind:
        renamed["fields"] = [*PLACE["fields"], {"name": "y", "type": ["null", "int"], "default": None}]
        value = {**value, "y": 2}
    given: Any = {"array": [value], "map": {"k": value}}.get(around, value)
    reader, writer = lenient(record(ID, field(kind))), record(ID, field(renamed))
    text, _ = grown(reader, writer)
    decoded = decode(
        decoder(json.loads(text), {1: json.loads(writer)}), encoded(json.loads(writer), {"id": "a", "place": given})
    )
    shown = [("k", value)] if around == "map" else given
    assert (decoded.rows.to_pylist(), decoded.refused) == ([{"id": "a", "place": shown}], [])


def test_a_record_that_names_the_one_before_in_its_aliases_is_the_same() -> None:
    """Also the next one, which names only the one before itself; and one that says nothing is another one."""
    first = lenient(record(ID))
    second = {**json.loads(record(ID)), "name": "Purchase", "aliases": ["shop.Order"]}
    third = {**json.loads(record(ID, {"name": "n", "type": "int"})), "name": "Sale", "aliases": ["Purchase"]}
    text, changed = grown(first, json.dumps(second))
    assert changed == ("the record's name Purchase",)
    assert grown(text, json.dumps(second)) == (text, ())
    text, changed = grown(text, json.dumps(third))
    assert changed == ("the record's name Sale", "n")
    found = decoder(json.loads(text), {1: json.loads(record(ID)), 2: second, 3: third})
    messages = [
        encoded(schema, {"id": f"{at}", "n": at}, at)
        for at, schema in enumerate((json.loads(record(ID)), second, third), 1)
    ]
    assert decode(found, *messages).rows.to_pylist() == [
        {"id": "1", "n": None},
        {"id": "2", "n": None},
        {"id": "3", "n": 3},
    ]
    assert grown(first, json.dumps({**second, "aliases": []})) == (first, ())
    fixed = decoder(json.loads(first), {2: second, 3: third})  # of columns that do not grow
    assert decode(fixed, encoded(second, {"id": "2"}, 2)).rows.to_pylist() == [{"id": "2"}]
    assert "of the type Sale, not Order" in decode(fixed, encoded(third, {"id": "3", "n": 3}, 3)).refused[0].why


def test_the_column_that_a_field_is_read_as_gets_its_type() -> None:
    """A field's own name counts before another's alias, as when it is read."""
    swapped = [{"name": "a", "type": "int", "aliases": ["b"]}, {"name": "b", "type": "int", "aliases": ["a"]}]
    writer = record({"name": "a", "type": "long"}, {"name": "b", "type": "int"})
    text, changed = grown(lenient(record(*swapped)), writer)
    assert (changed, columns(text)) == (("a",), {"a": pa.int64(), "b": pa.int32()})
    found = decoder(json.loads(text), {1: json.loads(writer)})
    assert decode(found, encoded(json.loads(writer), {"a": 2**40, "b": 1}, 1)).rows.to_pylist() == [
        {"a": 2**40, "b": 1}
    ]


P, Q = ({"type": "record", "name": name, "fields": [{"name": name.lower(), "type": "int"}]} for name in "PQ")


@pytest.mark.parametrize("around", ["plain", "array", "map", "record"])
@pytest.mark.parametrize(
    ("types", "wide", "rows", "refused"),
    [
        (("int", ["int", "string"]), pa.int32(), {3: 3}, {"x": "it is string and cannot be read as int"}),
        ((["null", "int"], ["string", "long", "null"]), pa.int64(), {2**40: 2**40, None: None}, {"x": "it is string"}),
        (("int", ["int", "double"]), pa.float64(), {3: 3.0, 0.5: 0.5}, {}),
        (("string", ["bytes", "string", "boolean"]), pa.string(), {"x": "x", b"y": "y"}, {True: "it is boolean and"}),
        ((P, [P, Q, "int"]), pa.struct([("p", pa.int32()), ("q", pa.int32())]),
         {("shop.P", 1): {"p": 1, "q": None}, ("shop.Q", 2): {"p": None, "q": 2}}, {7: "it is int and cannot"}),
        (({"type": "bytes", **DECIMAL}, [{"type": "bytes", **DECIMAL}, "int"]), pa.decimal128(9, 2),
         {Decimal("1.25"): Decimal("1.25")}, {7: "it is int and cannot be read as decimal(9,2)"}),
        (({"type": "array", "items": "int"}, ["string", {"type": "array", "items": "long"}]),
         pa.list_(pa.field("element", pa.int64())), {(): []}, {"x": "it is string and"}),
    ],
)  # fmt: skip
def test_of_a_union_of_several_types_each_value_is_read_as_its_own(
    types: tuple[Any, Any], wide: pa.DataType, rows: dict[Any, Any], refused: dict[Any, str], around: str
) -> None:
    """As Avro has it: a schema that adds a type to a field makes no dead letters of the values of before."""

    def given(inside: Any) -> dict[str, Any]:
        shapes = {
            "array": {"type": "array", "items": inside},
            "map": {"type": "map", "values": inside},
            "record": {"type": "record", "name": "In", "fields": [{"name": "i", "type": inside}]},
        }
        return json.loads(record({"name": "v", "type": shapes.get(around, inside)}))

    def put(value: Any) -> Any:
        return {"array": [value], "map": {"k": value}, "record": {"i": value}}.get(around, value)

    def message(value: Any) -> bytes:
        if value == ():
            value = []
        elif isinstance(value, tuple):
            value = (value[0], {value[0][-1].lower(): value[1]})
        return encoded(writer, {"v": put(value)})

    reader, writer = map(given, types)
    text, _ = grown(lenient(json.dumps(reader)), json.dumps(writer))
    found = decoder(json.loads(text), {1: writer})
    decoded = decode(found, *map(message, [*rows, *refused]))
    shown = [[("k", each)] if around == "map" else put(each) for each in rows.values()]
    assert (decoded.rows.column("v").to_pylist(), decoded.one_by_one) == (shown, len(refused))
    assert wide in _inside(columns(text)["v"])
    for letter, why in zip(decoded.refused, refused.values(), strict=True):
        assert letter.why.partition(": ")[2].startswith(why)
    exact = ExactDecoder(resolved(read_writer(json.dumps(writer)), read_reader(text), found.schema), found.schema)
    alone = pa.Table.from_pylist([exact.decode(message(each)[5:]) for each in rows], found.schema)
    assert alone.column("v").to_pylist() == shown


def _inside(kind: pa.DataType) -> list[pa.DataType]:
    return [kind, *(each for at in range(kind.num_fields) for each in _inside(kind.field(at).type))]


def test_a_null_in_a_union_of_several_types_is_a_dead_letter_where_a_given_schema_has_none() -> None:
    reader, writer = (
        json.loads(record({"name": "v", "type": "int"})),
        json.loads(record({"name": "v", "type": ["null", "int", "string"]})),
    )
    decoded = decode(decoder(reader, {1: writer}), *(encoded(writer, {"v": each}) for each in (5, None)))
    assert decoded.rows.to_pylist() == [{"v": 5}]
    assert [each.why for each in decoded.refused] == [
        "schema 1, field v, byte 7: null, which is no value of this field"
    ]


def test_a_union_that_was_left_out_makes_no_dead_letters_when_one_of_its_types_becomes_the_column() -> None:
    old, new = record(ID, {"name": "v", "type": ["int", "string"]}), record(ID, {"name": "v", "type": "string"})
    text, changed = grown(lenient(record(ID)), old)
    assert (changed, left_out(text, old)) == ((), ("v",))
    text, changed = grown(text, new)
    assert (changed, left_out(text, old)) == (("v",), ())
    found = decoder(json.loads(text), {1: json.loads(old), 2: json.loads(new)})
    rows = [(old, "x", 1), (new, "y", 2)]
    decoded = decode(found, *(encoded(json.loads(each), {"id": "a", "v": v}, number) for each, v, number in rows))
    assert (decoded.refused, decoded.rows.column("v").to_pylist()) == ([], ["x", "y"])


def test_a_field_with_a_name_that_no_table_can_have_is_left_out_also_inside() -> None:
    """Registries take letters that are not ASCII's; a table with such a column would not be made."""
    odd = {"name": "größe", "type": "int"}
    inside = {**PLACE, "fields": [*PLACE["fields"], odd]}
    new = {"name": "to", "type": {**inside, "name": "To"}}
    writer = record(ID, {"name": "place", "type": inside}, odd, new, {"name": "n", "type": "int"})
    text, changed = grown(lenient(record(ID, {"name": "place", "type": PLACE})), writer)
    assert (changed, left_out(text, writer)) == (("n",), ("place.größe", "größe", "to"))


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"precision": None},
        {"precision": "9", "scale": "2"},
        {"precision": 2, "scale": 9},
        {"precision": 0},
        {"precision": 9, "scale": -1},
    ],
)
@pytest.mark.parametrize("kind", [{"type": "bytes"}, {"type": "fixed", "name": "F", "size": 1}])
def test_a_decimal_that_makes_no_sense_is_none_as_to_avro(attributes: dict[str, Any], kind: dict[str, Any]) -> None:
    """It ends no job, and its messages are rows."""
    odd = {**kind, "logicalType": "decimal", **attributes}
    writer = record({"name": "v", "type": odd}, {"name": "w", "type": {**odd, "name": "G"}})
    text, changed = grown(lenient(record({"name": "v", "type": {**kind, **DECIMAL}})), writer)
    assert (changed, columns(text)) == (("w",), {"v": pa.decimal128(9, 2), "w": pa.binary()})
    plain = json.loads(record({"name": "v", "type": kind}, {"name": "w", "type": {**kind, "name": "G"}}))
    decoded = decode(decoder(json.loads(text), {1: json.loads(writer)}), encoded(plain, {"v": b"\x7d", "w": b"x"}))
    assert (decoded.rows.to_pylist(), decoded.refused) == ([{"v": Decimal("1.25"), "w": b"x"}], [])


@pytest.mark.parametrize("kind", ["string", "bytes"])
def test_what_text_and_bytes_are_called_counts_for_nothing(kind: str) -> None:
    reader, writer = (record({"name": "v", "type": {"type": kind, "logicalType": name}}) for name in ("uuid", "email"))
    plain = json.loads(record({"name": "v", "type": kind}))
    value: Any = "x" if kind == "string" else b"x"
    decoded = decode(decoder(json.loads(lenient(reader)), {1: json.loads(writer)}), encoded(plain, {"v": value}))
    assert (decoded.rows.to_pylist(), decoded.refused) == ([{"v": value}], [])


def test_what_becomes_no_column_is_named_also_inside() -> None:
    reader = lenient(record(ID, {"name": "places", "type": {"type": "array", "items": PLACE}}))
    union = {"name": "any", "type": ["int", "string"]}
    inside = {**PLACE, "fields": [*PLACE["fields"], union]}
    writer = record({"name": "places", "type": {"type": "array", "items": inside}}, ID, union)
    assert grown(reader, writer)[1] == ()
    assert left_out(reader, writer) == ("places.element.any", "any")


@pytest.mark.parametrize(("wide", "most"), [("double", 2**53), ("float", 2**24)])
def test_an_integer_of_more_digits_than_the_column_has_is_a_dead_letter_and_no_other_number(
    wide: str, most: int
) -> None:
    """At the top and inside; a smaller one is a row. Also the largest long, which a double rounds up."""
    fields: list[dict[str, Any]] = [
        {"name": "v", "type": "long"},
        {"name": "l", "type": {"type": "array", "items": "long"}},
    ]
    writer = json.loads(record(*fields))
    reader = json.loads(
        lenient(record({"name": "v", "type": wide}, {"name": "l", "type": {"type": "array", "items": wide}}))
    )
    rows = [
        {"v": most, "l": [-most]},
        {"v": most + 1, "l": []},
        {"v": 0, "l": [1, -most - 1]},
        {"v": 2**63 - 1, "l": []},
        {"v": 2 * most, "l": [-most * 5]},
    ]
    decoded = decode(decoder(reader, {1: writer}), *(encoded(writer, row) for row in rows))
    assert decoded.rows.to_pylist() == [
        {"v": float(most), "l": [-float(most)]},
        {"v": 2.0 * most, "l": [-5.0 * most]},
    ]
    assert [each.number for each in decoded.refused] == [1, 2, 3]
    number = most + 1
    assert decoded.refused[0].why.endswith(f"field v, byte 6: {number} has more digits than a {wide} keeps")


def test_a_float_column_takes_no_integer_that_is_another_one_by_its_text() -> None:
    """2^60 is a float; where readers widen the column they do so by its text, and show 1152921500000000000."""
    writer, wider = (json.loads(record({"name": "v", "type": kind})) for kind in ("long", "float"))
    numbers = (2**60, -(2**30), 5_000_000_000, 1 << 25)
    decoded = decode(
        decoder(json.loads(lenient(json.dumps(wider))), {1: writer}),
        *(encoded(writer, {"v": each}) for each in numbers),
    )
    assert decoded.rows.column("v").to_pylist() == [5e9, float(1 << 25)]
    assert [each.number for each in decoded.refused] == [0, 1]
    for number, column in product(numbers, (pa.float32(), pa.float64())):
        fits = column == pa.float64() or number in {5_000_000_000, 1 << 25}
        with nullcontext() if fits else pytest.raises(pa.ArrowInvalid, match="more digits than a float keeps"):
            exact(pa.array([number]), column)


def test_a_column_that_became_a_double_takes_no_long_of_more_digits() -> None:
    text, changed = grown(lenient(record({"name": "v", "type": "int"})), record({"name": "v", "type": "double"}))
    assert changed == ("v",)
    writer = json.loads(record({"name": "v", "type": "long"}))
    decoded = decode(decoder(json.loads(text), {1: writer}), encoded(writer, {"v": 2**53 + 1}))
    assert (decoded.rows.num_rows, len(decoded.refused)) == (0, 1)


def test_a_float_is_the_double_of_its_text_as_in_rows_of_before() -> None:
    """Readers and compactions convert rows of before by their text; one message more that is not in bulk."""
    text, _ = grown(lenient(record({"name": "v", "type": "float"})), record({"name": "v", "type": "double"}))
    writer = json.loads(record({"name": "v", "type": "float"}))
    values = [0.1, -0.0, 3.0e38, 1e-45, float("inf")]
    found = decoder(json.loads(text), {1: writer})
    decoded = decode(found, *(encoded(writer, {"v": each}) for each in values))
    assert [str(each) for each in decoded.rows.column("v").to_pylist()] == ["0.1", "-0.0", "3e+38", "1e-45", "inf"]
    assert found.decode(pa.array([encoded(writer, {"v": 0.1}) + b"!"], pa.binary())).rows.num_rows == 0
    exact = ExactDecoder(resolved(read_writer(json.dumps(writer)), read_reader(text), found.schema), found.schema)
    assert exact.decode(encoded(writer, {"v": 0.1})[5:]) == {"v": 0.1}


NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}
NODE_OF_ONE = {"v": 1, "next": None}
TREE = {"type": "record", "name": "Tree", "fields": [{"name": "under", "type": {"type": "array", "items": "Tree"}}]}


def test_a_new_field_of_a_type_inside_itself_is_left_out_and_the_others_are_columns() -> None:
    note = {"name": "note", "type": "string"}
    place = {**PLACE, "fields": [*PLACE["fields"], {"name": "path", "type": ["null", "Node"]}]}
    writer = record(
        {"name": "chain", "type": NODE}, ID, {"name": "tree", "type": TREE}, {"name": "place", "type": place}, note
    )
    reader = lenient(record(ID, {"name": "place", "type": PLACE}))
    text, changed = grown(reader, writer)
    assert changed == ("note",)
    assert left_out(text, writer) == ("chain", "tree", "place.path")
    found = decoder(json.loads(text), {1: json.loads(writer)})
    deep: dict[str, Any] = {"v": 0, "next": None}
    for v in range(1, 5):
        deep = {"v": v, "next": deep}
    messages = [
        {"chain": chain, "id": "a", "tree": tree, "place": {"x": 1, "path": chain}, "note": "n"}
        for chain, tree in [
            (deep, {"under": [{"under": []}, {"under": [{"under": []}]}]}),
            (NODE_OF_ONE, {"under": []}),
        ]
    ]
    decoded = decode(found, *(encoded(json.loads(writer), each) for each in messages))
    assert decoded.refused == []
    assert decoded.one_by_one == 0
    assert decoded.rows.to_pylist() == [{"id": "a", "place": {"x": 1}, "note": "n"}] * 2


def test_a_type_inside_itself_that_is_too_deep_is_one_dead_letter() -> None:
    writer = json.loads(record({"name": "chain", "type": NODE}, ID))
    found = decoder(json.loads(lenient(record(ID))), {1: writer})
    row = encoded(writer, {"chain": NODE_OF_ONE, "id": "a"})
    chain = b"\x02\x02" * 100_000 + b"\x02\x00"
    decoded = decode(found, row, row[:5] + chain + row[7:], row)
    assert decoded.rows.to_pylist() == [{"id": "a"}] * 2
    (refused,) = decoded.refused
    assert refused.number == 1
    assert refused.why.endswith("types are inside each other too often")


def test_a_type_that_cannot_end_is_a_dead_letter() -> None:
    endless = {"type": "record", "name": "Endless", "fields": [{"name": "e", "type": "Endless"}]}
    writer = json.loads(record(ID, {"name": "e", "type": endless}))
    found = decoder(json.loads(lenient(record(ID))), {1: writer})
    decoded = decode(found, b"\0\0\0\0\1\x02a")
    assert (decoded.rows.num_rows, len(decoded.refused)) == (0, 1)


def test_without_wider_types_only_new_fields_become_columns() -> None:
    reader = lenient(record(ID, {"name": "n", "type": "int"}, {"name": "d", "type": "double"}))
    more = record(ID, {"name": "d", "type": "float"}, {"name": "note", "type": "string"})
    assert grown(reader, more, widens=False)[1] == ("note",)
    wider = record(ID, {"name": "n", "type": "long"}, {"name": "note", "type": "string"})
    assert grown(reader, wider)[1] == ("n", "note")
    assert grown(reader, wider, widens=False) == (reader, ()), "its messages are dead letters"


def test_a_column_that_came_while_the_job_ran_has_the_default_that_it_has_after_a_start() -> None:
    """Also inside, but for a default that is no value of the type."""
    inside = {"type": "record", "name": "In", "fields": [{"name": "m", "type": "int", "default": 3}]}
    fields: list[dict[str, Any]] = [
        {"name": "n", "type": "int", "default": 7},
        {"name": "bad", "type": "int", "default": "seven"},
        {"name": "s", "type": ["null", "string"], "default": None},
        {"name": "in", "type": inside, "default": {}},
    ]
    old, new = record(ID), record(ID, *fields)
    writer = json.loads(old)
    expected = [{"id": "a", "n": 7, "bad": None, "s": None, "in": {"m": 3}}]
    for text in (lenient(new), grown(lenient(old), new)[0]):
        decoded = decode(decoder(json.loads(text), {1: writer}), encoded(writer, {"id": "a"}))
        assert decoded.refused == []
        assert decoded.rows.to_pylist() == expected


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"name": "a", "type": [["null", "int"]]}, "has a union inside a union"),
        ({"name": "a", "type": ["null", {"type": ["null", "int"]}]}, "has a union inside a union"),
        ({"name": "a", "type": "int", "aliases": "b"}, "has aliases that are no list"),
        ({"name": "a", "type": "int", "aliases": [1]}, "has 1 in the place of a name"),
        ({"name": None, "type": "Nope"}, "has None in the place of a name"),
        ({"name": "b", "type": {"type": "record", "name": "R", "namespace": 5, "fields": []}}, "has 5 in the place of"),
        ({"name": "id", "type": "float"}, "has the column id twice"),
        ({"name": "b", "type": {"type": "enum", "name": "E", "symbols": []}}, "has the enum E without symbols"),
        ({"name": "b", "type": {"type": "enum", "name": "E", "symbols": ["A", 1]}}, "or with one that is no text"),
    ],
)
def test_a_registry_that_takes_anything_may_have_what_is_no_schema(field: Any, why: str) -> None:
    """Its messages are dead letters: the job goes on."""
    reader = lenient(json.dumps({"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}))
    writer = json.dumps({"type": "record", "name": "r", "fields": [{"name": "id", "type": "int"}, field]})
    for look in (grown, left_out):
        with pytest.raises(UnreadableSchema, match=why):
            look(reader, writer)


def test_aliases_that_are_null_are_none() -> None:
    field = {"name": "a", "type": "int", "aliases": None}
    assert columns(lenient(json.dumps({"type": "record", "name": "r", "aliases": None, "fields": [field]}))) == {
        "a": pa.int32()
    }


MEMBERS = {"type": "record", "name": "M", "fields": [{"name": "member0", "type": "int"}]}


@pytest.mark.parametrize("kind", [LOCAL, {"type": "array", "items": {"type": "map", "values": LOCAL}}, MEMBERS])
def test_a_new_field_that_no_table_can_have_is_left_out_and_the_others_are_columns(kind: Any) -> None:
    writer = record(ID, {"name": "local", "type": kind}, {"name": "n", "type": "long"})
    text, added = grown(lenient(record(ID)), writer)
    assert (list(columns(text)), added) == (["id", "n"], ("n",))
    assert left_out(text, writer) == ("local",)
