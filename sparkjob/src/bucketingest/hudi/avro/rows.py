"""Rows of Avro bytes built column by column, without a Python object per row.

Small values (tags, varints, doubles, decimals) are written into a packed array of fixed-width cells together with a
mask of the bytes that count; one compress over the mask then makes all rows' bytes at once. Arrow joins
byte strings row by row in C++. All arrays of one builder have one element per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
"""One little-endian 64-bit word per row: up to eight bytes, the first in the lowest byte."""
Lengths = npt.NDArray[np.int64]

_EMPTY: Final = pa.scalar(b"", pa.binary())
_ONES: Final = 0x0101010101010101
_EIGHTH_BITS: Final = 0x8080808080808080
_SEVEN_BITS: Final = 0x7F7F7F7F7F7F7F7F
_SPREAD: Final = (
    # From one group of 56 bits to two of 28, four of 14, eight of 7, each moved to the start of its own half.
    (0x00FFFFFFF0000000, 4, 0x000000000FFFFFFF),
    (0x0FFFC0000FFFC000, 2, 0x00003FFF00003FFF),
    (0x3F803F803F803F80, 1, 0x007F007F007F007F),
)


@dataclass(frozen=True, slots=True)
class _Cell:
    """One field of the packed array."""

    width: int
    """Bytes: 1, 2, 4 or 8."""
    words: Words | int
    mask: Words | int
    """Bytes of value 1 where the word's byte counts, 0 elsewhere."""


class RowBuilder:
    """Collects the parts of ``count`` rows in order and joins them."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._cells: list[_Cell] = []
        self._pieces: list[Any] = []
        self._constant = b""

    def add_constant(self, value: bytes) -> None:
        """The same bytes in every row."""
        self._flush_cells()
        self._constant += value

    def add_words(self, words: Words | int, mask: Words | int, *, width: int = 8) -> None:
        """Up to ``width`` bytes per row; only those whose byte in ``mask`` is 1 are written."""
        self._flush_constant()
        self._cells.append(_Cell(width, words, mask))

    def add_bytes(self, value: Words | int, present: Words | None) -> None:
        """One byte per row, in the rows where ``present`` is 1 (None: in all)."""
        self.add_words(value, 1 if present is None else present, width=1)

    def add_varints(self, zigzag: Words, present: Words | None) -> None:
        """Avro's variable-length integers of 1 to 10 bytes, in the rows where ``present`` is 1 (None: in all)."""
        largest = int(zigzag.max(initial=0))
        if largest < 1 << 7:
            self.add_bytes(zigzag, present)
            return
        low = zigzag & np.uint64((1 << 56) - 1) if largest >= 1 << 56 else zigzag
        words, high_bits = _varint_words(low)
        mask = (high_bits >> np.uint64(7)) | np.uint64(1)
        more = high_bits >> np.uint64(8)
        if largest < 1 << 56:
            width = 2 if largest < 1 << 14 else 4 if largest < 1 << 28 else 8
            self.add_words(words | more, _where(mask, present), width=width)
            return
        # Ten bytes at most: if bits beyond the 56th are set, all eight bytes count and continue.
        high = zigzag >> np.uint64(56)
        long = (high != 0).astype(np.uint64)
        self.add_words(words | more | long * np.uint64(_EIGHTH_BITS), _where(mask | long * np.uint64(_ONES), present))
        high_words, continues = _varint_words(high)
        high_mask = ((continues >> np.uint64(7)) | np.uint64(1)) * long
        self.add_words(high_words | (continues >> np.uint64(8)), _where(high_mask, present), width=2)

    def add_binary(self, values: pa.Array) -> None:
        """One byte string per row; null counts as empty. ``values`` is a pa.BinaryArray."""
        self._flush_cells()
        self._flush_constant()
        self._pieces.append(values)

    def finish(self, *, framed: bool = False) -> pa.Array:
        """The rows as a pa.BinaryArray; if ``framed``, each with its length in front as a 32-bit big-endian integer."""
        self._flush_cells()
        self._flush_constant()
        if framed:
            lengths = sum(_piece_lengths(piece) for piece in self._pieces)
            prefix = np.broadcast_to(lengths, self._count).astype(">u4")
            self._pieces.insert(0, binary_array(prefix.view(np.uint8), np.full(self._count, 4, np.int64)))
        if len(self._pieces) == 1 and isinstance(self._pieces[0], pa.Array) and not self._pieces[0].null_count:
            return self._pieces[0]
        pieces = self._pieces or [_EMPTY]
        if all(isinstance(piece, pa.Scalar) for piece in pieces):
            pieces = [pa.repeat(pieces[0], self._count)]
        return pc.binary_join_element_wise(*pieces, _EMPTY, null_handling="replace", null_replacement=b"")

    def _flush_constant(self) -> None:
        if self._constant:
            self._pieces.append(pa.scalar(self._constant, pa.binary()))
            self._constant = b""

    def _flush_cells(self) -> None:
        if not self._cells:
            return
        kind = np.dtype([(f"cell{i}", f"<u{cell.width}") for i, cell in enumerate(self._cells)])
        data, mask = np.empty(self._count, kind), np.empty(self._count, kind)
        lengths: Any = np.uint64(0)
        for i, cell in enumerate(self._cells):
            data[f"cell{i}"] = cell.words
            mask[f"cell{i}"] = cell.mask
            lengths = lengths + _mask_length(cell.mask)
        kept = np.compress(mask.view(np.bool_), data.view(np.uint8))
        self._pieces.append(binary_array(kept, np.broadcast_to(lengths, self._count).astype(np.int64)))
        self._cells = []


