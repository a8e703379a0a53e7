"""Where each row of an Avro block starts and ends: each has its length in front, so the rows are a chain.

A chain is followed row by row. A loop in Python would take as long as decoding the rows: here many stretches of the
chain are followed at once, by numpy.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from bucketingest.hudi.errors import CorruptLog

Places = npt.NDArray[np.int64]

_LENGTH: Final = struct.Struct(">i")
_SIGN_BYTES: Final = 19
"""All rows start with the same, usually: tag, length and 17 digits of the commit time, Hudi's first column."""
_WINDOW_BYTES: Final = 4096
"""A row's start is looked for in so many bytes. Of longer rows there are so few that it does not matter."""
_STRETCHES: Final = 1024
_ROWS_OF_STRETCH: Final = 16
"""With fewer, following the chain row by row costs less."""


def row_frames(content: memoryview, count: int, where: str) -> tuple[Places, Places]:
    """Where each of the `count` rows starts and ends in `content`, the bytes behind an Avro block's two numbers.

    `where` names the block. Raises CorruptLog unless they are exactly the content.
    """
    if count < 0 or count * _LENGTH.size > len(content):
        raise CorruptLog(f"{where} says it has {count} rows, in {len(content)} bytes")
    ends = ends_by_stretches(content, count)
    if ends is None:
        ends = _ends_one_by_one(content, count)
    lengths = np.diff(ends) - _LENGTH.size
    wrong = np.flatnonzero((lengths < 0) | (ends[1:] > len(content)))
    if len(wrong) or len(lengths) < count:
        row = int(wrong[0]) if len(wrong) else len(lengths)
        said = f"has {lengths[row]} bytes" if len(wrong) else "is missing"
        raise CorruptLog(f"{where} is cut short: its row {row} {said}")
    if ends[-1] != len(content):
        raise CorruptLog(f"{where} has {len(content) - ends[-1]} bytes after its {count} rows")
    return ends[1:] - lengths, ends[1:]


def _ends_one_by_one(content: memoryview, count: int) -> Places:
    """0, and where each row ends; it stops at the content's end, and where a length makes no sense."""
    places = [0]
    position, unpack = 0, _LENGTH.unpack_from
    # As little as possible in the loop; what it found is checked by the caller.
    for _ in range(count):
        if position >= len(content):
            break
        position += _LENGTH.size + unpack(content, position)[0]
        places.append(position)
    return np.array(places, np.int64)


def ends_by_stretches(content: memoryview, count: int) -> Places | None:
    """The same, or None if the rows do not start alike, or not all is well: one by one finds what is wrong.

    That a stretch starts where a row does is a guess. It was right if the one before it arrives there: the first starts
    with the first row, so all frames are proven.
    """
    stretches = min(_STRETCHES, count // _ROWS_OF_STRETCH)
    if stretches < 2 or len(content) <= _LENGTH.size + _SIGN_BYTES:
        return None
    starts = _guesses(content, stretches)
    if starts is None:
        return None
    # One length for each byte of the content, aligned or not.
    lengths = np.ndarray(len(content) - _LENGTH.size + 1, "<u4", content, strides=(1,))
    limits = np.append(starts[1:], len(content))
    at, found = starts, []
    # Every round moves every stretch on, by a length at least.
    while len(at):
        if at[-1] >= len(lengths):
            return None
        at = at + lengths[at].byteswap() + _LENGTH.size  # a negative length is a large one here
        if (at > limits).any():
            return None
        found.append(at)
        on = at < limits
        if not on.all():
            at, limits = at[on], limits[on]
    ends = np.concatenate(found)
    # Each stretch ascends from its start to the next one's, and so do the ends of a round, which a stable sort uses.
    return np.append(np.int64(0), np.sort(ends, kind="stable")) if len(ends) == count else None


def _guesses(content: memoryview, stretches: int) -> Places | None:
    """Where rows may start, about evenly spread, the first one first: at bytes as the first row starts with."""
    sign = bytes(content[_LENGTH.size : _LENGTH.size + _SIGN_BYTES])
    whole = len(content) // stretches
    starts = [0]
    for number in range(1, stretches):
        window = bytes(content[number * whole : number * whole + min(whole, _WINDOW_BYTES)])
        place = window.find(sign)
        if place >= _LENGTH.size:
            starts.append(number * whole + place - _LENGTH.size)
    return np.array(starts, np.int64) if len(starts) > 1 else None
