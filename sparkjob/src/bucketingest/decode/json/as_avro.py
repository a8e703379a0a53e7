"""The columns of a JSON Schema as an Avro schema, in whose terms columns grow whatever the messages' format is.

A JSON Schema says what a message may be. Where that is less than one type the column is STRING, which takes every value
as the message has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote

from bucketingest.decode.avro.growth import value_of
from bucketingest.decode.avro.schema import UnreadableSchema

ANY: Final = {"type": "string", "any": True}
"""The type of values of which the schema says less than one type."""
NOTHING: Final = {**ANY}
"""The same where the schema says nothing of the type."""
_TYPES: Final = {"integer": "long", "number": "double", "string": "string", "boolean": "boolean"}
_KINDS: Final = {**{avro: kind for kind, avro in _TYPES.items()}, "record": "object", "map": "object", "array": "array"}
_SEVERAL: Final = ("one", "of several")
_ONE_OF: Final = ("oneOf", "anyOf")
_IF: Final = ("then", "else")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
NODES_MAX: Final = 20_000
"""Schemas inside a schema, each as often as it is referred to."""


def with_references(text: str, references: Mapping[str, str]) -> str:
    """One text of a JSON Schema and of those that it refers to, by their names."""
    return json.dumps({**references, "": text})


@lru_cache(256)
def columns_text(together: str) -> str:
    """The Avro schema of the columns of a JSON Schema `with_references`. Raises UnreadableSchema."""
    try:
        documents = {name: json.loads(each) for name, each in json.loads(together).items()}
        found = _Reading(documents).type({"$ref": "#"}, "", frozenset())
        made = json.dumps(found)
    except RecursionError as error:
        raise UnreadableSchema("has more levels than can be read") from error
    except ValueError as error:
        raise UnreadableSchema("is no JSON") from error
    except (TypeError, AttributeError, KeyError, IndexError) as error:
        raise UnreadableSchema("is no JSON Schema") from error
    if found["type"] != "record":
        raise UnreadableSchema("is no JSON Schema of an object with properties")
    return made


class _Reading:
    """`documents`: schemas by their names; the one that is read has none."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._count = 0

    def type(self, schema: Any, base: str, around: frozenset[str]) -> dict[str, Any]:
        """Of a schema in the document `base`. `around`: the references that led here."""
        self._count += 1
        if self._count > NODES_MAX:
            raise UnreadableSchema(f"has more than {NODES_MAX} schemas inside")
        kinds: set[str] = set()
        fields: dict[str, dict[str, Any]] = {}
        inside: list[dict[str, Any]] = []
        parts = self._parts(schema, base, around)
        for part, where, led in parts:
            named = part.get("type", [])
            kinds.update([named] if isinstance(named, str) else named)
            for name, each in part.get("properties", {}).items():
                fields.setdefault(name, self._field(name, each, where, led))
            values = part.get("items", part.get("additionalProperties"))
            if isinstance(values, dict):
                inside.append(self.type(values, where, led))
        for part, where, led in parts:
            for choices in _choices(part):
                if len(choices) > 1:
                    kinds.update(self._either(choices, where, led, fields))
        kinds.discard("null")
        if kinds == {"integer", "number"}:
            kinds = {"number"}
        if fields and kinds <= {"object"}:
            # One name for all: what a type is called says nothing about its columns.
            return {"type": "record", "name": "object", "fields": list(fields.values())}
        if len(kinds) != 1:
            return ANY if kinds or inside else NOTHING
        (kind,) = kinds
        if kind in {"array", "object"} and len(inside) == 1:
            return {"type": "array", "items": inside[0]} if kind == "array" else {"type": "map", "values": inside[0]}
        return {"type": _TYPES[kind]} if kind in _TYPES else ANY

    def _field(self, name: str, schema: Any, base: str, around: frozenset[str]) -> dict[str, Any]:
        if _NAME.fullmatch(name) is None:
            return {"name": name, "type": {"type": "null", "why": f"has the name {name!r}, which no column can have,"}}
        return {"name": name, "type": self.type(schema, base, around)}

    def _parts(
        self, schema: Any, base: str, around: frozenset[str]
    ) -> list[tuple[dict[str, Any], str, frozenset[str]]]:
        """The schemas that all hold of a value that is not null, where they are, and what led to them. What says
        nothing, as a type inside itself does here, is none of them.
        """
        if not isinstance(schema, dict):
            return []
        found = [(schema, base, around)]
        if isinstance(reference := schema.get("$ref"), str):
            name, _, pointer = reference.partition("#")
            name = name or base
            place = f"{name}#{pointer}"
            if place not in around:
                found += self._parts(self._at(name, pointer), name, around | {place})
        for each in schema.get("allOf", ()):
            found += self._parts(each, base, around)
        for choices in _choices(schema):
            if len(choices) == 1:
                found += self._parts(choices[0], base, around)
        return found

    def _either(
        self, choices: list[Any], base: str, around: frozenset[str], fields: dict[str, dict[str, Any]]
    ) -> set[str]:
        """The kinds of values that the choices leave, none if one leaves all. Their properties are added to `fields`:
        each may be there.
        """
        kinds: set[str] = set()
        others: dict[str, dict[str, Any]] = {}
        leaves_all = False
        for each in choices:
            made = self.type(each, base, around)
            for field in made.get("fields", ()):
                same = others.setdefault(field["name"], field)["type"] == field["type"]
                others[field["name"]] = field if same else {"name": field["name"], "type": ANY}
            leaves_all |= made is NOTHING
            kinds.update(_SEVERAL if made == ANY else [_KINDS[made["type"]]])
        for name, field in others.items():
            fields.setdefault(name, field)
        return set() if leaves_all else kinds

    def _at(self, name: str, pointer: str) -> Any:
        if name not in self._documents:
            raise UnreadableSchema(f"refers to {name}, which the registry does not have among its references")
        found = self._documents[name]
        for each in filter(None, unquote(pointer).split("/")):
            step = each.replace("~1", "/").replace("~0", "~")
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found


def _choices(schema: dict[str, Any]) -> list[list[Any]]:
    """Each keyword's schemas of which a value that is not null has one, or has it if something else holds."""
    found = [[each for each in schema.get(name, ()) if _kind(each) != "null"] for name in _ONE_OF]
    held = [schema[name] for name in _IF if name in schema] + list(schema.get("dependentSchemas", {}).values())
    return [*found, [*held, True] if held else []]


def _kind(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, dict) else None


def fitted_to(reader: Any, writer: Any) -> Any:
    """The writer's type with the reader's where each value is looked at: STRING takes all, and what the schema does not
    say may be anything. Both are Avro's, in an array, a map or a record each.
    """
    one, other = value_of(reader), value_of(writer)
    if one is None or other is None:
        return writer
    kinds = one["type"], other["type"]
    if kinds[0] == "string" or other.get("any") or kinds == ("long", "double"):
        return one
    match kinds:
        case "record", "record":
            known = {each["name"]: each["type"] for each in one["fields"]}
            fields = [
                {**each, "type": fitted_to(known[each["name"]], each["type"])} if each["name"] in known else each
                for each in other["fields"]
            ]
            return {**other, "fields": fields}
        case "array", "array":
            return {**other, "items": fitted_to(one["items"], other["items"])}
        case "map", "map":
            return {**other, "values": fitted_to(one["values"], other["values"])}
        case "map", "record":  # the schema names some of the keys now
            values = [fitted_to(one["values"], each["type"]) for each in other["fields"]]
            if values == values[:1] * len(values):
                return {"type": "map", "values": values[0]}
    return writer
