"""Entries of the state as arrays: what is stored for a key, sorted, and one entry for each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from bucketingest.index.state.hashing import KeyHashes

Pairs = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.int64]

NO_GROUP: Final = 0xFFFFFFFF
"""Group number of a key that is in no file group any more."""
_SHIFT: Final = np.uint64(32)


@dataclass(frozen=True, slots=True)
class Entries:
    """n keys of one partition, each with the number of its file group."""

    hashes: npt.NDArray[np.uint64]
    """uint64[n]"""
    pairs: Pairs
    """Check in the upper, group number in the lower 32 bits, uint64[n]."""

    @classmethod
    def of(cls, keys: KeyHashes, groups: npt.NDArray[np.integer] | int) -> Entries:
        """Entries of these keys; `groups`: their numbers, or the number of all."""
        pairs = keys.checks.astype(np.uint64) << _SHIFT
        pairs |= np.asarray(groups).astype(np.uint64)
        return cls(keys.hashes, pairs)

    @classmethod
    def joined(cls, parts: list[Entries]) -> Entries:
        """All entries of the parts, in their order."""
        if not parts:
            return cls(np.zeros(0, np.uint64), np.zeros(0, np.uint64))
        return cls(np.concatenate([part.hashes for part in parts]), np.concatenate([part.pairs for part in parts]))

    @property
    def checks(self) -> npt.NDArray[np.uint32]:
        """uint32[n]"""
        return (self.pairs >> _SHIFT).astype(np.uint32)

    @property
    def groups(self) -> npt.NDArray[np.uint32]:
        """uint32[n]"""
        return self.pairs.astype(np.uint32)

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, rows: npt.NDArray[np.integer] | npt.NDArray[np.bool_] | slice) -> Entries:
        """These entries."""
        return Entries(self.hashes[rows], self.pairs[rows])

    def with_groups(self, numbers: npt.NDArray[np.uint32]) -> Entries:
        """The same keys; group i becomes `numbers[i]`, and no group stays none."""
        groups = self.groups
        present = groups != NO_GROUP
        mapped = np.full(len(self), NO_GROUP, np.uint64)
        mapped[present] = numbers[groups[present]]
        return Entries(self.hashes, (self.pairs >> _SHIFT << _SHIFT) | mapped)


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Entries of the same key with different groups: that which was kept, and that which was not."""

    kept: Entries
    dropped: Entries


def one_for_each_key(entries: Entries) -> tuple[Entries, Conflicts]:
    """Sorted by hash and check, and the first entry of each key; the others' groups, where they differ.

    Keys with the same hash but different checks are different keys: both stay.
    """
    ordered = entries.take(sorted_order(entries.hashes))
    nothing = ordered.take(slice(0))
    same_hash = ordered.hashes[1:] == ordered.hashes[:-1]
    if not same_hash.any():
        return ordered, Conflicts(nothing, nothing)
    ordered = _with_sorted_checks(ordered, same_hash)
    repeated = np.zeros(len(ordered), np.bool_)
    repeated[1:] = same_hash & (ordered.checks[1:] == ordered.checks[:-1])
    first = np.maximum.accumulate(np.where(repeated, 0, np.arange(len(ordered))))
    differs = np.flatnonzero(repeated & (ordered.pairs != ordered.pairs[first]))
    return ordered.take(~repeated), Conflicts(ordered.take(first[differs]), ordered.take(differs))


def sorted_order(hashes: npt.NDArray[np.uint64]) -> Rows:
    """Rows in ascending order of their hashes; rows with the same hash stay in order.

    Sorting values with the row number in their low bits is several times as fast as numpy's argsort. What differs only
    in these bits is then put right.
    """
    low = np.uint64((1 << max(len(hashes) - 1, 0).bit_length()) - 1)
    packed = (hashes & ~low) | np.arange(len(hashes), dtype=np.uint64)
    packed.sort()
    order = (packed & low).astype(np.int64)
    found = hashes[order]
    if (found[1:] < found[:-1]).any():
        order = order[np.argsort(found, kind="stable")]
    return order


def _with_sorted_checks(ordered: Entries, same_hash: npt.NDArray[np.bool_]) -> Entries:
    """Entries sorted by hash, now also by check where hashes are equal: keys with the same hash are rare."""
    checks = ordered.checks
    unsorted = same_hash & (checks[1:] < checks[:-1])
    if not unsorted.any():
        return ordered
    number = np.concatenate([[0], np.cumsum(~same_hash)])
    rows = np.flatnonzero(np.isin(number, number[1:][unsorted]))
    order = np.arange(len(ordered))
    order[rows] = rows[np.lexsort((checks[rows], ordered.hashes[rows]))]
    return ordered.take(order)