def binary_array(data: npt.NDArray[np.uint8] | pa.Buffer, lengths: Lengths) -> pa.Array:
    """A pa.BinaryArray of byte strings of these lengths, one after the other in ``data``.

    Raises pa.ArrowCapacityError above 2 GiB, the limit of a binary array's offsets.
    """
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{offsets[-1]} bytes in one array of byte strings")
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(lengths), [None, pa.py_buffer(offsets.astype(np.int32)), buffer]
    )


def binary_offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where each byte string of a pa.BinaryArray starts in its data buffer, and where the last one ends."""
    if not len(array):
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def binary_data(array: pa.Array) -> pa.Buffer:
    """All byte strings of a pa.BinaryArray without nulls, one after the other; nothing is copied."""
    offsets = binary_offsets(array)
    data = array.buffers()[2]
    return pa.py_buffer(b"") if data is None else data[int(offsets[0]) : int(offsets[-1])]


def zigzag(values: npt.NDArray[np.int64]) -> Words:
    """Avro's mapping of signed to unsigned integers, small absolute values first."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def byte_mask(count: int) -> int:
    """The mask word whose first ``count`` bytes (0 to 8) count."""
    return _ONES & ((1 << (8 * count)) - 1)


def _varint_words(values: Words) -> tuple[Words, Words]:
    """The 7-bit groups of values below 2**56, a byte each, and bit 8 of every byte that is needed to hold the value."""
    words = values
    for upper, shift, lower in _SPREAD:
        words = ((words & np.uint64(upper)) << np.uint64(shift)) | (words & np.uint64(lower))
    reach = words | (words >> np.uint64(8))
    reach |= reach >> np.uint64(16)
    reach |= reach >> np.uint64(32)
    return words, (reach + np.uint64(_SEVEN_BITS)) & np.uint64(_EIGHTH_BITS)


def _piece_lengths(piece: Any) -> Any:
    if isinstance(piece, pa.Scalar):
        return np.int64(len(piece.as_py()))
    return pc.binary_length(piece).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _where(mask: Words, present: Words | None) -> Words:
    return mask if present is None else mask * present


def _mask_length(mask: Words | int) -> Any:
    if isinstance(mask, int):
        return np.uint64(mask.bit_count())
    return (mask * np.uint64(_ONES)) >> np.uint64(56)
