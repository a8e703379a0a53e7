"""Reads an Avro schema as far as messages of it can be decoded, and writes out the types that it names.

This module needs no Arrow.
"""

from __future__ import annotations

import json
from typing import Any, Final

from bucketingest.decode.ddl import same_names

AvroFields = list[dict[str, Any]]
"""Fields of a record, each named type written out where it is used. In a writer's a type may be inside itself."""
AvroRecord = dict[str, Any]
"""A record with such `fields`."""

_PRIMITIVES: Final = frozenset(["boolean", "int", "long", "float", "double", "string", "bytes"])
_COMPLEX: Final = frozenset(["record", "enum", "fixed", "array", "map"])
_TEXTS: Final = ("logicalType", "connect.name")
"""Attributes that say what a type means."""
_NULLS: Final = ("null", {"type": "null"})
_SCALE_MAX: Final = 38
_LEVELS_MAX: Final = 100
"""Records, arrays and maps inside each other: all that reads a schema calls itself for each."""
_TYPES_MAX: Final = 10_000
"""Types, each counted wherever it is used: one that is named twice in the next, and so on, doubles with each level."""


class UnreadableSchema(Exception):
    """Messages of the schema cannot be decoded. The text follows "spec.format.schema"."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path: list[str] = []
        """Names of the fields around it, innermost first."""

    def __str__(self) -> str:
        return f"{self.why} in field {'.'.join(reversed(self.path))}" if self.path else self.why


def read_record(text: str) -> AvroRecord:
    """The record whose fields are columns, by Avro's own rules: attributes that Avro lacks count for nothing. A union
    of several types becomes a struct of its members.

    Raises UnreadableSchema.
    """
    return _read(text, _Names())


def read_reader(text: str) -> AvroRecord:
    """The same for messages of any schema: without unions of several types. Raises UnreadableSchema."""
    return _read(text, _Names(unions=False))


def read_writer(text: str) -> AvroRecord:
    """The record that messages were written as: a reader may do without a field that `read_reader` does not take.

    Raises UnreadableSchema.
    """
    return _read(text, _Names(any_type=True))


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
    types, levels = _size(written, {})
    if levels > _LEVELS_MAX:
        raise UnreadableSchema(f"has {levels} levels, and not more than {_LEVELS_MAX} are read")
    if types > _TYPES_MAX:
        raise UnreadableSchema(f"has {types} types, named ones written out, and not more than {_TYPES_MAX} are read")
    return written


def _size(schema: Any, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Types in it, and levels. `known`: of those that were looked at; one that is inside itself counts once there."""
    if isinstance(schema, list):
        sizes = [_size(each, known) for each in schema]
        return sum(types for types, _ in sizes), max((levels for _, levels in sizes), default=0)
    if not isinstance(schema, dict):
        return 1, 0
    if id(schema) in known:
        return known[id(schema)]
    known[id(schema)] = 1, 0
    inside = [field["type"] for field in schema["fields"]] if schema["type"] == "record" else []
    inside += [schema[key] for key in ("items", "values") if schema["type"] in ("array", "map") and key in schema]
    types, levels = _size(inside, known)
    known[id(schema)] = types + 1, levels + bool(inside)
    return known[id(schema)]


