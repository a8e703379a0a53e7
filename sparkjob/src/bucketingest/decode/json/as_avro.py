"""The columns of a JSON Schema as an Avro schema, in whose terms columns grow whatever the messages' format is.

A JSON Schema says what a message may be. Where that is less than one type the column is STRING, which takes every value
as the message has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import Any, Final, NamedTuple

from bucketingest.decode.avro.growth import fitted, value_of
from bucketingest.decode.avro.schema import UnreadableSchema
from bucketingest.decode.json.references import Documents, base_of

ANY: Final = {"type": "string", "any": True}
"""The type of values of which the schema says less than one type. `of`: the objects, maps and arrays that they may be:
a column that is one of these has their fields.
"""
_TYPES: Final = {"integer": "long", "number": "double", "string": "string", "boolean": "boolean"}
_KINDS: Final = {**{avro: kind for kind, avro in _TYPES.items()}, "record": "object", "map": "object", "array": "array"}
_AROUND: Final = ("record", "map", "array")
_SEVERAL: Final = ("one", "of several")
_ONE_OF: Final = ("oneOf", "anyOf")
_IF: Final = ("then", "else")
_IF_THERE: Final = ("dependentSchemas", "dependencies")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OTHERS: Final = {"name": "(others)", "type": {"type": "null"}}
"""The members of a map that a record has no fields for: they are said to be left out."""
NODES_MAX: Final = 20_000
"""Schemas inside a schema, each as often as it is referred to."""


def with_references(text: str, references: Mapping[str, str]) -> str:
    """One text of a JSON Schema and of those that it refers to, by their names."""
    return json.dumps({**references, "": text})


@lru_cache(256)
def columns_text(together: str) -> str:
    """The Avro schema of the columns of a JSON Schema `with_references`. Raises UnreadableSchema."""
    try:
        return json.dumps(_Reading({name: json.loads(each) for name, each in json.loads(together).items()}).row())
    except RecursionError as error:
        raise UnreadableSchema("has more levels than can be read") from error
    except ValueError as error:
        raise UnreadableSchema("is no JSON") from error
    except (TypeError, AttributeError, KeyError, IndexError) as error:
        raise UnreadableSchema("is no JSON Schema") from error


class _Place(NamedTuple):
    """A schema, the URI by which its references count, and the references that led there."""

    schema: Any
    base: str
    around: frozenset[int]

    def at(self, schema: Any) -> _Place:
        """One inside it."""
        return self._replace(schema=schema)


class _Said(NamedTuple):
    """What schemas say of a value that is not null."""

    kinds: set[str]
    """JSON's types; none: nothing is said."""
    around: dict[str, dict[str, Any]]
    """What it is if it has others inside, by Avro's type: at most a record, a map and an array."""

    def type(self) -> dict[str, Any]:
        """In Avro's terms."""
        (kind,) = self.kinds if len(self.kinds) == 1 else [""]
        if kind in _TYPES:
            return {"type": _TYPES[kind]}
        is_record = not self.kinds and "record" in self.around
        names = ["array"] if kind == "array" else ["record", "map"] if kind == "object" or is_record else []
        found = next((self.around[name] for name in names if name in self.around), None)
        return found or ({**ANY, "of": self.around} if self.around else ANY)


