"""Random chains of versions of a schema, as a registry's compatibility modes allow them, and messages of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

Mode = Literal["BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE", "NONE"]
Shape = Literal["plain", "record", "array", "map", "times"]
FormatName = Literal["avro", "json", "protobuf"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)

_WIDER: Final[dict[FormatName, dict[str, tuple[str, ...]]]] = {
    "avro": {
        "int": ("long", "float", "double"),
        "long": ("float", "double"),
        "float": ("double",),
        "string": ("bytes",),
        "bytes": ("string",),
        "time": ("micros",),
        "micros": ("time",),
        "decimal": ("finer",),
        "finer": ("decimal",),
    },
    "json": {"long": ("double",)},
    "protobuf": {"int": ("long",), "long": ("int",), "string": ("bytes",), "bytes": ("string",)},
}
"""Types that a new reader reads old messages of, by the registry's rules; FORWARD allows the way back."""
_NO_COLUMN: Final = {("long", "double"), ("long", "float")}
"""What a registry allows and no column follows: it would not keep the values."""
_OTHER: Final = {
    "int": ("long", "double", "string"),
    "float": ("double",),
    "long": ("double", "string", "int"),
    "double": ("float", "int"),
    "string": ("long", "boolean"),
}
"""Types that a producer goes over to without any rule."""
_TYPES: Final[dict[FormatName, tuple[str, ...]]] = {
    "avro": (
        *("int", "long", "float", "double", "string", "boolean", "date", "time", "micros", "decimal", "finer"),
        *("enum", "bytes"),
    ),
    "json": ("long", "double", "string", "boolean"),
    "protobuf": ("int", "long", "float", "double", "string", "boolean", "time", "enum", "bytes"),
}
NAMES: Final = ("a", "b", "c", "d", "e", "f", "g", "h")
_DEFAULT: Final = {"a": 7, "b": -1}
"""Names whose fields have this default if their type is int, in each version; other defaults are null."""
SYMBOLS: Final = ("ON", "OFF", "LOST", "SOLD")


@dataclass(frozen=True)
class Field:
    """A field of a version. `shape`: what is around its type; a record has fields of it. `symbols`: how many an enum
    has. `names`: how many its types had so far.
    """

    name: str
    kind: str
    shape: Shape = "plain"
    inside: tuple[str, ...] = ("x",)
    nullable: bool = False
    symbols: int = 2
    names: int = 1

    def avro(self) -> dict[str, Any]:
        kind: Any = self._avro(self.name)
        if self.shape == "record":
            kind = self._record()
        elif self.shape == "array":
            kind = {"type": "array", "items": self._record()}
        elif self.shape == "map":
            kind = {"type": "map", "values": kind}
        elif self.shape == "times":
            kind = {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}
        if self.nullable:
            return {"name": self.name, "type": ["null", kind], "default": None}
        default = {"default": _DEFAULT[self.name]} if self.has_default else {}
        return {"name": self.name, "type": kind, **default}

    @property
    def has_default(self) -> bool:
        return self.shape == "plain" and self.kind == "int" and self.name in _DEFAULT and not self.nullable

    def _record(self) -> dict[str, Any]:
        fields = []
        for each in self.inside:
            kind = self._avro(f"{self.name}_{each}")
            late = {"type": ["null", kind], "default": None}
            fields.append({"name": each, **(late if each.startswith("z") else {"type": kind})})
        return {"type": "record", **self._named(f"R_{self.name}"), "fields": fields}

    def _named(self, name: str) -> dict[str, Any]:
        """The newest name, and those before as aliases."""
        return {"name": f"{name}_{self.names}", "aliases": [f"{name}_{each}" for each in range(1, self.names)]}

    def _avro(self, name: str) -> Any:
        return {
            "date": {"type": "int", "logicalType": "date"},
            "time": {"type": "long", "logicalType": "timestamp-millis"},
            "micros": {"type": "long", "logicalType": "timestamp-micros"},
            "decimal": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            "finer": {"type": "bytes", "logicalType": "decimal", "precision": 11, "scale": 4},
            "enum": {"type": "enum", **self._named(f"E_{name}"), "symbols": list(SYMBOLS[: self.symbols])},
        }.get(self.kind, self.kind)


@dataclass
class Chain:
    """Versions of a schema, the oldest first. `odd`: with steps that the mode allows though no column can follow."""

    mode: Mode
    format: FormatName = "avro"
    odd: bool = False
    versions: list[tuple[Field, ...]] = field(default_factory=list)

    @classmethod
    def of(cls, seed: int, format_: FormatName = "avro") -> Chain:
        draw = random.Random(seed)
        mode = MODES[seed % len(MODES)]
        first = tuple(_new(draw, format_, name) for name in draw.sample(NAMES, draw.randint(1, 3)))
        chain = cls(mode, format_, draw.random() < _ODD or mode == "NONE", [first])
        for _ in range(draw.randint(2, 7)):
            chain.versions.append(next_version(draw, chain))
        return chain