class _Names:
    """`unions`: those of several types, too. `any_type`: what can be no column, too, since it is only passed over."""

    def __init__(self, *, unions: bool = True, any_type: bool = False) -> None:
        self._unions = unions
        self._any_type = any_type
        self._known: dict[str, dict[str, Any]] = {}
        """Full name to type."""
        self._unfinished: set[str] = set()
        """Those whose definition is being read."""

    def written(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            known = schema in _PRIMITIVES or (self._any_type and schema == "null")
            return {"type": schema} if known else self._named(schema, namespace)
        if isinstance(schema, list):
            return self._union(schema, namespace)
        for key in _TEXTS:
            if not isinstance(schema.get(key, ""), str):
                del schema[key]  # to Avro it says nothing then
        kind = schema["type"]
        if kind == "null":
            if self._any_type:
                return {"type": kind}
            raise UnreadableSchema(_text(schema.get("why", "has the type null")))
        if not isinstance(kind, str):  # its further attributes count for nothing
            return self.written(kind, namespace)
        if kind not in _PRIMITIVES and kind not in _COMPLEX:
            return self._named(kind, namespace)
        match kind:
            case "array":
                return {"type": kind, "items": self.written(schema["items"], namespace)}
            case "map":
                return {"type": kind, "values": self.written(schema["values"], namespace)}
            case "record" | "enum" | "fixed":
                return self._definition(schema, namespace)
        self._check_decimal(schema)
        return schema

    def _check_decimal(self, schema: dict[str, Any]) -> None:
        if schema.get("logicalType") != "decimal":
            return
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or not precision:
            if not self._any_type:
                raise UnreadableSchema("has a decimal without a sensible precision and scale")
            del schema["logicalType"]  # Avro ignores it then
        elif scale > _SCALE_MAX and not self._any_type:
            raise UnreadableSchema(f"has a decimal with {scale} digits behind the point, and no column more than 38")

    def _definition(self, schema: dict[str, Any], namespace: str) -> dict[str, Any]:
        space, _, name = _text(schema["name"]).rpartition(".")
        space = _text(space or schema.get("namespace", namespace) or "")
        full_name = f"{space}.{name}" if space else name
        found = self._known[full_name] = _with_aliases(dict(schema))
        self._unfinished.add(full_name)
        if schema["type"] == "record":
            found["fields"] = self._fields(schema["fields"], space)
        elif schema["type"] == "fixed":
            if not 0 < schema["size"] < 2**31:
                raise UnreadableSchema(f"has the type {name} of {schema['size'] or 'no'} bytes")
            self._check_decimal(found)
        elif not schema["symbols"] or not all(map(_is_text, schema["symbols"])):
            raise UnreadableSchema(f"has the enum {name} without symbols, or with one that is no text")
        self._unfinished.discard(full_name)
        return found

    def _fields(self, fields: list[dict[str, Any]], namespace: str) -> AvroFields:
        found: AvroFields = []
        names: dict[str, str] = {}
        for field in fields:
            name = _text(field["name"])
            try:
                kind = self.written(field["type"], namespace)
            except UnreadableSchema as error:
                error.path.append(name)
                raise
            kept: dict[str, Any] = {key: field[key] for key in ("default", "aliases") if key in field}
            found.append(_with_aliases({"name": name, "type": kind, **kept}))
            other = names.setdefault(name if self._any_type else name.lower(), name)
            if len(names) < len(found):
                raise UnreadableSchema(same_names(other, name))
        if not found and not self._any_type:
            raise UnreadableSchema("has a record without fields")
        return found

    def _union(self, branches: list[Any], namespace: str) -> list[Any]:
        others = [branch for branch in branches if branch not in _NULLS]
        if not self._any_type:
            if not others or len(branches) > len(others) + 1 or any(isinstance(each, list) for each in others):
                raise UnreadableSchema("has a union without a type")
            if len(others) > 1 and not self._unions:
                raise UnreadableSchema("has a union of several types")
        written = ["null" if branch in _NULLS else self.written(branch, namespace) for branch in branches]
        if any(isinstance(each, list) for each in written):
            raise UnreadableSchema("has a union inside a union")
        return written

    def _named(self, name: str, namespace: str) -> dict[str, Any]:
        full_name = f"{namespace}.{name}" if namespace and "." not in name else name
        if full_name not in self._known:
            raise UnreadableSchema(
                f"has the type {name}, which is not defined," if name != "null" else "has the type null"
            )
        if full_name in self._unfinished and not self._any_type:
            raise UnreadableSchema(f"has the type {name} inside itself, which no column can be,")
        return self._known[full_name]


def _text(name: Any) -> str:
    if not _is_text(name):
        raise UnreadableSchema(f"has {name!r} in the place of a name")
    return str(name)


def _is_text(given: Any) -> bool:
    """JSON may have half a surrogate, which is no text."""
    return isinstance(given, str) and given == given.encode(errors="ignore").decode()


def _with_aliases(named: dict[str, Any]) -> dict[str, Any]:
    """With none instead of null."""
    aliases = named.get("aliases", [])
    if aliases is None:
        return {key: value for key, value in named.items() if key != "aliases"}
    if not isinstance(aliases, list):
        raise UnreadableSchema("has aliases that are no list")
    for each in aliases:
        _text(each)
    return named