class _Reading:
    """`documents`: schemas by their names; the one that is read has none."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = Documents(documents)
        self._count = 0

    def row(self) -> dict[str, Any]:
        """Of a message, which is an object whatever else its schema allows."""
        root = self._documents.root
        said = self._said([_Place(root, self._documents.base, frozenset([id(root)]))])
        if said.kinds and not said.kinds & {"object", *_SEVERAL}:
            raise UnreadableSchema("is no JSON Schema of an object")
        return said.around.get("record", _record([]))

    def _said(self, places: Sequence[_Place]) -> _Said:
        """Of a value of which all of them hold."""
        self._count += 1
        if self._count > NODES_MAX:
            raise UnreadableSchema(f"has more than {NODES_MAX} schemas inside")
        parts = [part for place in places for part in self._parts(place)]
        said = _Said(_kinds(part.schema["type"] for part in parts if "type" in part.schema), {})
        named: dict[str, list[_Place]] = {}
        for part in parts:
            for name, each in part.schema.get("properties", {}).items():
                named.setdefault(name, []).append(part.at(each))
        if named:
            said.around["record"] = _record(self._field(name, each) for name, each in named.items())
        if (items := _inside(parts, "items")) and not any(part.schema.get("prefixItems") for part in parts):
            said.around["array"] = {"type": "array", "items": self._said(items).type()}
        if values := _inside(parts, "additionalProperties"):
            said.around["map"] = {"type": "map", "values": self._said(values).type()}
        for part in parts:
            for choices in _choices(part.schema):
                if len(choices) > 1:
                    self._add_choices([part.at(each) for each in choices], said)
        said.kinds.discard("null")
        if "number" in said.kinds:
            said.kinds.discard("integer")
        return said

    def _field(self, name: str, places: Sequence[_Place]) -> dict[str, Any]:
        if _NAME.fullmatch(name) is None:
            return {"name": name, "type": {"type": "null", "why": f"has the name {name!r}, which no column can have,"}}
        return {"name": name, "type": self._said(places).type()}

    def _parts(self, place: _Place) -> list[_Place]:
        """The schemas that all hold of a value that is not null. A type inside itself says nothing, and is left out."""
        schema = place.schema
        if not isinstance(schema, dict):
            return []
        place = place._replace(base=base_of(schema, place.base))
        found = [place]
        for reference in (each for key in _REFERENCES if isinstance(each := schema.get(key), str)):
            other, base = self._documents.at(reference, place.base)
            if id(other) not in place.around:
                found += self._parts(_Place(other, base, place.around | {id(other)}))
        for each in schema.get("allOf", ()):
            found += self._parts(place.at(each))
        for choices in _choices(schema):
            if len(choices) == 1:
                found += self._parts(place.at(choices[0]))
        return found

    def _add_choices(self, places: Sequence[_Place], said: _Said) -> None:
        """What the choices leave, and nothing if one leaves all. Their properties are fields: each may be there."""
        kinds: set[str] = set()
        found: dict[str, dict[str, Any]] = {}
        leaves_all = False
        for each in map(self._said, ([place] for place in places)):
            made = each.type()
            kinds.update(_SEVERAL if made.get("any") else [_KINDS[made["type"]]])
            kinds.update(_SEVERAL if {made["type"], *found} >= {"record", "map"} else [])
            leaves_all |= not each.kinds and not each.around
            found = _together(found, each.around)
        said.around.update(_together(said.around, found, holds=True))
        said.kinds.update(set() if leaves_all else kinds)


def _record(fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """One name for all: what a type is called says nothing about its columns."""
    return {"type": "record", "name": "object", "fields": list(fields)}


def _kinds(types: Iterable[Any]) -> set[str]:
    """What all allow; an integer is a number."""
    found: set[str] = set()
    for given in types:
        if not isinstance(given, str | list):
            raise TypeError(given)
        named = {given} if isinstance(given, str) else set(given)
        allowed = named | {"integer"} if "number" in named else named
        found = found & allowed or found | allowed
    return found


def _inside(parts: Iterable[_Place], key: str) -> list[_Place]:
    return [part.at(part.schema[key]) for part in parts if isinstance(part.schema.get(key), dict)]


def _together(
    one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]], *, holds: bool = False
) -> dict[str, dict[str, Any]]:
    """Types by their names, of values of both."""
    both = {name: _of_both(one[name], other[name], holds=holds) for name in one if name in other}
    return {**one, **other, **both}


def _of_both(one: dict[str, Any], other: dict[str, Any], *, holds: bool = False) -> dict[str, Any]:
    """The type of values of both. `holds`: the first says what all of them are, and the other what some have."""
    match one["type"], other["type"]:
        case "record", "record":
            known, more = ({each["name"]: each["type"] for each in kind["fields"]} for kind in (one, other))
            return _record({"name": name, "type": each} for name, each in _together(known, more, holds=holds).items())
        case ("array", "array") | ("map", "map"):
            inside = "items" if one["type"] == "array" else "values"
            return {**one, inside: _of_both(one[inside], other[inside], holds=holds)}
    if one == other or (holds and not one.get("any")):
        return one
    around = _together(
        *({each["type"]: each} if each["type"] in _AROUND else each.get("of", {}) for each in (one, other))
    )
    return {**ANY, "of": around} if around else ANY


def _choices(schema: dict[str, Any]) -> list[list[Any]]:
    """Each keyword's schemas of which a value that is not null has one, or has it if something else holds."""
    found = [[each for each in schema.get(name, ()) if _kind(each) != "null"] for name in _ONE_OF]
    held = [schema[name] for name in _IF if name in schema]
    held += [each for name in _IF_THERE for each in schema.get(name, {}).values() if isinstance(each, dict)]
    return [*found, [*held, True] if held else []]


def _kind(schema: Any) -> Any:
    return schema.get("type") if isinstance(schema, dict) else None


def fitted_to(reader: Any, writer: Any) -> Any:
    """The writer's type with the reader's where each value is looked at: STRING takes all, and what the schema does not
    say may be anything. Both are Avro's, in an array, a map or a record each.
    """
    return fitted(reader, writer, _fit)


def _fit(one: dict[str, Any], other: dict[str, Any]) -> Any:
    kinds = one["type"], other["type"]
    if kinds[0] == "string" or kinds == ("long", "double"):
        return one
    match kinds:
        case "map", "record":  # the schema names some of the keys now
            types = [each["type"] for each in other["fields"]]
            return {**one, "values": _looked_at(one["values"], reduce(_of_both, types) if types else ANY)}
        case "record", "map":  # the schema names none of them any more
            fields = [{**each, "type": _looked_at(each["type"], other["values"])} for each in one["fields"]]
            return {**one, "fields": [*fields, _OTHERS]}
    if other.get("any"):
        return _looked_at(one, other.get("of", {}).get(one["type"], other))
    return other


def _looked_at(reader: Any, writer: Any) -> Any:
    """The same if values may be others than the writer's type says: what a column does not take is a dead letter."""
    one, found = value_of(reader), value_of(writer)
    assert one is not None, "a reader has no union of several types"
    return fitted_to(one, found) if found is not None and found["type"] == one["type"] else one
