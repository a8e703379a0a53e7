"""Which messages of a block must not go to Arrow's reader: it reads them otherwise than JSON says, or may not survive.

A doubt costs time, never a right answer: those messages are decoded one by one. So each check is as coarse as real
messages allow, and looks at all bytes of a block at once where it can.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]

_SPACE: Final = 32
_ALLOWED_BELOW_SPACE: Final = np.isin(np.arange(256), [9, 10, 13])
_IS_SPACE: Final = np.isin(np.arange(256), [9, 10, 13, 32])
_SPACES_MAX: Final = 3
"""Characters of white space before and after a row that do not make it slow, such as a line's end."""
_TO_TABS: Final = bytes.maketrans(b"\r\n", b"\t\t")
_NOT_FINITE: Final = re.compile(rb"[:,\[\s-](?:NaN|Inf(?:inity)?)(?=[\s,}\]])")

LEVELS_MAX: Final = 500
"""Objects and arrays inside each other."""
WITHOUT_END: Final = "more levels than can be read"
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for a text that it cannot read: the second for a name or a text, the last for many levels."""
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""One without an end is as long as the message: or each quote in it would be looked at as the next beginning."""
_STEPS: Final = np.zeros(256, np.int8)
"""Levels that a byte opens."""
_STEPS[list(b"{[")], _STEPS[list(b"}]")] = 1, -1
_MINUS: Final = ord("-")
_LOWER: Final = np.uint8(32)
_E: Final = np.uint8(ord("e"))
_PIECE: Final = 1 << 16
"""Bytes looked at together: in the processor's cache, and without new memory for each result."""
_IS_DIGIT: Final = np.isin(np.arange(256), list(b"0123456789."))
_IS_SIGN: Final = np.isin(np.arange(256), list(b"+-"))
_MAY_PRECEDE: Final = np.isin(np.arange(256), list(b'0123456789.:,[ \t\r\n"'))
_DIGITS_LOOKED_AT: Final = 8
_MANTISSA: Final = re.compile(rb'(?:[:,\[\s"][+-]?[0-9]*\.?([0-9]*)|[0-9.]{40})[eE]\Z')
"""What is before the minus of an exponent. In a UUID it is something else."""
_MANTISSA_MAX: Final = 43
_EXPONENT: Final = re.compile(rb"[0-9]{1,4}(?![0-9])")
_POWERS: Final = 38
"""Of ten that Arrow has in its list."""
_ESCAPED_NUMBER: Final = re.compile(rb"\\u00(?:2[bBdDeE]|3[0-9]|[46]5)")
"""A letter of a number."""


