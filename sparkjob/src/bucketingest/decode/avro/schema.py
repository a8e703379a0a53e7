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
_FIELD_KEYS: Final = frozenset(["name", "type", "default", "order"])


class UnreadableSchema(Exception):
    """The schema is left to Spark. The text follows "spec.format.schema"."""


def read_fields(text: str) -> AvroFields:
    """The fields of the record. Raises UnreadableSchema."""
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise UnreadableSchema("is no JSON") from error
    names = _Names()
    try:
        written = names.written(schema, "")
    except (KeyError, TypeError, AttributeError) as error:
        raise UnreadableSchema("is no Avro schema") from error
    if written["type"] != "record":
        raise UnreadableSchema("is not a record")
    names.check_aliases()
    return written["fields"]


class _Names:
    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any] | None] = {}
        """Full name to type, None while its definition is read."""
        self._names: set[str] = set()
        self._aliases: set[str] = set()

    def check_aliases(self) -> None:
        """An alias that is also a name would make Avro read one for the other."""
        if clash := sorted(self._names & self._aliases):
            raise UnreadableSchema(f"has the alias {clash[0]}, which is also a name")

    def written(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            return {"type": schema} if schema in _PRIMITIVES else self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        kind = schema["type"]
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
            if key not in known and not _IGNORED.fullmatch(key):
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
        found = []
        for field in fields:
            self._note(field, _FIELD_KEYS)
            found.append({"name": field["name"], "type": self.written(field["type"], namespace)})
        if len({field["name"].lower() for field in found}) < len(found):
            raise UnreadableSchema("has two names that differ in case only")
        if not found:
            raise UnreadableSchema("has a record without fields")
        return found

    def _union(self, branches: list[Any], namespace: str) -> list[Any]:
        others = [branch for branch in branches if branch != "null"]
        if len(others) != 1 or len(branches) > 2 or isinstance(others[0], list):
            raise UnreadableSchema("has a union of other than null and one type")
        return ["null" if branch == "null" else self.written(branch, namespace) for branch in branches]

    def _named(self, name: str, namespace: str) -> dict[str, Any]:
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        if full_name not in self._known:
            raise UnreadableSchema(f"has the type {name}")
        found = self._known[full_name]
        if found is None:
            raise UnreadableSchema(f"has the type {name} inside itself")
        return found
