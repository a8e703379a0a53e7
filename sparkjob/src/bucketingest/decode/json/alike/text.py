"""The bytes of a block, looked at in many places at once: eight at a time, and from quote to quote."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.decode.json.doubts import Mask

Places: TypeAlias = npt.NDArray[np.int64]

LITERAL_MAX: Final = 256
"""Bytes of the longest text that is compared."""
_WORD: Final = 8
_PADDING: Final = LITERAL_MAX + 2 * _WORD
_AHEAD: Final = 57
"""So many bytes from any place on are within one word of quotes."""
_NONE_AHEAD: Final = 64
_LOOKS_MAX: Final = 64
"""A string of more than some 3,600 bytes has no end."""
_ONE: Final = np.uint64(1)


class Text:
    """Messages one behind the other; none is null. Places are of bytes, and may be behind the end, where nothing is."""

    def __init__(self, messages: pa.Array) -> None:
        buffers: list[Any] = messages.buffers()
        offsets = np.frombuffer(buffers[1], np.int32, len(messages) + 1, messages.offset * 4).astype(np.int64)
        first = int(offsets[0])
        self.size = int(offsets[-1]) - first
        self.starts: Places = offsets[:-1] - first
        self.ends: Places = offsets[1:] - first
        self.bytes = np.zeros(self.size + _PADDING, np.uint8)
        self.bytes[: self.size] = np.frombuffer(buffers[2], np.uint8, self.size, first)
        self._buffer = pa.py_buffer(self.bytes)
        self._words = _words_of(self.bytes)
        quotes = np.packbits(self.bytes == ord('"'), bitorder="little")
        self._quotes = _words_of(np.append(quotes, np.zeros(_WORD, np.uint8)))

    def per_message(self, found: Mask) -> Places:
        """How many of the bytes that were found each message has."""
        places = np.flatnonzero(found)
        return np.bincount(np.searchsorted(self.ends, places, side="right"), minlength=len(self.ends))

    def within(self, places: Places) -> Places:
        """The same, none behind the end."""
        return np.minimum(places, self.size)

    def is_at(self, places: Places, literal: bytes) -> Mask:
        """Where the literal stands, which is not empty. The places are within the block."""
        length = len(literal)
        if length == 1:
            return np.equal(self.bytes[places], literal[0])
        if length < _WORD:
            others = 8 * (_WORD - length)
            shifted = int.from_bytes(literal, "little") << others
            return np.equal(self._words[places] << np.uint64(others), np.uint64(shifted))
        found = np.equal(self._words[places], _word(literal, 0))
        for at in [*range(_WORD, length - _WORD, _WORD), length - _WORD] if length > _WORD else ():
            found &= self._words[places + at] == _word(literal, at)
        return found

    def next_quote(self, places: Places) -> Places:
        """The first quote there or behind it; the end of the block if it is far. The places are within the block."""
        steps = self._steps(places)
        found = places + steps
        far = np.flatnonzero(steps == _NONE_AHEAD)
        at = places[far]
        for _ in range(_LOOKS_MAX):
            if not far.size:
                return found
            at = self.within(at + _AHEAD)
            steps = self._steps(at)
            found[far] = at + steps
            pending = (steps == _NONE_AHEAD) & (at < self.size)
            far, at = far[pending], at[pending]
        found[far] = self.size
        return found

    def _steps(self, places: Places) -> npt.NDArray[np.uint8]:
        """How far the next quote is; `_NONE_AHEAD` if it is not within reach."""
        bits = self._quotes[places >> 3] >> (places & 7).view(np.uint64)
        return np.bitwise_count(~bits & (bits - _ONE))

    def slices(self, starts: Places, ends: Places, is_null: Mask | None) -> pa.StringArray:
        """The texts between these places, which are in order."""
        count = len(starts)
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = starts
        offsets[1::2] = ends
        offsets[-1] = ends[-1] if count else 0
        # Every second one is what lies between two texts.
        parts = pa.Array.from_buffers(pa.string(), 2 * count, [None, pa.py_buffer(offsets), self._buffer])
        return parts.take(pa.array(np.arange(0, 2 * count, 2), mask=is_null))


def _words_of(text: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """The eight bytes from each place on."""
    return np.ndarray((text.size - _WORD + 1,), np.dtype("<u8"), text.data, strides=(1,))


def _word(literal: bytes, at: int) -> np.uint64:
    return np.uint64(int.from_bytes(literal[at : at + _WORD], "little"))
