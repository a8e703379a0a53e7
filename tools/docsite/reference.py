"""The reference of BucketIngest as Markdown, generated from the schema of the CustomResourceDefinition.

`python -m docsite.reference` prints `docs/reference.md`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, Final

from bucketingest.spec.crd import custom_resource_definition
from bucketingest.spec.fields.table import IMMUTABLE_INDEX_FIELDS, IMMUTABLE_TABLE_FIELDS

Node = dict[str, Any]

_HEADER: Final = """\
<!-- Made from the spec model by `make crds`. Do not edit. -->

# BucketIngest

Every field of `bucketingest.dev/v1alpha1`, kind `BucketIngest`, short name `bi`. `bucketingest validate FILE` checks a
file and names each mistake with its line; `kubectl explain bi.spec` shows the same texts. Durations are written as
`30s`, `5m`, `1h30m`, amounts of memory as `256Mi`, `4Gi`.

Fields that say *immutable* are fixed for the life of the table: the API server refuses a change.
"""
_COLUMNS: Final = "| field | type | default | |\n| --- | --- | --- | --- |\n"


def reference() -> str:
    """The whole page."""
    (version,) = custom_resource_definition()["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    parts = [_HEADER]
    for name, title in (("spec", "spec"), ("status", "status, which the operator writes")):
        parts.append(f"\n## {title}\n")
        parts += _sections(name, properties[name])
    return "".join(parts)


def _sections(path: str, node: Node) -> Iterator[str]:
    """One section per object, the outermost first."""
    if path not in {"spec", "status"}:
        yield f"\n### {path}\n"
    yield f"\n{node.get('description', '').strip()}\n\n" if node.get("description") else "\n"
    yield _COLUMNS
    required = set(node.get("required", ()))
    inside: list[tuple[str, Node]] = []
    for name, part in node["properties"].items():
        of = part.get("items", {}) if part.get("type") == "array" else part
        child = f"{path}.{name}"
        if of.get("properties"):
            inside.append((f"{child}[]" if of is not part else child, of))
        yield _line(child, name, part, is_required=name in required)
    rules = [rule["message"] for rule in node.get("x-kubernetes-validations", ()) if "immutable" not in rule["message"]]
    if rules:
        yield "\nChecked together:\n\n" + "".join(f"* {_cell(rule)}\n" for rule in rules)
    for child, of in inside:
        yield from _sections(child, of)


def _line(path: str, name: str, part: Node, *, is_required: bool) -> str:
    default = "**required**" if is_required else _default(part)
    text = _cell(part.get("description", ""))
    if _is_immutable(path) and "mmutable" not in text:
        text = f"{text} Immutable."
    return f"| `{name}` | {_type(part)} | {default} | {text}{_limits(part)} |\n"


def _is_immutable(path: str) -> bool:
    if path.startswith("spec.table.index.") and path.count(".") == 3:
        return path.rpartition(".")[2] in IMMUTABLE_INDEX_FIELDS
    return path.startswith("spec.table.") and path.count(".") == 2 and path.rpartition(".")[2] in IMMUTABLE_TABLE_FIELDS


def _type(part: Node) -> str:
    kind = part.get("type")
    if "enum" in part:
        return " \\| ".join(f"`{value}`" for value in part["enum"])
    if kind == "array":
        return f"list of {_type(part['items'])}"
    if kind == "object":
        values = part.get("additionalProperties")
        return f"map of {_type(values)}" if isinstance(values, dict) else "object"
    if part.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(kind or "any")


def _default(part: Node) -> str:
    if "default" not in part:
        return ""
    value = part["default"]
    if part.get("properties"):
        return "see below"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`" if value not in ("", [], {}) else "none"


def _limits(part: Node) -> str:
    low, high = part.get("minimum"), part.get("maximum")
    if low is None and high is None:
        return ""
    words = [f"at least {low:,}" if low is not None else "", f"at most {high:,}" if high is not None else ""]
    return f" ({', '.join(filter(None, words))})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.stdout.write(reference())
