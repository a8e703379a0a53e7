"""Reads an Avro schema far enough to say whether messages of it can be decoded here, and writes out the types that it
names.

What Spark or Java's Avro might read otherwise than it looks is left to them. This module needs no Arrow: `validate`
runs without it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

AvroFields = list[dict[str, Any]]
"""Fields of a record, each named type written out where it is used."""
AvroRecord = dict[str, Any]
"""A record with such `fields`."""

_PRIMITIVES: Final = frozenset(["boolean", "int", "long", "float", "double", "string", "bytes"])
_KEYS: Final[dict[str, frozenset[str]]] = {
    "record": frozenset(["name", "namespace", "fields"]),
    "enum": frozenset(["name", "namespace", "symbols", "default"]),
    "fixed": frozenset(["name", "namespace", "size", "logicalType", "precision", "scale"]),
    "array": frozenset(["items"]),
    "map": frozenset(["values"]),
}
_KEYS_OF_PRIMITIVES: Final = frozenset(["logicalType", "precision", "scale"])
_IGNORED: Final = re.compile(r"type|doc|aliases|avro\.java\.string|connect\..*")
"""What does not change how Spark decodes: with `avro.java.string` it only holds the same text in another class."""
_NULLS: Final = ("null", {"type": "null"})
_FIELD_KEYS: Final = frozenset(["name", "type", "default", "order"])


class UnreadableSchema(Exception):
    """The schema is left to Spark. The text follows "spec.format.schema"."""


def read_fields(text: str) -> AvroFields:
    """The fields of the record, if Spark decodes them as it looks. Raises UnreadableSchema."""
    return _read(text, _Names())["fields"]


def read_reader(text: str) -> AvroRecord:
    """The record that messages of any schema are read as, by Avro's own rules. Raises UnreadableSchema."""
    return _read(text, _Names(by_avro=True))


def read_writer(text: str) -> AvroRecord:
    """The record that messages were written as: a reader may do without a field that `read_reader` does not take.

    Raises UnreadableSchema.
    """
    return _read(text, _Names(by_avro=True, any_type=True))


def _read(text: str, names: _Names) -> AvroRecord:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableSchema("is no JSON") from error
    try:
        written = names.written(schema, "")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableSchema("is no Avro schema") from error
    if not isinstance(written, dict) or written["type"] != "record":
        raise UnreadableSchema("is not a record")
    names.check_aliases()
    return written


class _Names:
    """`by_avro`: attributes beyond Avro's count for nothing, and an alias is one of a reader's. `any_type`: any union,
    null as a type, and records without fields are allowed too.
    """

    def __init__(self, *, by_avro: bool = False, any_type: bool = False) -> None:
        self._by_avro = by_avro
        self._any_type = any_type
        self._known: dict[str, dict[str, Any] | None] = {}
        """Full name to type, None while its definition is read."""
        self._names: set[str] = set()
        self._aliases: set[str] = set()

    def check_aliases(self) -> None:
        """An alias that is also a name would make Avro read one for the other."""
        if not self._by_avro and (clash := sorted(self._names & self._aliases)):
            raise UnreadableSchema(f"has the alias {clash[0]}, which is also a name")

    def written(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            known = schema in _PRIMITIVES or (self._any_type and schema == "null")
            return {"type": schema} if known else self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        kind = schema["type"]
        if self._any_type and kind == "null":
            return {"type": kind}
        if not isinstance(kind, str) and self._by_avro:  # its further attributes count for nothing
            return self.written(kind, namespace)
        if not isinstance(kind, str):
            raise UnreadableSchema("has a type inside a type")
        if kind not in _PRIMITIVES and kind not in _KEYS:
            if kind == "null" or set(schema) != {"type"}:
                raise UnreadableSchema(f"has the type {kind}")
            return self._named(kind, namespace)
        self._note(schema, _KEYS.get(kind, _KEYS_OF_PRIMITIVES))
        match kind:
            case "array":
                return {"type": kind, "items": self.written(schema["items"], namespace)}
            case "map":
                return {"type": kind, "values": self.written(schema["values"], namespace)}
            case "record" | "enum" | "fixed":
                return self._definition(schema, namespace)
        return schema

    def _note(self, schema: dict[str, Any], known: frozenset[str]) -> None:
        for key in schema:
            if not self._by_avro and key not in known and not _IGNORED.fullmatch(key):
                raise UnreadableSchema(f"has the attribute {key}")
        self._aliases.update(alias.rpartition(".")[2] for alias in schema.get("aliases", []))
        if "name" in schema:
            self._names.add(schema["name"].rpartition(".")[2])

    def _definition(self, schema: dict[str, Any], namespace: str) -> dict[str, Any]:
        space, _, name = schema["name"].rpartition(".")
        space = space or schema.get("namespace", namespace)
        full_name = f"{space}.{name}" if space else name
        self._known[full_name] = None
        found = dict(schema)
        if schema["type"] == "record":
            found["fields"] = self._fields(schema["fields"], space)
        elif schema["type"] == "fixed" and not schema["size"] > 0:
            raise UnreadableSchema(f"has the type {name} of no bytes")
        self._known[full_name] = found
        return found

    def _fields(self, fields: list[dict[str, Any]], namespace: str) -> AvroFields:
        found: AvroFields = []
        for field in fields:
            self._note(field, _FIELD_KEYS)
            kept: dict[str, Any] = {key: field[key] for key in ("default", "aliases") if key in field}
            found.append({"name": field["name"], "type": self.written(field["type"], namespace), **kept})
        if self._any_type:
            return found
        if len({field["name"].lower() for field in found}) < len(found):
            raise UnreadableSchema("has two names that differ in case only")
        if not found:
            raise UnreadableSchema("has a record without fields")
        return found

    def _union(self, branches: list[Any], namespace: str) -> list[Any]:
        others = [branch for branch in branches if branch not in _NULLS]
        if self._any_type:
            return ["null" if branch in _NULLS else self.written(branch, namespace) for branch in branches]
        if len(others) != 1 or len(branches) > 2 or isinstance(others[0], list):
            raise UnreadableSchema("has a union of other than null and one type")
        return ["null" if branch in _NULLS else self.written(branch, namespace) for branch in branches]

    def _named(self, name: str, namespace: str) -> dict[str, Any]:
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        if full_name not in self._known:
            raise UnreadableSchema(f"has the type {name}")
        found = self._known[full_name]
        if found is None:
            raise UnreadableSchema(f"has the type {name} inside itself")
        return found
