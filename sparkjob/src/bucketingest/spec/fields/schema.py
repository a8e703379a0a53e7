"""JSON schema of a spec model with everything in place (no references), for the CRD and for messages to users."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from bucketingest.spec.base import SpecModel


@cache
def inlined_schema(model: type[SpecModel]) -> dict[str, Any]:
    """Schema of a model: no `$ref`, no titles, optional fields without null, defaults as the user writes them.

    The default of a field that is a model has the defaults inside it written out: the API server checks CEL rules on a
    default as it stands, before the defaults of the fields inside are filled in (apiextensions-apiserver 0.35 refuses
    `{}` there). The result is shared: copy it before changing it.
    """
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return _resolve(schema, schema.get("$defs", {}), _written_defaults(model))


def with_defaults(schema: Mapping[str, Any], document: Any) -> Any:
    """A copy of a JSON document with absent fields filled in from the schema, as the API server does it.

    Fields that are null count as absent; whatever does not fit the schema is left as it is.
    """
    properties = schema.get("properties")
    if not isinstance(document, Mapping) or not properties:
        return document
    filled = {name: value for name, value in document.items() if value is not None}
    for name, part in properties.items():
        if name not in filled and "default" in part:
            filled[name] = part["default"]
        if name in filled:
            filled[name] = with_defaults(part, filled[name])
    return filled


def _resolve(node: dict[str, Any], definitions: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" in node:
        (chosen,) = (branch for branch in node["anyOf"] if branch.get("type") != "null")
        node = {**chosen, **{key: value for key, value in node.items() if key not in {"anyOf", "default"}}}
    if "$ref" in node:
        target = node["$ref"].rsplit("/", 1)[-1]
        node = {**definitions[target], **{key: value for key, value in node.items() if key != "$ref"}}
    if "const" in node:
        node = {**{key: value for key, value in node.items() if key != "const"}, "enum": [node["const"]]}
    title = node.get("title")
    resolved = {key: value for key, value in node.items() if key not in {"title", "$defs", "properties", "items"}}
    if node.get("additionalProperties") is False:
        del resolved["additionalProperties"]
    if "properties" in node:
        written = defaults.get(str(title), {})
        resolved["properties"] = {
            name: _resolve({**part, "default": written[name]} if name in written else part, definitions, defaults)
            for name, part in node["properties"].items()
        }
    if "items" in node:
        resolved["items"] = _resolve(node["items"], definitions, defaults)
    if isinstance(node.get("additionalProperties"), dict):
        resolved["additionalProperties"] = _resolve(node["additionalProperties"], definitions, defaults)
    return resolved


def _written_defaults(model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """Defaults of a model and the models inside it as JSON values, by model name and YAML name.

    Pydantic's own schema would show a length of time as ISO 8601 and an amount of memory as a number.
    """
    found: dict[str, dict[str, Any]] = {}
    pending: list[type[BaseModel]] = [model]
    while pending:
        current = pending.pop()
        if current.__name__ in found:
            continue
        partial = current.model_construct()
        found[current.__name__] = partial.model_dump(mode="json", by_alias=True, exclude_none=True, warnings="none")
        pending.extend(_models_in(current))
    return found


def _models_in(model: type[BaseModel]) -> list[type[BaseModel]]:
    """Models that are the type of a field, alone or with None."""
    return [
        candidate
        for field in model.model_fields.values()
        for candidate in (field.annotation, *get_args(field.annotation))
        if isinstance(candidate, type) and issubclass(candidate, BaseModel)
    ]
