"""What messages of one producer have in common: all that is not a value, byte by byte."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from bucketingest.decode.json.alike.text import LITERAL_MAX, Places, Text
from bucketingest.decode.json.doubts import Mask

Kind: TypeAlias = Literal["text", "bare"]

_MEMBERS_MAX: Final = 500
_QUOTE: Final = b'"'
_NULL: Final = b"null"
_SPACE: Final = rb"[ \t]*"
_NAME: Final = re.compile(rb'"([^"\\]+)"' + _SPACE + rb":" + _SPACE)
_VALUE: Final = re.compile(rb'"([^"\\]*)"|([-+.0-9A-Za-z]+)')
_OPENING: Final = re.compile(_SPACE + rb"\{" + _SPACE)
_COMMA: Final = re.compile(_SPACE + rb"," + _SPACE)
_CLOSING: Final = re.compile(_SPACE + rb"\}" + _SPACE)


@dataclass(frozen=True, slots=True)
class Slot:
    """A member's value, and the literal before it."""

    before: bytes
    name: str
    kind: Kind
    """Text is in quotes, or null; bare is a number, a boolean, null."""


@dataclass(frozen=True, slots=True)
class Values:
    """Where one member's values are, message by message."""

    starts: Places
    ends: Places
    is_null: Mask | None
    """None: none is."""

    def only(self, kept: Mask) -> Values:
        """Those of some messages."""
        is_null = None if self.is_null is None else self.is_null[kept]
        return Values(self.starts[kept], self.ends[kept], is_null)


@dataclass(frozen=True, slots=True)
class Shape:
    """The members of a message, in order, with the white space around them."""

    slots: tuple[Slot, ...]
    after: bytes
    """The last literal."""

    @property
    def tabs(self) -> int:
        """How many are around the values."""
        return sum(slot.before.count(b"\t") for slot in self.slots) + self.after.count(b"\t")

    def find(self, text: Text, starts: Places, ends: Places) -> tuple[Mask, list[Values]]:
        """Which of the messages have this shape, and where their values are; places in others mean nothing."""
        at, fits = starts, np.ones(len(starts), np.bool_)
        values: list[Values] = []
        for slot, following in zip(self.slots, [*self.slots[1:], None], strict=True):
            fits &= text.is_at(at, slot.before)
            at = text.within(at + len(slot.before))
            if slot.kind == "text":
                found, fitting, at = _texts(text, at)
            else:
                end = ends - len(self.after) if following is None else None
                found, fitting = _bare(text, at, end, 0 if following is None else following.before.index(_QUOTE))
                at = found.ends
            fits &= fitting
            values.append(found)
            if not fits.any():
                break
        fits &= text.is_at(at, self.after)
        return fits & (at + len(self.after) == ends), values


def _texts(text: Text, at: Places) -> tuple[Values, Mask, Places]:
    """The strings or nulls that begin there, where they do so, and the places behind them."""
    quoted = text.is_at(at, _QUOTE)
    starts = at + quoted
    ends = text.next_quote(starts)
    if quoted.all():
        return Values(starts, ends, None), quoted, text.within(ends + 1)
    is_null = text.is_at(at, _NULL)
    ends = np.where(is_null, at + len(_NULL), ends)
    return Values(starts, ends, is_null), quoted | is_null, text.within(ends + quoted)


def _bare(text: Text, starts: Places, ends: Places | None, before_quote: int) -> tuple[Values, Mask]:
    """The values that begin there, and where there are any. `ends`: None if each ends so far before the next quote.

    A value with a quote is several: a newer producer's messages may have members behind the last one.
    """
    quotes = text.next_quote(starts)
    if ends is None:
        ends = quotes - before_quote
    fits = (ends > starts) & (quotes >= ends)
    is_null = text.is_at(starts, _NULL[:1])
    if not is_null.any():
        return Values(starts, ends, None), fits
    is_null = text.is_at(starts, _NULL) & (ends == starts + len(_NULL))
    return Values(starts, ends, is_null), fits


def shape_of(message: bytes, kind_of: Callable[[str], Kind | None]) -> Shape | None:
    """The shape of a message in valid UTF-8 and without line ends; None if it has none: an escape, an object in an
    object, a name twice, no member, or text in a column that has none. `kind_of`: of a column; None: any.
    """
    opening = _OPENING.match(message)
    if opening is None:
        return None
    before, at = opening[0], opening.end()
    slots: dict[str, Slot] = {}
    while len(slots) < _MEMBERS_MAX:
        name = _NAME.match(message, at)
        value = None if name is None else _VALUE.match(message, name.end())
        if name is None or value is None:
            return None
        before += name[0]
        known = name[1].decode()
        kind: Kind = "text" if value[1] is not None else "bare"
        wanted = kind_of(known)
        if known in slots or len(before) > LITERAL_MAX:
            return None
        if value[0] == _NULL:
            kind = wanted or kind
        if wanted == "bare" and kind == "text":
            return None
        slots[known] = Slot(before, known, kind)
        at = value.end()
        closing = _CLOSING.fullmatch(message, at)
        if closing is not None:
            if len(closing[0]) > LITERAL_MAX:
                return None
            return Shape(tuple(slots.values()), closing[0])
        comma = _COMMA.match(message, at)
        if comma is None:
            return None
        before, at = comma[0], comma.end()
    return None
