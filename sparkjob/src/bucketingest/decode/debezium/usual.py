"""Finds the images of events by a few words, in all messages of a block at once: most of a message is its `source`, or
its schema, and no byte of the former is looked at. Messages are as Kafka's JsonConverter writes them.

Of JSON this is exact, as long as each image is then read as an object with nothing behind it. A quote behind a comma
begins a member's name, never a text: so the words are members, and an image that began or ended at one of a column's
own members would have brackets without their counterparts. What is no JSON but for its images is not found out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_NO_BEFORE: Final = b'"before":null,"after":{'
_BEFORE: Final = b'"before":{'
_AFTER: Final = b'},"after":{'
_SOURCE: Final = b'},"source":{'
_OP: Final = b',"op":"'
_WORD: Final = 8
_DIGITS: Final = frozenset(b"0123456789")


@dataclass(frozen=True, slots=True)
class Found:
    """Images of some messages, which have an `after`. Places are of bytes in the block's text."""

    numbers: Places
    """Of the messages, in the block."""
    ops: npt.NDArray[np.uint8]
    before: tuple[Places, Places]
    """Where each begins and ends; nowhere if there is none."""
    after: tuple[Places, Places]

    @property
    def has_before(self) -> Mask:
        """Which of them have one."""
        return self.before[1] > self.before[0]


@dataclass(frozen=True, slots=True)
class Usual:
    """How messages of one producer begin and end."""

    tail: bytes
    """From `op` on. Where it has a digit others have any."""
    to_end: frozenset[int]
    """How far `source` is from the end of a few messages that were parsed: in most others it is as far."""

    @classmethod
    def of(cls, message: bytes, others: Iterable[bytes]) -> Usual | None:
        """As a message has it; None if it is not usual. All these are JSON."""
        tail = message[message.rfind(_OP) :]
        # No bracket is behind `op` but the last one: so it is no member of another member.
        if not tail.startswith(_OP) or tail.find(b"}") + 1 != len(tail):
            return None
        if not message.startswith(b"{") or len(tail) < 2 * _WORD:
            return None
        to_end = frozenset(len(each) - at for each in others if (at := each.rfind(_SOURCE)) >= 0)
        return cls(tail, to_end)

    def find(self, messages: pa.BinaryArray, data: pa.Buffer, offsets: Places, alike: Mask) -> Found:
        """The images of the messages that are so, with an `after`. `data`, `offsets`: the messages' text, and where
        each begins, and the last one ends. `alike`: those to look at.
        """
        starts, ends = offsets[:-1], offsets[1:]
        at_head = np.flatnonzero(alike & begins(messages, b"{"))
        at_head = at_head[starts[at_head] + 1 + len(_NO_BEFORE) <= ends[at_head]]
        without, with_before = np.zeros((2, len(messages)), np.bool_)
        for kind, word in ((without, _NO_BEFORE), (with_before, _BEFORE)):
            kind[at_head] = _is_at(data, starts[at_head] + 1, word)
        first = starts + len(_NO_BEFORE)
        middle = first
        if with_before.any():
            places = _places(data, _AFTER)
            at = np.searchsorted(places, starts)
            with_before &= np.searchsorted(places, ends) - at == 1  # more than one: a column may have this name
            middle = np.where(with_before, np.append(places, 0)[at], first)
            first = np.where(with_before, middle + len(_AFTER) - 1, first)
        last = self._last(data, first, ends, without | with_before) + 1
        good = np.flatnonzero((without | with_before) & (last + len(self.tail) <= ends))
        good = good[self._ends(data, ends[good])]
        befores = np.where(with_before, starts + len(_BEFORE), middle + 1)[good]
        ops = np.frombuffer(data, np.uint8)[ends[good] - len(self.tail) + len(_OP)]
        return Found(good, ops, (befores, middle[good] + 1), (first[good], last[good]))

    def _last(self, data: pa.Buffer, first: Places, ends: Places, looked_at: Mask) -> Places:
        """Where the last bracket is of each image that begins there; the end of the block if it is not found."""
        found = np.full(len(ends), len(data))
        left = np.flatnonzero(looked_at)
        for distance in self.to_end:
            at = ends[left] - distance
            fits = at > first[left]
            fits[fits] = _is_at(data, at[fits], _SOURCE)
            found[left[fits]] = at[fits]
            left = left[~fits]
        if len(left):
            text = slices(data, first[left], ends[left])
            starts = np.concatenate(([0], np.cumsum(ends[left] - first[left])))
            places = np.append(_places(text.buffers()[2], _SOURCE), starts[-1])
            at = places[np.searchsorted(places, starts[:-1])]
            is_there = at < starts[1:]
            left, at = left[is_there], (at - starts[:-1] + first[left])[is_there]
            # Behind the event may be a member of the message that ends as one.
            is_one = pc.count_substring(slices(data, at, ends[left]), _OP).to_numpy() == 1
            found[left[is_one]] = at[is_one]
        return found

    def _ends(self, data: pa.Buffer, ends: Places) -> Mask:
        """Which messages end as the tail says. Where it has a digit, `:;<=>?` are taken for one."""
        mask = bytes(0xF0 if each in _DIGITS else 0xFF for each in self.tail)
        mask = mask[: len(_OP)] + b"\0" + mask[len(_OP) + 1 :]
        return _is_at(data, ends - len(self.tail), self.tail, mask)


def text_of(messages: pa.BinaryArray) -> tuple[pa.Buffer, Places]:
    """The messages one behind the other, where each begins, and where the last one ends."""
    _, places, data = messages.buffers()
    if places is None or data is None:
        return pa.py_buffer(b""), np.zeros(len(messages) + 1, np.int64)
    offsets = np.frombuffer(places, np.int32, len(messages) + 1, messages.offset * 4).astype(np.int64)
    first = int(offsets[0])
    return data.slice(first, int(offsets[-1]) - first), offsets - first


def slices(data: pa.Buffer, starts: Places, ends: Places, missing: Mask | None = None) -> pa.BinaryArray:
    """What is between these places, which are in order; null where it is missing."""
    if not len(starts):
        return pa.array([], pa.binary())
    offsets = np.empty(2 * len(starts), np.int32)
    offsets[0::2], offsets[1::2] = starts, ends
    buffers = [None, pa.py_buffer(offsets), data]
    pieces = pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)
    return pieces.take(pa.array(np.arange(0, len(offsets), 2, dtype=np.int32), mask=missing))


def _is_at(data: pa.Buffer, places: Places, text: bytes, mask: bytes | None = None) -> Mask:
    """Where the text stands, but for bits that are not in the mask. The places are so far within the block."""
    words = np.ndarray((max(0, len(data) - _WORD + 1),), "<u8", data, strides=(1,))
    found = np.ones(len(places), np.bool_)
    for at in [*range(0, len(text) - _WORD, _WORD), len(text) - _WORD]:
        kept = 2**64 - 1 if mask is None else int.from_bytes(mask[at : at + _WORD], "little")
        wanted = int.from_bytes(text[at : at + _WORD], "little") & kept
        found &= words[places + at] & np.uint64(kept) == np.uint64(wanted)
    return found


def begins(messages: pa.BinaryArray, text: bytes) -> Mask:
    """Which messages begin with the text."""
    return pc.fill_null(pc.starts_with(messages, text), False).to_numpy(zero_copy_only=False)  # noqa: FBT003


def _places(data: pa.Buffer, word: bytes) -> Places:
    """Where the word is."""
    lengths = np.fromiter(map(len, data.to_pybytes().split(word)), np.int64)
    return np.cumsum(lengths + len(word))[:-1] - len(word)
