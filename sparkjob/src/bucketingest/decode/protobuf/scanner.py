"""Finds the fields of many messages at once: a place in the bytes for each message, moved on by numpy.

Each field in turn is looked for in all messages, in the order of the numbers, in which serializers write them. So one
pass finds everything in most messages. What is left then is unknown or in another order: unknown fields are passed
over, and what follows is found in a further pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from bucketingest.avro.cursors import DoubtingCursors, Places, Words
from bucketingest.decode.protobuf.schema import BYTES, FIXED32, FIXED64, VARINT, Field, Message, Wire

PASSES_MAX: Final = 12
"""So often all fields are looked for. Messages that then have more are decoded one by one."""
_STEPS: Final = 64
_ROWS_PER_STEP: Final = 16
"""Items that are read one after the other, and the rows that allow one more: as of Avro's arrays."""
_TAG_LIMITS: Final = np.array([1 << 4, 1 << 11, 1 << 18, 1 << 25])
"""The first field numbers whose tags need a byte more."""
_WIDTHS: Final = {FIXED64: 8, FIXED32: 4}
_LENGTH_MAX: Final = np.uint64(2**31 - 1)


@dataclass(slots=True)
class Found:
    """What was found of a field written in one way, in its order in each message."""

    owners: list[Places] = field(default_factory=list)
    values: list[Words] = field(default_factory=list)
    """Numbers, if the wire type is VARINT."""
    starts: list[Places] = field(default_factory=list)
    ends: list[Places] = field(default_factory=list)
    """Where others are."""


class WireCursors(DoubtingCursors):
    """Reads what Protobuf's wire format has."""

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """All bytes, and padding."""
        return self._data

    def inside(self, starts: Places, ends: Places) -> WireCursors:
        """Reads pieces of the same bytes. `starts` is changed."""
        return WireCursors(self._data, starts, ends)

    def numbers(self) -> Words:
        """A varint of each."""
        first = self._data[self.at]
        if not (first & 0x80).any():
            self.move(1, None)
            return first.astype(np.uint64)
        return self._long_varints(None, is_int=False)

    def lengths_of_bytes(self) -> Places:
        """The length of what follows."""
        found = self.numbers()
        too_long = found > _LENGTH_MAX  # Java reads 32 bits of it
        if too_long.any():
            self.refuse(too_long, "a length is negative")
            found[too_long] = 0
        return found.astype(np.int64)

    def having(self, rows: Places, tag: bytes) -> Places:
        """Those of the rows at which a field with the tag is next."""
        wanted, mask = np.uint64(int.from_bytes(tag, "little")), np.uint64(256 ** len(tag) - 1)
        at = self.at[rows]
        return rows[((self._words[at] & mask) == wanted) & (at < self._ends[rows]) & ~self.doubted[rows]]

    def open(self, rows: Places) -> Places:
        """Those of the rows of which something is left to read."""
        return rows[(self.at[rows] < self._ends[rows]) & ~self.doubted[rows]]


def scan(cursors: WireCursors, message: Message) -> dict[tuple[int, Wire], Found]:
    """What there is of each field, by its number and how it is written. The messages in doubt are marked."""
    ways = [(each, wire, tag_of(each.number, wire)) for each in message.fields for wire in _wires(each)]
    ways.sort(key=lambda way: way[0].number)
    found = {(each.number, wire): Found() for each, wire, _ in ways}
    known = {each.number: frozenset(_wires(each)) for each in message.fields}
    rows = np.arange(len(cursors))
    for _ in range(PASSES_MAX):
        for each, wire, tag in ways:
            _take(cursors, rows, tag, wire, found[each.number, wire], again=each.repeated)
        rows = cursors.open(rows)
        if len(rows):
            _skip_unknown(cursors, rows, known)
            rows = cursors.open(rows)
        if not len(rows):
            return found
    cursors.leave(rows, "fields in an order that takes more passes")
    return found


def tag_of(number: int, wire: int) -> bytes:
    """What is written in front of a field's value."""
    left, found = number << 3 | wire, bytearray()
    while left >= 0x80:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _wires(each: Field) -> Iterator[Wire]:
    yield each.wire
    if each.packable:
        yield BYTES


def _take(cursors: WireCursors, rows: Places, tag: bytes, wire: Wire, found: Found, *, again: bool) -> None:
    """Read the field wherever it is next, and what follows of it if it may be there `again`."""
    rows = cursors.having(rows, tag)
    steps = 0
    while len(rows):
        every = len(rows) == len(cursors)
        step = cursors if every else cursors.of(rows)
        step.move(len(tag), None)
        found.owners.append(rows)
        if wire == VARINT:
            found.values.append(step.numbers())
        else:
            length = step.lengths_of_bytes() if wire == BYTES else _WIDTHS[wire]
            found.starts.append(step.at.copy())
            step.move(length, None)
            found.ends.append(step.at.copy())
        if not every:
            cursors.put(rows, step)
        if not again:
            return
        rows = cursors.having(rows, tag)
        steps += 1
        if len(rows) and steps > _STEPS + len(cursors) // _ROWS_PER_STEP:
            cursors.leave(rows, f"more than {steps} items")
            return


def _skip_unknown(cursors: WireCursors, rows: Places, known: dict[int, frozenset[Wire]]) -> None:
    """Pass over fields that are not known, until one that is or the end."""
    for _ in range(_STEPS):
        step = cursors.of(rows)
        tags = step.numbers()
        numbers, wires = (tags >> np.uint64(3)).astype(np.int64), (tags & np.uint64(7)).astype(np.int64)
        is_known = np.isin(numbers, list(known))
        odd = (numbers == 0) | (numbers >= 1 << 29) | np.isin(wires, (3, 4, 6, 7))
        for number, ways in known.items():
            odd |= (numbers == number) & ~np.isin(wires, list(ways))
        if is_known.any():  # to be found in the next pass, if it is written as expected
            at = cursors.at[rows]
            other_form = is_known & (step.at - at != _tag_sizes(numbers))
            odd |= other_form
        step.doubted |= odd
        for wire in (VARINT, FIXED64, BYTES, FIXED32):
            some = np.flatnonzero((wires == wire) & ~is_known & ~step.doubted)
            if len(some):
                part = step.of(some)
                if wire == VARINT:
                    part.numbers()
                else:
                    part.move(part.lengths_of_bytes() if wire == BYTES else _WIDTHS[wire], None)
                step.put(some, part)
        cursors.doubted[rows] |= step.doubted
        passed = ~is_known & ~step.doubted
        cursors.at[rows[passed]] = step.at[passed]
        rows = cursors.open(rows[passed])
        if not len(rows):
            return
    cursors.leave(rows, f"more than {_STEPS} unknown fields")


def _tag_sizes(numbers: Places) -> Places:
    return 1 + np.searchsorted(_TAG_LIMITS, numbers, side="right").astype(np.int64)
