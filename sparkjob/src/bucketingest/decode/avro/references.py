"""Makes one text of a schema and of those that it refers to in a registry: a reader of Avro schemas knows no others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

_INNER: Final = ("items", "values", "type")
LENGTH_MAX: Final = 4 * 1024**2


class UnjoinableSchema(Exception):
    """The texts are not schemas of Avro that belong together."""


def self_contained(text: str, references: Sequence[str]) -> str:
    """The schema, with each type of the references, also one that is defined inside another, defined where it is first
    used. Raises UnjoinableSchema.
    """
    if not references:
        return text
    try:
        others: dict[str, Any] = {}
        for each in references:
            schema = json.loads(each)
            _full_name(schema, "")  # it has a name: that is how others refer to it
            _collect(schema, "", others)
        joined = json.dumps(_Joining(others).joined(json.loads(text), ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnjoinableSchema("its references are no Avro schemas") from error
    if len(joined) > LENGTH_MAX:
        raise UnjoinableSchema("its references make it too long")
    return joined


class _Joining:
    def __init__(self, others: dict[str, Any]) -> None:
        self._others = others
        """Full name to definition."""
        self._defined: set[str] = set()

    def joined(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, str):
            name = schema if "." in schema or not namespace else f"{namespace}.{schema}"
            if name not in self._others or name in self._defined:
                return schema
            # Its own namespace: it may be defined inside a type of another one.
            return self.joined(_with_full_name(self._others[name], name), "")
        if isinstance(schema, list):
            return [self.joined(each, namespace) for each in schema]
        if not isinstance(schema, dict):
            return schema
        if "name" in schema:
            full_name = _full_name(schema, namespace)
            if full_name in self._defined:  # it was used before the type that defines it
                return full_name
            self._defined.add(full_name)
            namespace = full_name.rpartition(".")[0]
        found = {key: self.joined(each, namespace) if key in _INNER else each for key, each in schema.items()}
        if "fields" in found:
            found["fields"] = [{**each, "type": self.joined(each["type"], namespace)} for each in found["fields"]]
        return found


def _collect(schema: Any, namespace: str, found: dict[str, Any]) -> None:
    """Add all definitions in a schema, by their full names."""
    if isinstance(schema, list):
        for each in schema:
            _collect(each, namespace, found)
    if not isinstance(schema, dict):
        return
    if "name" in schema:
        full_name = _full_name(schema, namespace)
        found.setdefault(full_name, schema)
        namespace = full_name.rpartition(".")[0]
    for key in _INNER:
        _collect(schema.get(key), namespace, found)
    for field in schema.get("fields", ()):
        _collect(field["type"], namespace, found)


def _full_name(schema: dict[str, Any], namespace: str) -> str:
    space, _, name = schema["name"].rpartition(".")
    space = space or schema.get("namespace", namespace)
    return f"{space}.{name}" if space else name


def _with_full_name(schema: dict[str, Any], name: str) -> dict[str, Any]:
    space, _, own = name.rpartition(".")
    return {**schema, "name": own, "namespace": space}