_ODD: Final = 0.15
_TWICE: Final = 0.03
_DRAWS_MAX: Final = 30


def _new(draw: random.Random, format_: FormatName, name: str, *, nullable: bool | None = None) -> Field:
    shapes: tuple[Shape, ...] = ("plain", "plain", "plain", "record", "array", "map", "times")
    shape = draw.choice(shapes[:-1] if format_ == "json" else shapes)
    kind = "int" if name in _DEFAULT and format_ != "json" else draw.choice(_TYPES[format_])
    nullable = draw.random() < 0.4 if nullable is None else nullable
    return Field(name, kind, "plain" if name in _DEFAULT else shape, ("x", "y")[: draw.randint(1, 2)], nullable)


_STEPS: Final = {"BACKWARD": "adwrsnm", "FORWARD": "aAAdwrsn", "FULL": "aadrw", "NONE": "aAdwrsnm"}
"""Of each mode: add a field with a default or without, delete one, another type, a field more inside, another number
of symbols, nulls or none, other names of a field's types.
"""


def next_version(draw: random.Random, chain: Chain) -> tuple[Field, ...]:
    """Another version that the mode allows behind the last. Now and then one is registered twice."""
    version = _next(draw, chain)
    for _ in range(_DRAWS_MAX):
        if version not in chain.versions or draw.random() < _TWICE:
            break
        version = _next(draw, chain)
    return version


def _next(draw: random.Random, chain: Chain) -> tuple[Field, ...]:
    """By the rules of Avro for Avro, of Confluent's registry else."""
    mode, before = chain.mode.removesuffix("_TRANSITIVE"), chain.versions
    fields = list(before[-1])
    unused = _unused(chain)
    place = draw.randrange(len(fields)) if fields else 0
    old = fields[place] if fields else Field("", "")
    match draw.choice(_STEPS[mode]):
        case "a" if unused:
            fields.append(_new(draw, chain.format, draw.choice(unused), nullable=True))
        case "A" if unused:
            fields.insert(draw.randint(0, len(fields)), _new(draw, chain.format, draw.choice(unused), nullable=False))
        case "d" if fields and (mode in {"BACKWARD", "NONE"} or old.nullable or old.has_default):
            del fields[place]
        case "w" if fields and old.shape != "times" and (others := _other_types(chain, mode, old)):
            fields[place] = replace(old, kind=draw.choice(others))
        case "r" if old.shape in {"record", "array"}:
            fields[place] = replace(old, inside=(*old.inside, f"z{len(before)}"))
        case "s" if old.kind == "enum":
            fewer = mode == "FORWARD" or (mode == "NONE" and draw.random() < 0.5)
            fields[place] = replace(old, symbols=max(old.symbols - 1, 1) if fewer else min(old.symbols + 1, 4))
        case "m" if chain.format == "avro" and (old.kind == "enum" or old.shape in {"record", "array"}):
            fields[place] = replace(old, names=old.names + 1)
        case "n" if fields and not old.has_default:
            fields[place] = replace(old, nullable=mode == "BACKWARD" or (mode == "NONE" and draw.random() < 0.5))
    if draw.random() < 0.2:
        draw.shuffle(fields)
    return tuple(fields)


def _unused(chain: Chain) -> list[str]:
    """Names for a new field. A mode that looks at the last version only allows one again, with another type."""
    taken = {each.name for version in chain.versions for each in version}
    if chain.odd and chain.mode in {"BACKWARD", "FORWARD", "NONE"}:
        taken = {each.name for each in chain.versions[-1]}
    return [each for each in NAMES if each not in taken]


def _other_types(chain: Chain, mode: str, old: Field) -> list[str]:
    wider = _WIDER[chain.format]
    new_reads_old = {(one, other) for one, others in wider.items() for other in others}
    old_reads_new = {(other, one) for one, other in new_reads_old}
    match mode:
        case "BACKWARD":
            found = new_reads_old
        case "FORWARD":
            found = old_reads_new
        case "FULL":
            found = new_reads_old & old_reads_new
        case _:
            found = {(one, other) for one, others in _OTHER.items() for other in others}
    if not chain.odd and chain.format == "avro":
        found = found - _NO_COLUMN
    return sorted(other for one, other in found if one == old.kind and other in _TYPES[chain.format])
