"""Hudi's bloom filter of a base file's record keys: Hudi's BLOOM index fails on a base file without one.

Seen in base files and bytecode of Hudi 1.2.0 (SimpleBloomFilter, InternalBloomFilter, MurmurHash). The footer's text is
the base64 of: int -1 (version) | int hashes | byte 1 (murmur2) | int bits | the bits, lowest first in each byte; all
big-endian. A key's hashes are murmur2 of its UTF-8 bytes, the first with seed 0, each further one with the one before
as its seed; its bits are the absolute values of their remainders. Bytes after the last whole word are signed.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.base.string_bytes import offsets_and_bytes, plain_strings, words_by_length

FOOTER_KEY: Final = "org.apache.hudi.bloomfilter"
"""Without `hoodie_bloom_filter_type_code` beside it, Hudi reads the text as a simple filter."""
FALSE_POSITIVES: Final = 1e-3
"""How many absent keys it finds, of those that are asked for. Hudi then reads the file's key column."""
BITS_MAX: Final = 2**31 - 1
"""Java counts them in an int."""
BITS_OF_FILE_MAX: Final = 1 << 27
"""Bits of a base file's filter: enough for 9 million keys, in 128 MiB of memory. With more keys it finds more absent
ones."""
_BITS_OF_KEY_MAX: Final = 15
_HEAD: Final = struct.Struct(">iibi")
_VERSION: Final = -1
_MURMUR: Final = 1
_BLOCK_ROWS: Final = 1 << 15
_BLOCK_BYTES: Final = 1 << 20
_M: Final = np.uint32(0x5BD1E995)
_Words = npt.NDArray[np.uint32]


@dataclass(slots=True)
class BloomFilter:
    """A simple filter that grows by keys. Build it with `for_keys`."""

    hashes: int
    bits: int
    _set: npt.NDArray[np.bool_] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._set = np.zeros(self.bits, np.bool_)

    @classmethod
    def for_keys(cls, count: int, false_positives: float = FALSE_POSITIVES) -> Self:
        """An empty filter for so many keys, as large as Hudi makes it. Raises ValueError beyond what Java can count."""
        count = max(count, 1)
        bits = math.ceil(count * (-math.log(false_positives) / (math.log(2) * math.log(2))))
        if bits > BITS_MAX:
            raise ValueError(f"a bloom filter for {count} keys needs {bits} bits; Java counts up to {BITS_MAX}")
        return cls(math.ceil(math.log(2) * bits / count), bits)

    @classmethod
    def for_file(cls, count: int) -> Self:
        """An empty filter for a base file with so many keys, of bounded size."""
        return cls.for_keys(min(count, BITS_OF_FILE_MAX // _BITS_OF_KEY_MAX))

    def add(self, keys: pa.Array) -> None:
        """Record keys: strings of any layout, none null."""
        for positions in self._positions(keys):
            self._set[positions.ravel()] = True

    def text(self) -> str:
        """For the footer, under `FOOTER_KEY`."""
        head = _HEAD.pack(_VERSION, self.hashes, _MURMUR, self.bits)
        return base64.b64encode(head + np.packbits(self._set, bitorder="little").tobytes()).decode()

    def _positions(self, keys: pa.Array) -> Iterator[npt.NDArray[np.int32]]:
        """The bits of the keys, int32[hashes, rows], block by block."""
        if keys.null_count:
            raise ValueError(f"{keys.null_count} of {len(keys)} record keys are null")
        offsets, data = offsets_and_bytes(plain_strings(keys))
        row = 0
        while row < len(keys):
            stop = int(np.searchsorted(offsets, offsets[row] + _BLOCK_BYTES, side="right")) - 1
            stop = min(max(stop, row + 1), row + _BLOCK_ROWS, len(keys))
            yield self._positions_of_block(offsets[row : stop + 1], data)
            row = stop

    def _positions_of_block(self, offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int32]:
        data = data[offsets[0] : offsets[-1]]
        starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
        order = None if (lengths == lengths[0]).all() else np.argsort(-lengths, kind="stable")
        if order is not None:
            starts, lengths = starts[order], lengths[order]
        # What does not depend on the seed is computed once for all hashes.
        words = [
            _mixed(values[: int(np.count_nonzero(lengths >= 4 * (number + 1)))])
            for number, (_, values) in enumerate(words_by_length(starts, data, lengths))
        ]
        tails, has_tail = _tails(starts, data, lengths), (lengths % 4).astype(np.bool_)
        found = np.empty((self.hashes, len(lengths)), np.int32)
        seed: _Words = np.zeros(len(lengths), np.uint32)
        for each in range(self.hashes):
            seed ^= lengths.astype(np.uint32)
            for word in words:
                part = seed[: len(word)]
                part *= _M
                part ^= word
            seed = np.where(has_tail, (seed ^ tails) * _M, seed)
            seed ^= seed >> np.uint32(13)
            seed *= _M
            seed ^= seed >> np.uint32(15)
            found[each] = np.abs(np.fmod(seed.view(np.int32), np.int32(self.bits)))
        if order is None:
            return found
        in_order = np.empty_like(found)
        in_order[:, order] = found
        return in_order


def _mixed(words: _Words) -> _Words:
    words = words * _M
    words ^= words >> np.uint32(24)
    words *= _M
    return words


def _tails(starts: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> _Words:
    """The up to three bytes after the last whole word, the last one lowest, each extended by its sign."""
    tails = np.zeros(len(lengths), np.int32)
    signed = data.view(np.int8)
    for back in (1, 2, 3):
        rows = np.flatnonzero(lengths % 4 >= back)
        tails[rows] ^= signed[starts[rows] + lengths[rows] - back].astype(np.int32) << (8 * (back - 1))
    return tails.view(np.uint32)
