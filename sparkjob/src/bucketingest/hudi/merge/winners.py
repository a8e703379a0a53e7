"""Which record of each key wins among the log files of a slice, decided on keys and ordering values alone.

The rules are those of Hudi 1.2.0 (BufferedRecordMergerFactory): records are folded in the order of the log files. The
later record wins if its ordering value is equal or greater. A delete without an ordering value, a *commit-time delete*,
wins over every earlier record, and loses to the next row, whatever the ordering values; deletes that follow it change
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.table.ordering import ranks


class Kind(IntFlag):
    """What a log record is; 0 is a row that is no delete."""

    DELETE = 1
    """It deletes its key."""
    COMMIT_TIME = 2
    """A delete without an ordering value."""
    ENTRY = 4
    """It is in a delete block."""


@dataclass(frozen=True, slots=True)
class Records:
    """Log records in the order in which readers fold them, all arrays of the same length."""

    keys: pa.Array
    """Record keys: string, no nulls."""
    ordering: pa.Array | None
    """Ordering values in their comparable form; null: lower than every value. None: the later record wins."""
    positions: npt.NDArray[np.int64]
    """Number of each record in the slice's log files, ascending."""
    kinds: npt.NDArray[np.uint8]
    """A `Kind` each."""

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays."""
        ordering = 0 if self.ordering is None else self.ordering.nbytes
        return int(self.keys.nbytes + ordering + self.positions.nbytes + self.kinds.nbytes)

    def take(self, indices: npt.NDArray[np.int64]) -> Records:
        """Those at the indices."""
        chosen = pa.array(indices)
        ordering = None if self.ordering is None else self.ordering.take(chosen)
        return Records(self.keys.take(chosen), ordering, self.positions[indices], self.kinds[indices])


@dataclass(slots=True)
class WinnerFold:
    """Folds records as they come: memory grows with the keys, not with the records."""

    fold_records: int
    """Records that are at least collected before they are folded, ..."""
    fold_bytes: int
    """... unless they have so many bytes."""
    winners_bytes: int = 0
    """Bytes of those that had won when records were folded last."""
    _pending: list[Records] = field(default_factory=list)
    _count: int = 0
    _bytes: int = 0
    _fold_at: int = 0

    def add(self, records: Records) -> None:
        """Take the next records."""
        self._pending.append(records)
        self._count += len(records)
        self._bytes += records.size_bytes
        if self._count >= max(self.fold_records, self._fold_at) or self._bytes >= self.fold_bytes:
            self._fold_at = 2 * len(self.winners())

    def replace(self, winners: Records) -> None:
        """Go on with these, a part of the winners."""
        self._pending, self._count = [winners], len(winners)
        self._bytes = self.winners_bytes = winners.size_bytes

    def winners(self) -> Records:
        """The record of each key that has won so far, ascending by position."""
        if self._pending:
            self.replace(winning(_concat(self._pending)))
        return self._pending[0] if self._pending else EMPTY


EMPTY: Final = Records(pa.array([], pa.string()), None, np.zeros(0, np.int64), np.zeros(0, np.uint8))


def winning(records: Records) -> Records:
    """The record of each key that wins, ascending by position. Pure."""
    encoded = records.keys.dictionary_encode()
    codes = _numpy(encoded.indices)
    if len(encoded.dictionary) == len(records):
        return records
    ordering = np.zeros(len(records), np.int64) if records.ordering is None else ranks_with_nulls(records.ordering)
    candidates = np.arange(len(records))
    if records.ordering is not None and (records.kinds & Kind.COMMIT_TIME).any():
        candidates, ordering = _after_commit_time_deletes(codes, records.kinds, ordering)
    greatest = np.full(len(encoded.dictionary), np.iinfo(np.int64).min)
    np.maximum.at(greatest, codes[candidates], ordering[candidates])
    candidates = candidates[ordering[candidates] == greatest[codes[candidates]]]
    last = np.empty(len(greatest), np.int64)
    last[codes[candidates]] = candidates  # of several values for one index, numpy keeps the last
    return records.take(np.sort(last))


def not_less(newer: pa.Array, older: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a record with the newer ordering value replaces one with the older; a null is lower than every value."""
    result = pc.if_else(newer.is_null(), older.is_null(), pc.greater_equal(newer, older).fill_null(True))  # noqa: FBT003
    return _numpy(result)


def _after_commit_time_deletes(
    codes: npt.NDArray[Any], kinds: npt.NDArray[np.uint8], ordering: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Indices of the records that can still win, in order, and ordering values by which they do.

    Of each key only the last commit-time delete and what follows it count. Deletes between it and the next row change
    nothing, and it loses to that row.
    """
    order = np.argsort(codes, kind="stable")
    sorted_kinds = kinds[order]
    starts = np.append(True, np.diff(codes[order]) != 0)
    first = np.flatnonzero(starts)[np.cumsum(starts) - 1]  # where each record's key starts
    number = np.arange(len(order))
    is_reset = (sorted_kinds & Kind.COMMIT_TIME) != 0
    last_reset = np.maximum.accumulate(np.where(is_reset, number, -1))
    ends = np.append(starts[1:], True)
    final_reset = last_reset[ends][np.cumsum(starts) - 1]  # of the record's key; before `first`: none
    has_reset = final_reset >= first
    is_row = (sorted_kinds & Kind.ENTRY) == 0
    last_row = np.maximum.accumulate(np.where(is_row & ~is_reset, number, -1))
    counts = ~has_reset | (number == final_reset) | ((number > final_reset) & (last_row > final_reset))
    least = ordering.copy()
    resets = order[is_reset & has_reset & (number == final_reset)]
    least[resets] = np.iinfo(least.dtype).min
    return np.sort(order[counts]), least


def ranks_with_nulls(ordering: pa.Array) -> npt.NDArray[np.int64]:
    """Integers in the order of the values, above the least int64; nulls are lower than every value."""
    if not ordering.null_count:
        return np.maximum(ranks(ordering).astype(np.int64), np.iinfo(np.int64).min + 2)
    values = np.full(len(ordering), np.iinfo(np.int64).min + 1)
    valid = _numpy(ordering.is_valid())
    values[valid] = np.maximum(ranks(ordering.drop_null()).astype(np.int64), np.iinfo(np.int64).min + 2)
    return values


def _concat(parts: list[Records]) -> Records:
    if len(parts) == 1:
        return parts[0]
    orderings = [part.ordering for part in parts if part.ordering is not None]
    return Records(
        pa.concat_arrays([part.keys for part in parts]),
        pa.concat_arrays(orderings) if orderings else None,
        np.concatenate([part.positions for part in parts]),
        np.concatenate([part.kinds for part in parts]),
    )


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)
