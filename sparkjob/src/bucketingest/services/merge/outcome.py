"""Decides on keys and ordering values alone which rows of the old base file and of the log files the new one gets.

If there are too many keys for memory, they are taken in passes over ranges of their hashes: each reads the keys of all
files again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.merge.base_reader import batches, open_base, read_footer
from bucketingest.hudi.merge.log_records import KEY, LogRecords, ordering_values
from bucketingest.hudi.merge.winners import Kind, Records, WinnerFold, not_less
from bucketingest.index.bucket_hash import java_string_hash
from bucketingest.storage.interface import Storage

_MIB: Final = 1024**2
_HASHES: Final = 2**32
_MIXER: Final = np.uint32(0x9E3779B1)
"""Odd. Keys of one file group have the same hash modulo the number of buckets: multiplied, their upper bits differ."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a slice is in memory at a time: a merge takes a few of these, whatever the size of its files.

    Bytes are those of Arrow's form. Each batch has at least one row, each pass one log block.
    """

    fold_records: int = 1_000_000
    """Log records whose keys and ordering values are collected before losers are dropped."""
    fold_bytes: int = 128 * _MIB
    """The same in bytes. If winners have more than half of it, their keys are merged in several passes."""
    batch_rows: int = 256 * 1024
    """Rows of the base file that are read at a time."""
    key_rows: int = 2_000_000
    """The same, where only keys and ordering values are read."""
    batch_bytes: int = 64 * _MIB
    """Bytes of either."""
    row_group_rows: int = 512 * 1024
    """Rows of a row group of the new base file."""
    row_group_bytes: int = 128 * _MIB
    """Bytes of it, before encoding."""


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of the rows."""

    replaced: npt.NDArray[np.bool_]
    """Which rows of the base file lose, in its order."""
    rows_to_write: npt.NDArray[np.int64]
    """Positions of the rows that the base file gets from the log files, ascending."""
    deletes: int
    updates: int
    inserts: int

    @property
    def rows(self) -> int:
        """Of the new base file."""
        return len(self.replaced) - int(self.replaced.sum()) + len(self.rows_to_write)


def decide(storage: Storage, base_file: str | None, logs: LogRecords, limits: Limits) -> Outcome:
    """The outcome of a slice. Memory grows with the number of rows, a byte each, and hardly with their keys.

    Raises CorruptLog, and UnsupportedTable for blocks that only Hudi can merge.
    """
    replaced = np.zeros(0 if base_file is None else read_footer(storage, base_file).num_rows, np.bool_)
    rows, counts = [np.zeros(0, np.int64)], np.zeros(3, np.int64)
    for records in winners_in_passes(logs, limits):
        winners = _Winners(records, logs.rules.ordering_field)
        if base_file is not None:
            _meet(storage, base_file, winners, replaced, limits)
        rows.append(winners.rows_to_write())
        counts += winners.counts()
    deletes, updates, inserts = counts.tolist()
    return Outcome(replaced, np.sort(np.concatenate(rows)), deletes, updates, inserts)


def winners_in_passes(logs: LogRecords, limits: Limits) -> Iterator[Records]:
    """The winners of one range of keys after the other, each with at most `limits.fold_bytes`."""
    first, width = 0, _HASHES
    while first < _HASHES:
        fold = WinnerFold(limits.fold_records, limits.fold_bytes)
        for records in logs.records():
            fold.add(records if width == _HASHES else _in_range(records, first, width))
            while fold.winners_bytes > limits.fold_bytes // 2 and width > 1:
                width //= 2
                fold.replace(_in_range(fold.winners(), first, width))
        yield fold.winners()
        first += width


def _in_range(records: Records, first: int, width: int) -> Records:
    hashes = java_string_hash(records.keys).view(np.uint32) * _MIXER
    return records.take(np.flatnonzero((hashes >= first) & (hashes <= first + width - 1)))


def _meet(storage: Storage, path: str, winners: _Winners, replaced: npt.NDArray[np.bool_], limits: Limits) -> None:
    """Mark the rows of the base file that lose. In large batches: each builds a hash table of the winners."""
    first = 0
    with open_base(storage, path) as base:
        wanted = [KEY, winners.ordering_field or KEY]
        for batch in batches(base, wanted, rows=limits.key_rows, size_bytes=limits.batch_bytes):
            replaced[first : first + len(batch)] |= winners.meet(batch)
            first += len(batch)


class _Winners:
    """The winners of the log files, and what became of each when it met the base file's row."""

    def __init__(self, records: Records, ordering_field: str | None) -> None:
        self._records = records
        self.ordering_field = ordering_field
        self._met = np.zeros(len(records), np.bool_)
        self._lost = np.zeros(len(records), np.bool_)
        self._is_delete = (records.kinds & Kind.DELETE) != 0

    def meet(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Which rows of the base file lose."""
        found = pc.index_in(batch.column(KEY), value_set=self._records.keys)
        rows = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        winners = found.drop_null().to_numpy()
        # A key that the base file holds twice: only its first row meets the winner, as in Hudi.
        first_rows = np.full(len(self._met), -1)
        first_rows[winners[::-1]] = rows[::-1]  # of several values for one index, numpy keeps the last
        winners = np.flatnonzero((first_rows >= 0) & ~self._met)
        rows = first_rows[winners]
        wins = self._wins(batch, rows, winners)
        self._met[winners] = True
        self._lost[winners[~wins]] = True
        replaced = np.zeros(len(batch), np.bool_)
        replaced[rows[wins]] = True
        return replaced

    def _wins(
        self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64], winners: npt.NDArray[Any]
    ) -> npt.NDArray[np.bool_]:
        if self.ordering_field is None or self._records.ordering is None:
            return np.ones(len(rows), np.bool_)
        if self.ordering_field not in batch.schema.names:
            return np.ones(len(rows), np.bool_)
        older = ordering_values(batch.column(self.ordering_field).take(pa.array(rows)))
        newer = self._records.ordering.take(pa.array(winners))
        by_commit_time = (self._records.kinds[winners] & Kind.COMMIT_TIME) != 0
        return by_commit_time | not_less(newer, older)

    def rows_to_write(self) -> npt.NDArray[np.int64]:
        """Positions of the rows that the base file gets from the log files, ascending."""
        return self._records.positions[~self._lost & ~self._is_delete]

    def counts(self) -> tuple[int, int, int]:
        """Deletes, updates and inserts."""
        written = ~self._lost & ~self._is_delete
        deletes = int((~self._lost & self._is_delete).sum())
        return deletes, int((written & self._met).sum()), int((written & ~self._met).sum())
