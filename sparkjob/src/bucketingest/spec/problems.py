"""Turns what pydantic found into problems that say what is wrong and what is allowed, in the words of the YAML file."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from bucketingest.spec.errors import Problem
from bucketingest.spec.scalars import ALLOWED_KEY

Location = tuple[str | int, ...]

_SHOWN_CHARACTERS: Final = 60
_MAYBE_SECRET: Final = ("options", "conf", "properties")  # their values may be passwords


def problems_of(error: ValidationError, schema: Mapping[str, Any]) -> list[tuple[Location, Problem]]:
    """The problems that a validation found, each with its place. `schema`: `inlined_schema` of the validated model."""
    found = []
    for each in error.errors(include_url=False):
        location: Location = each["loc"]
        wrong, allowed = _sentence(each["type"], location, each["input"], each.get("ctx", {}), schema)
        found.append((location, Problem(field_name(location), wrong, allowed)))
    return found


def field_name(location: Location) -> str:
    """A place in a document as users write it: `spec.table.recordKey[0]`, `spec.spark.conf["spark.x"]`."""
    name = ""
    for part in location:
        if isinstance(part, int):
            name += f"[{part}]"
        elif part.isidentifier():
            name += f".{part}" if name else part
        else:
            name += f"[{json.dumps(part, ensure_ascii=False)}]"
    return name


def allowed_words(schema: Mapping[str, Any]) -> str:
    """In words, what a value of this schema may be; "" when anything may be."""
    if ALLOWED_KEY in schema:
        return str(schema[ALLOWED_KEY])
    if "enum" in schema:
        return _choice([str(value) for value in schema["enum"]])
    match schema.get("type"):
        case "integer":
            return f"an integer from {schema['minimum']} to {schema['maximum']}"
        case "boolean":
            return "true or false"
        case "string":
            return f"text of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
        case "array":
            count = f"{schema.get('minItems', 0)} to {schema['maxItems']}"
            return f"a list of {count} items, each {allowed_words(schema['items'])}"
        case "object" if "properties" in schema:
            return f"fields {', '.join(schema['properties'])}"
        case "object":
            return f"at most {schema['maxProperties']} names, each with {allowed_words(schema['additionalProperties'])}"
        case _:
            return ""


def _choice(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _sentence(
    kind: str, location: Location, value: Any, context: Mapping[str, Any], schema: Mapping[str, Any]
) -> tuple[str, str]:
    """What is wrong and what is allowed, for one error of pydantic."""
    if kind == "rule":
        return str(context["wrong"]), str(context["allowed"])
    if kind == "extra_forbidden":
        return _unknown(str(location[-1]), list(_node(schema, location[:-1]).get("properties", {})))
    node = _node(schema, location)
    allowed = allowed_words(node)
    if kind == "missing":
        return "is required", allowed
    if kind in {"too_long", "too_short"}:
        return f"has {len(value)} {'names' if isinstance(value, Mapping) else 'items'}", allowed
    if kind in {"string_too_long", "string_too_short"}:
        return f"has {len(value)} characters", allowed
    hidden = any(part in _MAYBE_SECRET for part in location[:-1])
    if not hidden and type(value) is int and node.get("type") == "integer":
        return f"is {_short(str(value))}", allowed
    return f"is {_shown(value, hidden=hidden)}", allowed


def _unknown(name: str, known: Sequence[str]) -> tuple[str, str]:
    lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower().replace("_", ""), lower, n=1, cutoff=0.6)
    guess = f" (did you mean {lower[near[0]]}?)" if near else ""
    return f"is not a known field{guess}", _choice(list(known)) if known else "no fields"


def _node(schema: Mapping[str, Any], location: Location) -> Mapping[str, Any]:
    """The part of a schema that describes a place in a document; empty when it describes none."""
    node: Mapping[str, Any] = schema
    for part in location:
        if isinstance(part, int):
            node = node.get("items", {})
        else:
            node = node.get("properties", {}).get(part) or node.get("additionalProperties") or {}
    return node


def _shown(value: Any, *, hidden: bool) -> str:
    """A wrong value, short enough for a message, with its type where the text alone does not show it."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, str):
        return "text" if hidden else _short(json.dumps(value, ensure_ascii=False))
    kind = {bool: "a boolean", int: "an integer", float: "a number"}.get(type(value), type(value).__name__)
    if hidden:
        return kind
    text = json.dumps(value) if isinstance(value, bool) else str(value)
    return f"{_short(text)} ({kind})"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
