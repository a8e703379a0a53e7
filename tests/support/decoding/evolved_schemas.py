"""Readers' schemas for a writer's, as they come about when a topic's schema evolves: all of them can read it."""

from __future__ import annotations

import copy
import random
from typing import Any, Final

_PROMOTED: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
}
_ADDED: Final[tuple[tuple[Any, Any], ...]] = (
    (["null", "string"], None),
    ("string", "new"),
    ("long", -(2**62)),
    ("double", 0.5),
    ("bytes", "\u00ff\u0000"),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "string"}, {"k": "v"}),
    (["string", "null"], "first"),
)


class EvolvedSchemas:
    """The same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def reader_of(self, writer: dict[str, Any]) -> dict[str, Any]:
        """A schema that can read messages of the writer's, each type with the same name."""
        return self._record(copy.deepcopy(writer))

    def _chance(self, chance: float) -> bool:
        return self._random.random() < chance

    def _record(self, record: dict[str, Any]) -> dict[str, Any]:
        fields = []
        uses_a_name = record["name"].endswith("x")  # its first field defines the type that its second names
        for field in record["fields"]:
            if self._chance(0.15) and len(record["fields"]) > 1 and not uses_a_name:
                continue
            kept = {"name": field["name"], "type": self._type(field["type"])}
            if self._chance(0.15):
                self._names += 1
                kept |= {"name": f"renamed{self._names}", "aliases": ["of_nobody", field["name"]]}
            fields.append(kept)
        while self._chance(0.4) or not fields:
            self._names += 1
            kind, default = self._random.choice(_ADDED)
            fields.append({"name": f"added{self._names}", "type": kind, "default": default})
        if self._chance(0.5) and not uses_a_name:
            self._random.shuffle(fields)
        return {**record, "fields": fields}

    def _type(self, kind: Any) -> Any:
        if isinstance(kind, list):
            others = [self._value(branch) for branch in kind if branch != "null"]
            if self._chance(0.1) or "null" not in kind:
                return others[0]  # a null is no value any more
            return ["null", *others] if self._chance(0.5) else [*others, "null"]
        found = self._value(kind)
        return ["null", found] if self._chance(0.2) else found

    def _value(self, kind: Any) -> Any:
        if isinstance(kind, str):
            return self._random.choice(_PROMOTED.get(kind, (kind,)))
        match kind["type"]:
            case "record":
                return self._record(kind)
            case "array":
                return {"type": "array", "items": self._type(kind["items"])}
            case "map":
                return {"type": "map", "values": self._type(kind["values"])}
            case "enum":
                return {**kind, **self._random.choice(({}, {"symbols": ["C_x", "A"]}, _OTHER_SYMBOLS))}
            case "fixed":
                return kind
        return {"type": self._value(kind["type"])}


_OTHER_SYMBOLS: Final = {"symbols": ["B", "OTHER"], "default": "OTHER"}


def without_logical_types(kind: Any) -> Any:
    """The schema with the bare types, and each named type defined where it is first used."""
    if isinstance(kind, list):
        return [without_logical_types(each) for each in kind]
    if not isinstance(kind, dict):
        return kind
    kept = {name: each for name, each in kind.items() if name not in {"logicalType", "precision", "scale"}}
    for name in ("items", "values"):
        if name in kept:
            kept[name] = without_logical_types(kept[name])
    if "fields" in kept:
        kept["fields"] = [{**each, "type": without_logical_types(each["type"])} for each in kept["fields"]]
    return kept
