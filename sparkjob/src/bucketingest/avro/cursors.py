"""Reads the next value of many Avro rows at once: a place in the bytes for each row, moved on by numpy.

The counterpart of `hudi/avro/rows`, which writes. All arrays of one `Cursors` have one element per row. `present` is a
mask: the rows that have a value there; the others do not move, and what is returned for them means nothing. None: all
have one.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
Mask = Bools | None
Places = npt.NDArray[np.int64]

PADDING: Final = 16
"""Bytes that must follow the last row, whatever they are: values are read a word at a time."""
_SEVEN_BITS: Final = np.uint64(0x7F7F7F7F7F7F7F7F)
_EIGHTH_BITS: Final = np.uint64(0x8080808080808080)
_JOIN: Final = (
    # The reverse of how `rows` spreads: eight groups of 7 bits to four of 14, two of 28, one of 56.
    (0x7F007F007F007F00, 1, 0x007F007F007F007F),
    (0x3FFF00003FFF0000, 2, 0x00003FFF00003FFF),
    (0x0FFFFFFF00000000, 4, 0x000000000FFFFFFF),
)
_OF_ONE_BYTE: Final = np.array([number >> 1 ^ -(number & 1) for number in range(256)], np.int64)
_INT_BYTES: Final = 5
"""Java's decoder reads no more of an int, whatever its value."""
_INT_MAX: Final = np.uint64(2**32 - 1)


class NotVectorised(Exception):
    """Values that are better decoded one by one, such as long arrays of few rows."""


class Cursors:
    """Where each row is read. No place is ever beyond its row's end: a value that reaches over it raises ValueError."""

    few: ClassVar[int] = 0
    """Fewer rows than these are left after some items of their arrays."""

    def __init__(self, data: npt.NDArray[np.uint8], at: Places, ends: Places) -> None:
        """`data`: the rows' bytes one after the other, and `PADDING`; `at` and `ends`: where each starts and ends.

        `at` is changed.
        """
        self._data = data
        # One word for each byte, aligned or not.
        self._words = np.ndarray(len(data) - 7, "<u8", data, strides=(1,))
        self.at = at
        self._ends = ends

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: Places) -> Self:
        """Those of some rows, to be moved apart: see `put`."""
        return type(self)(self._data, self.at[rows], self._ends[rows])

    def put(self, rows: Places, moved: Self) -> None:
        """Go on where `of(rows)` has arrived."""
        self.at[rows] = moved.at

    def refuse(self, rows: Bools | Places, why: str) -> None:  # noqa: ARG002 - `DoubtingCursors` needs them
        """There is at least one such row, and its bytes are no row of the schema."""
        raise ValueError(why)

    def leave(self, rows: Bools | Places, why: str) -> None:  # noqa: ARG002
        """There is at least one such row, and it is to be decoded by itself."""
        raise NotVectorised(why)

    def trusted(self, rows: Places) -> Places:
        """Those of the rows that were neither refused nor left."""
        return rows

    def move(self, lengths: Any, present: Mask) -> None:
        """Pass so many bytes, none of them negative."""
        after = self.at + (lengths if present is None else lengths * present)
        beyond = after > self._ends
        beyond |= after < self.at  # a length near 2**63 wraps around
        if beyond.any():
            self.refuse(beyond, "a row ends within a value")
            after = np.where(beyond, self._ends, after)
        self.at = after

    def byte(self, present: Mask) -> npt.NDArray[np.uint8]:
        """One byte."""
        read = self._data[self.at]
        self.move(1, present)
        return read

    def words(self, size: int, present: Mask) -> Words:
        """The next `size` bytes, 4 or 8, as a little-endian word; of 4, the upper half means nothing."""
        read = self._words[self.at]
        self.move(size, present)
        return read

    def varints(self, present: Mask, *, is_int: bool = False) -> npt.NDArray[np.int64]:
        """A long, or an int."""
        first = self._data[self.at]
        if not (first & 0x80).any():
            self.move(1, present)
            return _OF_ONE_BYTE.take(first)
        values = self._long_varints(present, is_int=is_int)
        one = np.uint64(1)
        return ((values >> one) ^ (~(values & one) + one)).view(np.int64)

    def _long_varints(self, present: Mask, *, is_int: bool) -> Words:
        words = self._words[self.at]
        stops = ~words & _EIGHTH_BITS
        kept = stops ^ (stops - np.uint64(1))  # up to the last byte of the number; all if there is none
        values = words & kept & _SEVEN_BITS
        for upper, shift, lower in _JOIN:
            values = ((values & np.uint64(upper)) >> np.uint64(shift)) | (values & np.uint64(lower))
        lengths = np.bitwise_count(kept).astype(np.int64) >> 3
        long = both(stops == 0, present)
        if long.any():
            at = self.at[long]
            ninth, tenth = self._data[at + 8].astype(np.uint64), self._data[at + 9].astype(np.uint64)
            goes_on = ninth >= 0x80
            too_long = goes_on & (tenth > 1)
            if too_long.any():
                self.refuse(np.flatnonzero(long)[too_long], "an integer has more than 64 bits")
            values[long] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (goes_on * tenth << np.uint64(63))
            lengths[long] = 9 + goes_on
        if is_int:
            too_long = both((lengths > _INT_BYTES) | (values > _INT_MAX), present)
            if too_long.any():
                self.refuse(too_long, "an int has more than 32 bits")
                values &= _INT_MAX
        self.move(lengths, present)
        return values

    def lengths(self, present: Mask) -> Places:
        """The length of a string that follows; 0 where there is none."""
        read = self.varints(present)
        if present is not None:
            read = read * present
        negative = read < 0
        if negative.any():
            self.refuse(negative, "a length is negative")
            read = np.maximum(read, 0)
        return read

    def strings(self, present: Mask) -> pa.Array:
        """Byte strings as a pa.BinaryArray without nulls; empty where there is none."""
        return self.pieces(self.lengths(present))

    def pieces(self, lengths: Any) -> pa.Array:
        """The next bytes of each row, so many, as a pa.BinaryArray."""
        starts, count = self.at, len(self)
        self.move(lengths, None)
        if not count:
            return pa.array([], pa.binary())
        # Every second string is one of these, the others are what is between them: Arrow copies those that count.
        # Rows are in order and none is read beyond its end, so the offsets ascend.
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2], offsets[1::2] = starts, self.at
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        both_kinds = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, buffers)
        return both_kinds.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))

    def integers(self, lengths: Places) -> npt.NDArray[np.int64]:
        """The next 1 to 16 bytes of each row, a big-endian signed number, as its lower and its upper word."""
        starts = self.at
        self.move(lengths, None)
        found = np.empty((len(lengths), 2), np.int64)
        heads = np.minimum(lengths, 8)
        first = self._big_endian(starts) >> (64 - 8 * heads)
        found[:, 0], found[:, 1] = first, first >> 63
        long = np.flatnonzero(lengths > 8)
        if len(long):
            # The lower word is the last eight bytes, the upper one what is in front of them.
            found[long, 0] = self._big_endian((starts + lengths)[long] - 8)
            found[long, 1] = self._big_endian(starts[long]) >> (128 - 8 * lengths[long])
        return found

    def _big_endian(self, places: Places) -> npt.NDArray[np.int64]:
        return self._words[places].byteswap().view(np.int64)

    def blocks(self, size: int, present: Mask) -> npt.NDArray[np.uint8]:
        """The next `size` bytes of each row as a row of a matrix."""
        read = self._data[np.minimum(self.at[:, None] + np.arange(size), len(self._data) - 1)]
        self.move(size, present)
        return read


