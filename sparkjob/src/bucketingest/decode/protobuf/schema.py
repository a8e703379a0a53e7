"""What is known of a Protobuf message once its descriptors are read: plain values, which tasks get with their work.

This module needs no Arrow: `validate` runs without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Wire = Literal[0, 1, 2, 5]
VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
WIRES: Final[dict[str, Wire]] = {
    **dict.fromkeys(["int32", "int64", "uint32", "uint64", "sint32", "sint64", "bool", "enum"], VARINT),
    **dict.fromkeys(["fixed64", "sfixed64", "double"], FIXED64),
    **dict.fromkeys(["fixed32", "sfixed32", "float"], FIXED32),
    **dict.fromkeys(["string", "bytes", "message", "timestamp", "duration"], BYTES),
    "long uint32": VARINT,
    "long fixed32": FIXED32,
    "whole uint64": VARINT,
    "whole fixed64": FIXED64,
}
"""How a value of each kind is written. Timestamps and durations are messages that become one value."""
LONG: Final = {"uint32": "long uint32", "fixed32": "long fixed32"}
WHOLE: Final = {"uint64": "whole uint64", "fixed64": "whole fixed64"}
"""Kinds whose larger values are negative in 32 and in 64 bits, and what they are where a column is neither."""


class UnreadableDescriptors(Exception):
    """No columns follow from the descriptors. The text follows "spec.format.schema"."""


@dataclass(frozen=True, slots=True)
class Enum:
    """The symbols of an enum."""

    name: str
    """Without its package."""
    symbols: dict[int, str]
    """Of numbers with several names the first."""
    closed: bool
    """Whether other numbers are no values."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and how its absence is read."""

    name: str
    number: int
    kind: str
    """Key of `WIRES`."""
    repeated: bool = False
    required: bool = False
    presence: bool = True
    """Whether a default value that is written differs from none: without presence both are null, as in Spark."""
    default: Any = None
    """What an absent value is, as Arrow takes it."""
    oneof: str = ""
    """Name of the group of which only the last one counts."""
    enum: Enum | None = None
    message: Message | None = None
    is_map: bool = False
    """Whether the messages are the entries of a map."""

    @property
    def wire(self) -> Wire:
        """How one value is written."""
        return WIRES[self.kind]

    @property
    def packable(self) -> bool:
        """Whether several values may be written together."""
        return self.repeated and self.wire != BYTES


@dataclass(frozen=True, slots=True)
class Message:
    """A message's fields in the order of the columns."""

    name: str
    """With its package."""
    fields: tuple[Field, ...]
    left_out: tuple[tuple[str, str], ...] = ()
    """Names of the fields that can be no columns, and why, if it was read so."""
