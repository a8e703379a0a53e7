"""One file group in one micro-batch: buffers rows, encodes them as log blocks, and ends as one object."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Callable, Mapping
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.log.blocks import avro_data_block, data_block_by_size, delete_block, parquet_data_block
from bucketingest.hudi.log.format import Buffer
from bucketingest.hudi.naming import LogFileName
from bucketingest.hudi.table.layout_warnings import BlockChoice
from bucketingest.hudi.table.schema import META_COLUMNS
from bucketingest.index.placing import Place
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.merging import filled_by, surely_distinct, surviving_rows

_ONE_VALUE: Final = pa.dictionary(pa.int8(), pa.string())
_META_FIELDS: Final = [
    pa.field(name, kind)
    for name, kind in zip(META_COLUMNS, (_ONE_VALUE, pa.string(), pa.string(), _ONE_VALUE, _ONE_VALUE), strict=True)
]

_BLOCKS: Final[Mapping[BlockChoice, Callable[..., list[Buffer]]]] = {
    "parquet": parquet_data_block,
    "avro": avro_data_block,
    "by size": data_block_by_size,
}


class RowNumbers:
    """Numbers the rows that a task writes, for their commit sequence numbers."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, count: int) -> npt.NDArray[np.int64]:
        """The next numbers, int64[count]."""
        first, self._next = self._next, self._next + count
        return np.arange(first, self._next)


def log_file_name(plan: WritePlan, file_id: str) -> LogFileName:
    """The name of a file group's log file in the plan's micro-batch."""
    return LogFileName(file_id, plan.instant_time, plan.sequence)


class AppendHandle:
    """Appends rows to one file group. Not shared between threads.

    A flush turns the buffered rows into a data block and, for deletes, a delete block. If the memory budget forced the
    flush, its blocks go to a scratch file, so a file group may be larger than memory; all blocks become one object.
    """

    def __init__(self, plan: WritePlan, place: Place, numbers: RowNumbers) -> None:
        self.place = place
        self.partition_path = place.partition_path
        self.file_name = log_file_name(plan, place.file_id)
        self.rows_received = self.upserts = self.deletes = self.dropped = self.blocks = self.size_bytes = 0
        self.new_rows = 0
        self._plan = plan
        self._sequence_prefix = f"{plan.instant_time}_{place.task}_"
        self._numbers = numbers
        self._rows: list[pa.RecordBatch] = []
        self._buffered_bytes = 0
        self._encoded: list[Buffer] = []
        self._scratch: BinaryIO | None = None
        self._scratch_path = pathlib.Path()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of Arrow buffers not yet turned into blocks."""
        return self._buffered_bytes

    def append(self, rows: pa.RecordBatch, size_bytes: int) -> None:
        """Take rows of the plan's schema, in arrival order, and the bytes of memory they hold."""
        self._rows.append(rows)
        self._buffered_bytes += size_bytes
        self.rows_received += rows.num_rows

    def flush(self) -> None:
        """Turn the buffered rows into blocks on scratch disk: the budget needs the memory."""
        self._encode()
        if self._scratch is None:
            descriptor, name = tempfile.mkstemp(prefix="bucketingest-", suffix=".log")
            self._scratch = os.fdopen(descriptor, "wb")
            self._scratch_path = pathlib.Path(name)
        self._scratch.writelines(self._encoded)
        self._encoded.clear()

    def close(self) -> list[Buffer] | pathlib.Path:
        """The content of the handle's object: buffers in order, or the scratch file, which the caller deletes."""
        self._encode()
        if self._scratch is None:
            return self._encoded
        self._scratch.writelines(self._encoded)
        self._encoded.clear()
        self._scratch.close()
        return self._scratch_path

    def discard(self) -> None:
        """Drop everything, after a failure."""
        self._rows.clear()
        self._encoded.clear()
        self._buffered_bytes = 0
        if self._scratch is not None:
            self._scratch.close()
            self._scratch_path.unlink(missing_ok=True)

    def _encode(self) -> None:
        if not self._rows:
            return
        rows = self._rows[0] if len(self._rows) == 1 else pa.concat_batches(self._rows)
        self._rows.clear()
        self._buffered_bytes = 0
        keys = self._plan.rules.record_key.record_keys(rows)
        ordering = self._ordering(rows)
        key = [rows.column(name) for name in self._plan.rules.record_key.fields]
        survivors = None if surely_distinct(key) else surviving_rows(keys, ordering)
        if survivors is not None:
            indices = pa.array(survivors)
            older, of_older = rows, keys
            rows, keys = rows.take(indices), keys.take(indices)
            if self._plan.rules.fills_unavailable:
                rows = filled_by(rows, keys, [(of_older, older)], last=False)
        if self._plan.has_deletes:
            deleted = rows.column(DELETE_COLUMN).fill_null(False)  # noqa: FBT003 - Arrow's signature
            rows = rows.drop_columns([DELETE_COLUMN])
            if deleted.true_count:
                kept = pc.invert(deleted)
                self._add_upserts(rows.filter(kept), keys.filter(kept))
                self._add_deletes(rows.filter(deleted), keys.filter(deleted))
                return
        self._add_upserts(rows, keys)

    def _add_upserts(self, rows: pa.RecordBatch, keys: pa.Array) -> None:
        if not rows.num_rows:
            return
        schema = pa.schema([*_META_FIELDS, *rows.schema])
        table = pa.Table.from_arrays([*self._meta_columns(keys), *rows.columns], schema=schema)
        block = _BLOCKS[self._plan.log_block]
        self._add(block(table, instant_time=self._plan.instant_time, avro_schema_json=self._plan.block_schema_json))
        self.upserts += rows.num_rows

    def _add_deletes(self, rows: pa.RecordBatch, keys: pa.Array) -> None:
        self._add(
            delete_block(
                keys,
                self.partition_path,
                self._ordering(rows),
                instant_time=self._plan.instant_time,
                avro_schema_json=self._plan.block_schema_json,
            )
        )
        self.deletes += rows.num_rows

    def _add(self, block: list[Buffer]) -> None:
        self._encoded += block
        self.size_bytes += sum(memoryview(part).nbytes for part in block)
        self.blocks += 1

    def _ordering(self, rows: pa.RecordBatch) -> pa.Array | None:
        field = self._plan.rules.ordering_field
        return None if field is None else rows.column(field)

    def _meta_columns(self, keys: pa.Array) -> list[pa.Array]:
        count = len(keys)
        numbers = pa.array(self._numbers.take(count)).cast(pa.string())
        return [
            _constant(self._plan.instant_time, count),
            pc.binary_join_element_wise(self._sequence_prefix, numbers, ""),
            keys,
            _constant(self.partition_path, count),
            _constant(self.file_name.file_id, count),
        ]


def _constant(text: str, count: int) -> pa.DictionaryArray:
    """The same text `count` times, without writing it `count` times."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int8)), pa.array([text]))