class DoubtingCursors(Cursors):
    """Goes on where `Cursors` raises, and remembers the rows: what is read of them means nothing."""

    few = 8

    def __init__(self, data: npt.NDArray[np.uint8], at: Places, ends: Places) -> None:
        super().__init__(data, at, ends)
        self.doubted: Bools = np.zeros(len(at), np.bool_)

    def of(self, rows: Places) -> Self:
        """See `Cursors`."""
        found = super().of(rows)
        found.doubted = self.doubted[rows]
        return found

    def put(self, rows: Places, moved: Self) -> None:
        """See `Cursors`."""
        super().put(rows, moved)
        self.doubted[rows] = moved.doubted

    def refuse(self, rows: Bools | Places, why: str) -> None:  # noqa: ARG002 - a decoder of single rows says why
        """See `Cursors`."""
        self.doubted[rows] = True

    def leave(self, rows: Bools | Places, why: str) -> None:
        """See `Cursors`."""
        self.refuse(rows, why)

    def trusted(self, rows: Places) -> Places:
        """See `Cursors`."""
        return rows[~self.doubted[rows]]


def both(rows: Bools, present: Mask) -> Bools:
    """Those of the rows that are present."""
    return rows if present is None else rows & present


def padded(data: npt.NDArray[np.uint8], first: int, end: int) -> npt.NDArray[np.uint8]:
    """The bytes from `first` to `end`, and `PADDING` more: what follows them there, zeros where too little does."""
    found = data[first : end + PADDING]
    missing = end + PADDING - first - len(found)
    return np.append(found, np.zeros(missing, np.uint8)) if missing else found


def in_places(values: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], Places, Places]:
    """The bytes of values, `padded`, and where in them each begins and ends. None is null."""
    offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
    data = padded(np.frombuffer(values.buffers()[2] or b"", np.uint8), int(offsets[0]), int(offsets[-1]))
    places = offsets - offsets[0]
    return data, places[:-1], places[1:]