class Block:
    """Messages one behind the other; none is null."""

    def __init__(self, messages: pa.Array) -> None:
        assert not messages.null_count, "messages without a value were sorted out"
        self._messages = messages
        offsets = np.frombuffer(messages.buffers()[1], np.int32, len(messages) + 1, messages.offset * 4)
        self.starts, self.ends = offsets[:-1], offsets[1:]
        data = messages.buffers()[2]
        self.bytes = np.frombuffer(data if data is not None else b"", np.uint8)
        self._used = slice(int(offsets[0]), int(offsets[-1]))
        self._has_controls = bool(self.bytes[self._used].min(initial=_SPACE) < _SPACE)
        self.lines = messages
        """The messages with tabs instead of line ends: between values both are white space, in strings both errors."""
        if self._has_controls:
            text = pa.py_buffer(data.to_pybytes().translate(_TO_TABS))
            self.lines = pa.Array.from_buffers(
                messages.type, len(messages), [None, messages.buffers()[1], text], offset=messages.offset
            )

    def __len__(self) -> int:
        return len(self.lines)

    def only(self, numbers: npt.NDArray[np.int64]) -> Block:
        """Some of the messages."""
        return Block(self._messages.take(pa.array(numbers)))

    @cached_property
    def is_utf8(self) -> bool:
        """Whether all messages are."""
        try:
            self.lines.cast(pa.string())
        except pa.ArrowInvalid:
            return False
        return True

    def message(self, at: int) -> bytes:
        """The bytes of one message."""
        return self.bytes[self.starts[at] : self.ends[at]].tobytes()

    def doubted(self, *, with_decimals: bool) -> Mask:
        """True for each message that is to be decoded by itself. `with_decimals`: whether a column is DECIMAL."""
        doubted = self._without_braces()
        if self._has_controls:
            used = self.bytes[self._used]
            doubted[self._rows_at(np.flatnonzero((used < _SPACE) & ~_ALLOWED_BELOW_SPACE[used]))] = True
        if not self.is_utf8:
            for at in np.flatnonzero(~doubted).tolist():
                doubted[at] = not is_utf8(self.message(at))
        if self._has(b"NaN") or self._has(b"Inf"):  # many times faster than the pattern
            found = [match.start() for match in _NOT_FINITE.finditer(self.bytes[self._used].tobytes())]
            doubted[self._rows_at(np.array(found, np.int64))] = True
        if with_decimals:
            doubted[self._rows_at(self._small())] = True
        for long in np.flatnonzero((self.ends - self.starts > LEVELS_MAX) & ~doubted).tolist():
            doubted[long] = is_too_deep(self.message(long))
        return doubted

    def _small(self) -> npt.NDArray[np.int64]:
        """Where numbers with a large negative exponent are, also in quotes: as decimals Arrow's reader looks up their
        power of ten behind the end of its list, which may be any number, or the end of the process.
        """
        text = self.bytes[self._used]
        at = np.concatenate(
            [start + _exponents(text[start : start + _PIECE + 1]) for start in range(0, max(1, text.size), _PIECE)]
        )
        at = at[(at > 1) & (at < text.size - 1)]
        at = at[_IS_DIGIT[text[at - 2]] & _IS_DIGIT[text[at + 1]]]
        before = at - 2  # many UUIDs have such a place, and it is quicker to see for all of them that it is no number
        for _ in range(_DIGITS_LOOKED_AT):
            before -= _IS_DIGIT[text[before]]
        before -= _IS_SIGN[text[before]]
        at = at[_MAY_PRECEDE[text[before]]]
        found = [place for place in at.tolist() if self._is_beyond_powers(text, place)]
        if self._has(b"\\u00"):
            found += [match.start() for match in _ESCAPED_NUMBER.finditer(text.tobytes())]
        return np.array(found, np.int64)

    @staticmethod
    def _is_beyond_powers(text: npt.NDArray[np.uint8], minus: int) -> bool:
        mantissa = _MANTISSA.search(text[max(0, minus - _MANTISSA_MAX) : minus].tobytes())
        exponent = _EXPONENT.match(text[minus + 1 : minus + 6].tobytes())
        if mantissa is None:
            return False
        return mantissa[1] is None or exponent is None or len(mantissa[1]) + int(exponent[0]) > _POWERS

    def _has(self, word: bytes) -> bool:
        """Whether the word is anywhere: its first letter is rare, and looked for at all places at once."""
        text = self.bytes[self._used]
        at = np.flatnonzero(text == word[0])
        at = at[at <= text.size - len(word)]
        for place, letter in enumerate(word[1:], 1):
            at = at[text[at + place] == letter]
        return at.size > 0

    def _without_braces(self) -> Mask:
        """Messages that do not begin with `{` and end with `}`, but for a little white space (see `blocks`)."""
        starts, lasts = self.starts.copy(), self.ends - 1
        for _ in range(_SPACES_MAX):
            inside = starts < lasts
            starts += inside & _IS_SPACE[self._at(starts)]
            lasts -= inside & _IS_SPACE[self._at(lasts)]
        return (starts >= lasts) | (self._at(starts) != ord("{")) | (self._at(lasts) != ord("}"))

    def _at(self, positions: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        """The bytes there; positions of empty messages may be outside."""
        return self.bytes.take(positions, mode="clip") if self.bytes.size else np.zeros(len(positions), np.uint8)

    def _rows_at(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.ends - self._used.start, positions, side="right")


def _exponents(text: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Where each minus behind an e is."""
    return 1 + np.flatnonzero((text[1:] == _MINUS) & (text[:-1] | _LOWER == _E))


def is_utf8(message: bytes) -> bool:
    """Whether it is."""
    try:
        message.decode()
    except UnicodeDecodeError:
        return False
    return True


def why_unreadable(error: Exception, message: bytes) -> str:
    """What one of `UNREADABLE` says of a message."""
    if isinstance(error, RecursionError):
        return WITHOUT_END
    if isinstance(error, UnicodeDecodeError):
        return "a byte that is not UTF-8"
    return str(error) if message.strip() else "the message is empty"


def is_too_deep(message: bytes) -> bool:
    """Whether a message, as far as it is JSON, has more than `LEVELS_MAX` levels."""
    if message.count(b"{") + message.count(b"[") <= LEVELS_MAX:
        return False
    steps = _STEPS[np.frombuffer(_STRING.sub(b"", message), np.uint8)]
    return bool(steps.cumsum(dtype=np.int32).max(initial=0) > LEVELS_MAX)
