"""A schema and those it refers to become one text that any reader of Avro schemas takes."""

from __future__ import annotations

import json
from typing import Any

import fastavro
import pytest

from bucketingest.decode.avro.references import UnjoinableSchema, self_contained
from bucketingest.decode.avro.schema import read_reader

MONEY = {"type": "record", "name": "Money", "namespace": "a", "fields": [{"name": "cents", "type": "long"}]}
LINE = {
    "type": "record",
    "name": "b.Line",
    "fields": [
        {"name": "price", "type": "a.Money"},
        {"name": "more", "type": ["null", {"type": "map", "values": "Kind"}]},
    ],
}
KIND = {"type": "enum", "name": "Kind", "namespace": "b", "symbols": ["X"]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "b",
    "fields": [
        {"name": "lines", "type": {"type": "array", "items": "Line"}},
        {"name": "total", "type": "a.Money"},
        {"name": "kind", "type": "Kind"},
    ],
}


def test_each_type_is_defined_where_it_is_first_used() -> None:
    text = self_contained(json.dumps(ORDER), [json.dumps(each) for each in (MONEY, KIND, LINE)])
    fastavro.parse_schema(json.loads(text))  # raises for a name that is unknown, or defined twice
    lines, total, kind = read_reader(text)["fields"]
    assert [field["name"] for field in lines["type"]["items"]["fields"]] == ["price", "more"]
    assert total["type"]["fields"] == [{"name": "cents", "type": {"type": "long"}}]
    assert kind["type"]["symbols"] == ["X"]


@pytest.mark.parametrize("first", ["inner", "outer"])
def test_a_type_that_is_defined_inside_a_reference_is_known_by_its_name(first: str) -> None:
    outer = {"type": "record", "name": "b.Outer", "fields": [{"name": "kind", "type": KIND}]}
    fields = [{"name": "inner", "type": "b.Kind"}, {"name": "outer", "type": ["null", "b.Outer"]}]
    order = {"type": "record", "name": "a.Order", "fields": fields if first == "inner" else fields[::-1]}
    text = self_contained(json.dumps(order), [json.dumps(outer)])
    fastavro.parse_schema(json.loads(text))
    found = {field["name"]: field["type"] for field in read_reader(text)["fields"]}
    assert found["inner"]["symbols"] == found["outer"][1]["fields"][0]["type"]["symbols"] == ["X"]


def test_a_schema_without_references_stays_as_it_is() -> None:
    assert self_contained(" {} ", []) == " {} "


@pytest.mark.parametrize("reference", ["{", "[]", '"string"', '{"type": "record"}'])
def test_references_that_are_no_named_types_are_told(reference: str) -> None:
    with pytest.raises(UnjoinableSchema, match="no Avro schemas"):
        self_contained(json.dumps(ORDER), [reference])
