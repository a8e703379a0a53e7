"""Turns record keys into 96-bit hashes, which the state stores in their place; nobody can choose keys that collide.

Multilinear hashing over 32-bit words (Lemire and Kaser, 2014): with secret random factors, any two different keys
have equal hashes with a probability of 2^-96. Of 500 million keys some two have, with a probability of 1e-12.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.base.string_bytes import offsets_and_bytes, plain_strings, words_by_length
from bucketingest.index.errors import InvalidKeyText

Hashes = npt.NDArray[np.uint64]
Checks = npt.NDArray[np.uint32]

SEED_BYTES: Final = 32
_FUNCTIONS: Final = 3
# Rows and bytes hashed at once: the temporaries stay in the processor's cache.
_BLOCK_ROWS: Final = 1 << 15
_BLOCK_BYTES: Final = 1 << 20
_LONG_KEY_BYTES: Final = 4096
_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio."""


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """The hashes of n keys."""

    hashes: Hashes
    """64 bits that order and find a key, uint64[n]."""
    checks: Checks
    """32 further bits that tell keys with the same hash apart, uint32[n]."""

    def __len__(self) -> int:
        return len(self.hashes)

    def parts(self, count: int) -> npt.NDArray[np.uint64]:
        """A part for each key, uint64[n] below `count`, about as many keys in each.

        Keys with a running number have hashes in equal steps. With some seeds their remainders are uneven: one of eight
        parts got twice its share with 1 seed of 1,000.
        """
        mixed = (self.hashes ^ (self.hashes >> np.uint64(32))) * _MIXER
        return (mixed >> np.uint64(32)) % np.uint64(count)

    def take(self, rows: npt.NDArray[np.integer]) -> KeyHashes:
        """The hashes of these rows."""
        return KeyHashes(self.hashes[rows], self.checks[rows])


@dataclass(slots=True)
class KeyHasher:
    """The hash functions of one table. `seed`: `SEED_BYTES` random bytes that only the table's writers know."""

    seed: bytes
    _factors: npt.NDArray[np.uint64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.seed) != SEED_BYTES:
            raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(self.seed)}")
        self._factors = self._derived(32)

    def hash(self, keys: pa.Array) -> KeyHashes:
        """Hashes of record keys: strings of any layout, length n. Raises InvalidKeyText if one is null."""
        if keys.null_count:
            raise InvalidKeyText(f"{keys.null_count} of {len(keys)} record keys are null; a null is no key")
        offsets, data = offsets_and_bytes(plain_strings(keys))
        hashes, checks = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint32)
        row = 0
        while row < len(keys):
            stop = int(np.searchsorted(offsets, offsets[row] + _BLOCK_BYTES, side="right")) - 1
            stop = min(max(stop, row + 1), row + _BLOCK_ROWS, len(keys))
            self._hash_block(offsets[row : stop + 1], data, hashes[row:stop], checks[row:stop])
            row = stop
        return KeyHashes(hashes, checks)

    def _hash_block(
        self, offsets: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], hashes: Hashes, checks: Checks
    ) -> None:
        data = data[offsets[0] : offsets[-1]]
        starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
        order = None if (lengths == lengths[0]).all() else np.argsort(-lengths, kind="stable")
        if order is not None:
            starts, lengths = starts[order], lengths[order]
        long = int(np.searchsorted(-lengths, -_LONG_KEY_BYTES, side="left"))
        sums = self._sums(starts[long:], data, lengths[long:])
        sums >>= np.uint64(32)
        found = np.concatenate([self._of_long_keys(starts[:long], data, lengths[:long]), sums], axis=1)
        rows = slice(None) if order is None else order
        hashes[rows] = (found[0] << np.uint64(32)) | found[1]
        checks[rows] = found[2]

    def _sums(
        self, starts: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint64]:
        """For each function the sum of factor times word, uint64[functions, n]; the length is the first word."""
        longest = int(lengths[0]) if len(lengths) else 0
        if self._factors.shape[1] < longest // 4 + 3:
            self._factors = self._derived(2 * (longest // 4 + 3))
        factors = self._factors
        sums = factors[:, :1] + factors[:, 1:2] * lengths.astype(np.uint64)
        product = np.empty(len(lengths), np.uint64)
        for word, (have, values) in enumerate(words_by_length(starts, data, lengths)):
            wide = values.astype(np.uint64)
            for function in range(_FUNCTIONS):
                np.multiply(wide, factors[function, word + 2], out=product[:have])
                sums[function, :have] += product[:have]
        return sums

    def _of_long_keys(
        self, starts: npt.NDArray[np.int64], data: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint64]:
        """Three words of 32 bits for each key that is too long for factors of its own."""
        words = np.zeros((_FUNCTIONS, len(starts)), np.uint64)
        for row, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
            digest = hashlib.blake2b(data[start : start + length].tobytes(), digest_size=4 * _FUNCTIONS, key=self.seed)
            words[:, row] = np.frombuffer(digest.digest(), "<u4")
        return words

    def _derived(self, count: int) -> npt.NDArray[np.uint64]:
        """The first factors of each function, uint64[functions, count]; more of them start with the same ones."""
        return np.stack(
            [
                np.frombuffer(hashlib.shake_256(bytes([function]) + self.seed).digest(8 * count), "<u8")
                for function in range(_FUNCTIONS)
            ]
        )
