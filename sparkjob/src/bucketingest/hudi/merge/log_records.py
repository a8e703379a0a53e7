"""The records of a slice's log files: keys, ordering values and kinds for the fold, and rows for the base file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.errors import CorruptLog, UnsupportedTable
from bucketingest.hudi.log.format import BlockType, HeaderKey, LogBlock
from bucketingest.hudi.log.reader import WHOLE_FILE_BYTES, Delete, LogContent, StoredLog, decode_block
from bucketingest.hudi.merge.merge_rules import DELETING_OPERATIONS, IS_DELETED, OPERATION, MergeRules
from bucketingest.hudi.merge.winners import Kind, Records
from bucketingest.hudi.table.ordering import comparable
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.storage.interface import Storage

KEY: Final = "_hoodie_record_key"
_FILE_NAME: Final = META_COLUMNS[4]
_INTEGERS: Final = (pa.int32(), pa.date32())
"""Types whose values are Integers to Java."""
_REFUSED: Final = {
    HeaderKey.IS_PARTIAL: "partial updates",
    HeaderKey.COMPACTED_BLOCK_TIMES: "blocks of a log compaction",
}


@dataclass(slots=True)
class LogRecords:
    """Reads the log files of one slice, in the order given, one block in memory at a time.

    Blocks of instants after `newest_instant` are left out, as Hudi's readers do.
    """

    storage: Storage
    paths: Sequence[str]
    rules: MergeRules
    newest_instant: str
    whole_file_bytes: int = WHOLE_FILE_BYTES
    """Files up to this size are read at once, larger ones block by block."""
    blocks: int = 0
    """Blocks that `records` has read."""
    total: int = 0
    """Records that it has read: rows and entries of delete blocks."""
    size_bytes: int = 0
    """Bytes of the log files."""
    _rows_of_blocks: list[tuple[int, int]] = field(default_factory=list)

    def records(self) -> Iterator[Records]:
        """Every record without its other columns, one item for each block; again from the first each time.

        Raises CorruptLog, and UnsupportedTable for blocks that only Hudi can merge.
        """
        columns = [KEY, *self.rules.delete_columns]
        if self.rules.ordering_field is not None:
            columns.append(self.rules.ordering_field)
        self.blocks = self.total = 0
        self._rows_of_blocks.clear()
        for path, block in self._blocks():
            self.blocks += 1
            content = decode_block(block, columns, source=path)
            first = self.total
            if content.rows is not None:
                self._rows_of_blocks.append((first, content.rows.num_rows))
                self.total += content.rows.num_rows
                yield self._of_rows(content.rows, first, path)
            else:
                self._rows_of_blocks.append((first, 0))
                self.total += len(content.deletes)
                yield self._of_deletes(content, first, path)

    def values(self, names: Sequence[str]) -> Iterator[tuple[pa.Array, pa.RecordBatch | None]]:
        """Every record in the order of readers: keys and rows with these columns, as far as the block has them, or keys
        of deletes.
        """
        for path, block in self._blocks():
            content = decode_block(block, [KEY, *self.rules.delete_columns, *names], source=path)
            if content.rows is None:
                yield pa.array([each.record_key for each in content.deletes], pa.string()), None
                continue
            columns = {name: _plain(content.rows[name].combine_chunks()) for name in content.rows.column_names}
            deleted = pa.array(self._deleted(columns, content.rows.num_rows))
            rows = pa.RecordBatch.from_pydict(columns)
            kept = rows.filter(pc.invert(deleted))
            yield kept.column(KEY), kept
            if deleted.true_count:
                yield rows.filter(deleted).column(KEY), None

    def rows(self, positions: npt.NDArray[np.int64], columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows at these ascending positions, by default with the columns that a base file takes over: after
        `records` is exhausted. Of Avro blocks only these rows are decoded.
        """
        columns = columns or [name for name in self.rules.schema.names if name != _FILE_NAME]
        places = iter(self._rows_of_blocks)
        for path, block in self._blocks():
            first, count = next(places)
            start, end = np.searchsorted(positions, (first, first + count))
            if start < end:
                content = decode_block(block, columns, positions[start:end] - first, source=path)
                assert content.rows is not None
                yield content.rows

    def _blocks(self) -> Iterator[tuple[str, LogBlock]]:
        self.size_bytes = 0
        for path in self.paths:
            log = StoredLog.open(self.storage, path)
            self.size_bytes += log.size
            for block in log.blocks(self.whole_file_bytes):
                if block.instant_time > self.newest_instant:
                    continue
                self._refuse(block, path)
                yield path, block

    def _refuse(self, block: LogBlock, path: str) -> None:
        found = [what for header, what in _REFUSED.items() if block.headers.get(header)]
        if block.type is BlockType.COMMAND:
            found.append("rollback commands of table version 6")
        if found:
            raise UnsupportedTable(f"{self.storage.url}/{path}", [f"{what}: compact it with Hudi" for what in found])

    def _of_rows(self, rows: pa.Table, first: int, path: str) -> Records:
        columns = {name: rows[name].combine_chunks() for name in rows.column_names}
        keys = _plain(columns[KEY])
        if keys.null_count:
            raise CorruptLog(f"{self.storage.url}/{path}: {keys.null_count} rows have no record key")
        ordering = self._ordering_of(columns, len(keys))
        deleted = self._deleted(columns, len(keys))
        kinds = np.where(deleted, np.uint8(Kind.DELETE), np.uint8(0))
        if ordering is not None and deleted.any():
            kinds[deleted & self._is_default(ordering)] |= np.uint8(Kind.COMMIT_TIME)
        return Records(keys, ordering, np.arange(first, first + len(keys)), kinds)

    def _ordering_of(self, columns: dict[str, pa.Array], count: int) -> pa.Array | None:
        name = self.rules.ordering_field
        if name is None:
            return None
        kind = self.rules.schema.field(name).type
        return ordering_values(columns[name].cast(kind) if name in columns else pa.nulls(count, kind))

    def _is_default(self, ordering: pa.Array) -> npt.NDArray[np.bool_]:
        """Where an ordering value is Java's default, null or the Integer 0; a date is an Integer to Spark."""
        assert self.rules.ordering_field is not None
        if self.rules.schema.field(self.rules.ordering_field).type in _INTEGERS:
            return _numpy(pc.equal(ordering, 0))
        return _numpy(ordering.is_null())

    def _deleted(self, columns: dict[str, pa.Array], count: int) -> npt.NDArray[np.bool_]:
        deleted = np.zeros(count, np.bool_)
        tests = {IS_DELETED: [True], OPERATION: list(DELETING_OPERATIONS)}
        if self.rules.delete_marker is not None:
            tests[self.rules.delete_marker[0]] = [self.rules.delete_marker[1]]
        for name, values in tests.items():
            if name in columns:
                array = _plain(columns[name])
                if name != IS_DELETED:
                    array = array.cast(pa.string())
                deleted |= _numpy(pc.is_in(array, value_set=pa.array(values, array.type)))
        return deleted

    def _of_deletes(self, content: LogContent, first: int, path: str) -> Records:
        deletes = content.deletes
        kinds = np.full(len(deletes), np.uint8(Kind.DELETE | Kind.ENTRY))
        ordering = None
        if self.rules.ordering_field is not None:
            is_default = np.array([_is_default_entry(each) for each in deletes], np.bool_)
            kinds[is_default] |= np.uint8(Kind.COMMIT_TIME)
            kind = self.rules.schema.field(self.rules.ordering_field).type
            values = [None if default else each.ordering for each, default in zip(deletes, is_default, strict=True)]
            try:
                ordering = comparable(_array_of(values, kind))
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
                where = f"{self.storage.url}/{path}: the block at byte {content.block.offset}"
                raise CorruptLog(f"{where} has deletes whose ordering values are not {kind}: {error}") from error
        keys = pa.array([each.record_key for each in deletes], pa.string())
        return Records(keys, ordering, np.arange(first, first + len(deletes)), kinds)


def ordering_values(values: pa.Array) -> pa.Array:
    """The comparable form. Java takes a missing value for the Integer 0, which it cannot compare with other types: here
    it is then lower than every value, so that the table can be compacted.
    """
    ordering = comparable(values)
    return ordering.fill_null(0) if values.type in _INTEGERS else ordering


def _is_default_entry(delete: Delete) -> bool:
    """Java's default ordering value: none, or the Integer 0. Other writers wrap it as an int."""
    return (
        delete.wrapper is None or delete.ordering is None or (delete.wrapper == "IntWrapper" and delete.ordering == 0)
    )


def _array_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Unwrapped ordering values in the column's type: timestamps come as microseconds, dates as days."""
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).view(kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if each is None else Decimal(each) for each in values], pa.decimal128(38, 15)).cast(kind)
    return pa.array(values).cast(kind) if values else pa.array([], kind)


def _plain(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)
