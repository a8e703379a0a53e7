"""Fields that this version does not know: a newer definition or operator may name them, and must stop nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bucketingest.spec.base import SpecModel
from bucketingest.spec.fields.schema import inlined_schema
from bucketingest.spec.problems import Location, field_name


def without_unknown(model: type[SpecModel], document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A document without the fields that a model does not know, and their names as users write them. Pure."""
    found: list[str] = []
    known = _known(document, inlined_schema(model), (), found)
    return known, tuple(found)


def _known(node: Any, schema: Mapping[str, Any], where: Location, found: list[str]) -> Any:
    fields = schema.get("properties")
    if isinstance(node, Mapping) and fields:
        found += [field_name((*where, str(name))) for name in node if name not in fields]
        return {
            name: _known(value, fields[name], (*where, name), found) for name, value in node.items() if name in fields
        }
    values = schema.get("additionalProperties")
    if isinstance(node, Mapping) and isinstance(values, Mapping):
        return {name: _known(value, values, (*where, name), found) for name, value in node.items()}
    if isinstance(node, list) and "items" in schema:
        return [_known(each, schema["items"], (*where, index), found) for index, each in enumerate(node)]
    return node
