"""Merges one file slice into a base file, in two phases, so that the rows are never in memory together.

First the winner of each key among the log files is decided, on keys and ordering values alone. Then the base file is
streamed without the rows that lose, and the log files are read again for the rows that win.
"""

from __future__ import annotations

import io
import json
import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bucketingest.hudi.errors import InvalidTable
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.services.compaction.base_file import REPEATED, BaseFileWriter
from bucketingest.services.compaction.log_records import KEY, LogRecords, ordering_values
from bucketingest.services.compaction.merge_rules import MergeRules
from bucketingest.services.compaction.winners import Kind, Records, WinnerFold
from bucketingest.storage.interface import Storage

_FILE_NAME: Final = META_COLUMNS[4]
_BUFFER_BYTES: Final = 1024**2
_STATISTICS: Final = "bucketingest.statistics"
_DIGEST: Final = "bucketingest.operation"
"""Our own keys in a base file's footer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is in memory at a time."""

    fold_records: int = 1_000_000
    """Log records whose keys and ordering values are collected before losers are dropped."""
    batch_rows: int = 256 * 1024
    """Rows of the base file that are read at a time."""
    key_rows: int = 2_000_000
    """The same, where only keys and ordering values are read."""
    row_group_rows: int = 512 * 1024
    """Rows of a row group of the new base file."""


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True)
class SliceInput:
    """The files of one slice; paths relative to the table's root."""

    base_file: str | None
    log_files: Sequence[str]
    """In the order in which readers merge them."""
    newest_instant: str
    """Blocks of later instants are left out: the newest completed instant of the table."""


@dataclass(frozen=True, slots=True)
class MergeStatistics:
    """What a merge did, relative to the old base file; in rows, records and bytes as in Hudi's write statistics."""

    rows: int
    inserts: int
    updates: int
    deletes: int
    log_records: int
    log_blocks: int
    log_bytes: int


def merge_slice(
    storage: Storage,
    files: SliceInput,
    rules: MergeRules,
    *,
    file_name: str,
    to: pathlib.Path,
    digest: str = "",
    limits: Limits = DEFAULT_LIMITS,
) -> MergeStatistics:
    """Write the slice's rows as a base file named `file_name` to the local path `to`. Its footer has the statistics and
    the `digest` of what was merged.

    Raises CorruptLog, and UnsupportedTable for blocks that only Hudi can merge.
    """
    logs = LogRecords(storage, files.log_files, rules, files.newest_instant)
    fold = WinnerFold(limits.fold_records)
    for records in logs.records():
        fold.add(records)
    winners = _Winners(fold.winners(), rules.ordering_field)
    replaced = _replaced_rows(storage, files.base_file, winners, limits) if files.base_file is not None else None
    with BaseFileWriter(to, rules.schema, file_name, row_group_rows=limits.row_group_rows) as out:
        if files.base_file is not None and replaced is not None:
            _write_base(storage, files.base_file, replaced, out, limits.batch_rows)
        for rows in logs.rows(winners.rows_to_write()):
            out.write(rows)
        out.flush()
        deletes, updates, inserts = winners.counts()
        done = MergeStatistics(out.rows, inserts, updates, deletes, logs.total, logs.blocks, logs.size_bytes)
        out.finish({_STATISTICS: json.dumps(asdict(done)), _DIGEST: digest})
    return done


def stored_merge(storage: Storage, path: str) -> tuple[str, MergeStatistics]:
    """The digest and the statistics in the footer of a base file that `merge_slice` wrote.

    Raises InvalidTable for a base file of another writer.
    """
    with pq.ParquetFile(_ObjectFile(storage, path)) as base:
        footer = base.metadata.metadata or {}
    try:
        return footer[_DIGEST.encode()].decode(), MergeStatistics(**json.loads(footer[_STATISTICS.encode()]))
    except (KeyError, ValueError, TypeError) as error:
        raise InvalidTable(f"{storage.url}/{path} is a base file of another writer: {error!r}") from error


def _replaced_rows(storage: Storage, path: str, winners: _Winners, limits: Limits) -> npt.NDArray[np.bool_]:
    """Which rows of the base file lose, in its order. In large batches: each builds a hash table of the winners."""
    with _open(storage, path) as base:
        wanted = [KEY, winners.ordering_field or KEY]
        batches = base.iter_batches(limits.key_rows, columns=wanted, use_threads=False)
        return np.concatenate([np.zeros(0, np.bool_), *map(winners.meet, batches)])


def _write_base(storage: Storage, path: str, replaced: npt.NDArray[np.bool_], out: BaseFileWriter, rows: int) -> None:
    first = 0
    with _open(storage, path) as base:
        columns = [name for name in base.schema_arrow.names if name != _FILE_NAME]
        for batch in base.iter_batches(rows, columns=columns, use_threads=False):
            lost = replaced[first : first + len(batch)]
            first += len(batch)
            out.write(pa.Table.from_batches([batch.filter(pa.array(~lost)) if lost.any() else batch]))


def _open(storage: Storage, path: str) -> pq.ParquetFile:
    file = _ObjectFile(storage, path)
    return pq.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False, read_dictionary=list(REPEATED))


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
        # A null is lower than every value.
        not_less = pc.if_else(newer.is_null(), older.is_null(), pc.greater_equal(newer, older).fill_null(True))  # noqa: FBT003
        by_commit_time = (self._records.kinds[winners] & Kind.COMMIT_TIME) != 0
        return by_commit_time | not_less.to_numpy(zero_copy_only=False)

    def rows_to_write(self) -> npt.NDArray[np.int64]:
        """Positions of the rows that the base file gets from the log files, ascending."""
        return self._records.positions[~self._lost & ~self._is_delete]

    def counts(self) -> tuple[int, int, int]:
        """Deletes, updates and inserts."""
        written = ~self._lost & ~self._is_delete
        deletes = int((~self._lost & self._is_delete).sum())
        return deletes, int((written & self._met).sum()), int((written & ~self._met).sum())


class _ObjectFile(io.RawIOBase):
    """An object as a file that can be read at any place."""

    def __init__(self, storage: Storage, path: str) -> None:
        self._storage = storage
        self._path = path
        self._size = storage.head(path).size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        wanted = self._size - self._position if size < 0 else size
        data = self._storage.get_range(self._path, self._position, wanted) if wanted else b""
        self._position += len(data)
        return data
