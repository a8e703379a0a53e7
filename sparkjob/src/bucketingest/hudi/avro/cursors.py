"""Reads the next value of many Avro rows at once: a place in the bytes for each row, moved on by numpy.

The counterpart of `rows`, which writes. All arrays of one `Cursors` have one element per row. `present` is a mask: the
rows that have a value there; the others do not move, and what is returned for them means nothing. None: all have one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.avro.rows import Words

Mask = npt.NDArray[np.bool_] | None
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


class Cursors:
    """Where each row is read. No place is ever beyond its row's end: a value that reaches over it raises ValueError."""

    def __init__(self, data: npt.NDArray[np.uint8], at: Places, ends: Places) -> None:
        """`data`: the rows' bytes one after the other, and `PADDING`; `at` and `ends`: where each starts and ends."""
        self._data = data
        # One word for each byte; a void has no alignment to respect.
        self._words = np.ndarray(len(data) - 7, "V8", data, strides=(1,))
        self.at = at
        self._ends = ends

    def __len__(self) -> int:
        return len(self.at)

    def of(self, rows: Places) -> Cursors:
        """Those of some rows, to be moved apart: see `put`."""
        return Cursors(self._data, self.at[rows], self._ends[rows])

    def put(self, rows: Places, moved: Cursors) -> None:
        """Go on where `of(rows)` has arrived."""
        self.at[rows] = moved.at

    def move(self, lengths: Any, present: Mask) -> None:
        """Pass so many bytes, none of them negative."""
        after = self.at + (lengths if present is None else lengths * present)
        if ((after > self._ends) | (after < self.at)).any():  # a length near 2**63 wraps around
            raise ValueError("a row ends within a value")
        self.at = after

    def byte(self, present: Mask) -> npt.NDArray[np.uint8]:
        """One byte."""
        read = self._data[self.at]
        self.move(1, present)
        return read

    def words(self, size: int, present: Mask) -> Words:
        """The next `size` bytes, 4 or 8, as a little-endian word; of 4, the upper half means nothing."""
        read = self._words[self.at].view("<u8")
        self.move(size, present)
        return read

    def varints(self, present: Mask) -> npt.NDArray[np.int64]:
        """An int or long."""
        first = self._data[self.at]
        if not (first & 0x80).any():
            self.move(1, present)
            values = first.astype(np.uint64)
        else:
            values = self._long_varints(present)
        one = np.uint64(1)
        return ((values >> one) ^ (~(values & one) + one)).view(np.int64)

    def _long_varints(self, present: Mask) -> Words:
        words = self._words[self.at].view("<u8")
        stops = ~words & _EIGHTH_BITS
        kept = stops ^ (stops - np.uint64(1))  # up to the last byte of the number; all if there is none
        values = words & kept & _SEVEN_BITS
        for upper, shift, lower in _JOIN:
            values = ((values & np.uint64(upper)) >> np.uint64(shift)) | (values & np.uint64(lower))
        lengths = np.bitwise_count(kept).astype(np.int64) >> 3
        long = stops == 0
        if present is not None:
            long &= present
        if long.any():
            at = self.at[long]
            ninth, tenth = self._data[at + 8].astype(np.uint64), self._data[at + 9].astype(np.uint64)
            goes_on = ninth >= 0x80
            if (goes_on & (tenth > 1)).any():
                raise ValueError("an integer has more than 64 bits")
            values[long] |= ((ninth & np.uint64(0x7F)) << np.uint64(56)) | (goes_on * tenth << np.uint64(63))
            lengths[long] = 9 + goes_on
        self.move(lengths, present)
        return values

    def lengths(self, present: Mask) -> Places:
        """The length of a string that follows; 0 where there is none."""
        read = self.varints(present)
        if present is not None:
            read = read * present
        if (read < 0).any():
            raise ValueError("a length is negative")
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
        both = pa.BinaryArray.from_buffers(pa.binary(), 2 * count - 1, buffers)
        return both.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))

    def bytes_backwards(self, lengths: Places, width: int) -> npt.NDArray[np.uint8]:
        """The next bytes of each row, at most `width`, last byte first, as a row of a matrix; what is left are zeros.

        Moves on.
        """
        ends = self.at + lengths
        numbers = np.arange(width)
        places = np.maximum(ends[:, None] - 1 - numbers, 0)
        self.move(lengths, None)
        return self._data[places] * (numbers < lengths[:, None])
