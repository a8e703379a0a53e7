"""Random chains of versions of a schema, as a registry's compatibility modes allow them, and messages of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any, Final, Literal

Mode = Literal["BACKWARD", "FORWARD", "FULL", "NONE"]
Shape = Literal["plain", "record", "array", "map", "times"]
FormatName = Literal["avro", "json", "protobuf"]
MODES: Final[tuple[Mode, ...]] = ("BACKWARD", "FORWARD", "FULL", "NONE")

OTHER: Final = {
    "int": ["long", "double"],
    "float": ["double"],
    "long": ["double", "string", "int"],
    "double": ["float", "int"],
}
"""Types that a producer goes over to: some that a column can follow, and some that it cannot."""
_TYPES: Final[dict[FormatName, tuple[str, ...]]] = {
    "avro": ("int", "long", "float", "double", "string", "boolean", "date", "time", "decimal", "enum", "bytes"),
    "json": ("long", "double", "string", "boolean"),
    "protobuf": ("int", "long", "float", "double", "string", "boolean", "time", "enum", "bytes"),
}
_NAMES: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
_DEFAULT: Final = {"a": 7, "b": -1}
"""Names whose fields have this default if their type is int, in each version; other defaults are null."""


@dataclass(frozen=True)
class Field:
    """A field of a version. `shape`: what is around its type; a record has two fields of it, or three."""

    name: str
    kind: str
    shape: Shape = "plain"
    inside: tuple[str, ...] = ("x",)
    nullable: bool = False

    def avro(self) -> dict[str, Any]:
        kind: Any = _avro(self.kind, self.name)
        if self.shape == "record":
            kind = self._record()
        elif self.shape == "array":
            kind = {"type": "array", "items": self._record()}
        elif self.shape == "map":
            kind = {"type": "map", "values": kind}
        elif self.shape == "times":
            kind = {"type": "array", "items": _avro("time", self.name)}
        if self.nullable:
            return {"name": self.name, "type": ["null", kind], "default": None}
        default = {"default": _DEFAULT[self.name]} if self.has_default else {}
        return {"name": self.name, "type": kind, **default}

    @property
    def has_default(self) -> bool:
        return self.shape == "plain" and self.kind == "int" and self.name in _DEFAULT and not self.nullable

    def _record(self) -> dict[str, Any]:
        fields = [{"name": each, "type": _avro(self.kind, f"{self.name}_{each}")} for each in self.inside]
        return {"type": "record", "name": f"R_{self.name}", "fields": fields}


@dataclass
class Chain:
    """Versions of a schema, the oldest first."""

    mode: Mode
    format: FormatName = "avro"
    versions: list[tuple[Field, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, seed: int, format_: FormatName = "avro") -> Chain:
        draw = random.Random(seed)
        mode = MODES[seed % len(MODES)]
        first = tuple(_new(draw, format_, name) for name in draw.sample(_NAMES, draw.randint(1, 3)))
        chain = cls(mode, format_, [first])
        for _ in range(draw.randint(2, 7)):
            chain.versions.append(_next(draw, chain))
        return chain


def _new(draw: random.Random, format_: FormatName, name: str, *, nullable: bool | None = None) -> Field:
    shapes: tuple[Shape, ...] = ("plain", "plain", "plain", "record", "array", "map", "times")
    shape = draw.choice(shapes[:-1] if format_ == "json" else shapes)
    kind = "int" if name in _DEFAULT and format_ != "json" else draw.choice(_TYPES[format_])
    nullable = draw.random() < 0.4 if nullable is None else nullable
    return Field(name, kind, "plain" if name in _DEFAULT else shape, ("x", "y")[: draw.randint(1, 2)], nullable)


def _next(draw: random.Random, chain: Chain) -> tuple[Field, ...]:
    mode, before = chain.mode, chain.versions
    fields = list(before[-1])
    used = {each.name for version in before for each in version}
    unused = [each for each in _NAMES if each not in used]
    steps = {"BACKWARD": "adrw", "FORWARD": "AdAdw", "FULL": "ad", "NONE": "aAdwnz"}[mode]
    match draw.choice(steps):
        case "a" if unused:
            fields.append(_new(draw, chain.format, draw.choice(unused), nullable=True))
        case "A" if unused:
            fields.insert(draw.randint(0, len(fields)), _new(draw, chain.format, draw.choice(unused), nullable=False))
        case "d" if fields:
            gone = [each for each in fields if mode in {"BACKWARD", "NONE"} or each.nullable or each.has_default]
            if gone:
                fields.remove(draw.choice(gone))
        case "r" | "n" if fields:  # a field more inside
            place = draw.randrange(len(fields))
            if fields[place].shape in {"record", "array"} and mode == "NONE":
                old = fields[place]
                fields[place] = Field(old.name, old.kind, old.shape, (*old.inside, f"z{len(before)}"), old.nullable)
        case "w" | "z" if fields:
            place = draw.randrange(len(fields))
            old = fields[place]
            others = [each for each in OTHER.get(old.kind, ()) if each in _TYPES[chain.format]]
            if others and old.shape != "times":
                kind = draw.choice(others)
                is_wider = kind in {"long", "double"}
                if mode == "NONE" or (kind != "string" and is_wider == (mode == "BACKWARD")):
                    fields[place] = Field(old.name, kind, old.shape, old.inside, old.nullable)
    if draw.random() < 0.2:
        draw.shuffle(fields)
    return tuple(fields)


def _avro(kind: str, name: str) -> Any:
    return {
        "date": {"type": "int", "logicalType": "date"},
        "time": {"type": "long", "logicalType": "timestamp-millis"},
        "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "enum": {"type": "enum", "name": f"E_{name}", "symbols": ["ON", "OFF"]},
    }.get(kind, kind)
