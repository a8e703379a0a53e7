"""A new file group in one micro-batch: its first rows become a base file, where Hudi's BLOOM and SIMPLE indexes find
their keys; they do not look into log files.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.base.base_file import BaseFileWriter
from bucketingest.hudi.naming import BaseFileName
from bucketingest.hudi.table.schema import META_COLUMNS, avro_to_arrow
from bucketingest.index.placing import Place
from bucketingest.index.state.hashing import SEED_BYTES, KeyHasher
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.append_handle import RowNumbers
from bucketingest.write.rows.merging import filled_by, surviving_rows
from bucketingest.write.spilled_rows import SpilledRows, scratch_file

_PART_ROWS: Final = 1 << 20
"""Of about so many rows the keys and ordering values are in memory together: 200 MB, most of it to find equal keys."""
_ROW_GROUP_ROWS: Final = 1 << 20
_ROW_GROUP_SHARE: Final = 1 / 8
"""Share of the task's budget that the rows of a row group take before they are encoded."""


class BaseHandle:
    """Collects the rows of a new file group. Not shared between threads.

    Readers do not merge inside a base file, so of rows with one key only the winner is written: that with the greatest
    ordering value, of equal ones the latest. If it is a delete, nothing is, as there is nothing to delete. Winners are
    found when the group is closed, among a part of its keys at a time: a table's first load makes groups of any size.
    """

    def __init__(self, plan: WritePlan, place: Place, numbers: RowNumbers) -> None:
        self.place = place
        self.partition_path = place.partition_path
        self.file_name = BaseFileName(place.file_id, plan.instant_time)
        self.upserts = self.deletes = self.dropped = self.blocks = self.size_bytes = 0
        self.new_rows = 0
        self._plan = plan
        self._sequence_prefix = f"{plan.instant_time}_{place.task}_"
        self._numbers = numbers
        self._rows = SpilledRows(plan.schema)
        self.rows_received = 0
        self._result: pathlib.Path | None = None

    @property
    def buffered_bytes(self) -> int:
        """Bytes of Arrow buffers not yet on scratch disk."""
        return self._rows.buffered_bytes

    def append(self, rows: pa.RecordBatch, size_bytes: int) -> None:
        """Take rows of the plan's schema, in arrival order, and the bytes of memory they hold."""
        self._rows.append(rows, size_bytes)
        self.rows_received += rows.num_rows

    def flush(self) -> None:
        """Move the buffered rows to scratch disk: the budget needs the memory."""
        self._rows.flush()

    def close(self) -> pathlib.Path | None:
        """The base file on scratch disk, which the caller deletes; None if no row is left."""
        winners = self._winners()
        self.upserts = int(winners.sum())
        if self.upserts:
            self._result = scratch_file(".parquet")
            self._write(winners, self._result)
            self.size_bytes, self.blocks = self._result.stat().st_size, 1
        self._rows.forget()
        return self._result

    def discard(self) -> None:
        """Drop everything, after a failure."""
        self._rows.forget()
        if self._result is not None:
            self._result.unlink(missing_ok=True)

    def _winners(self) -> npt.NDArray[np.bool_]:
        """Which rows are written, in arrival order; counts those that are not as there is nothing to delete."""
        rules, has_deletes = self._plan.rules, self._plan.has_deletes
        columns = dict.fromkeys([*rules.record_key.fields, *([rules.ordering_field] if rules.ordering_field else [])])
        won = np.ones(self.rows_received, np.bool_)
        parts = max(1, -(-self.rows_received // _PART_ROWS))
        part_of_row = self._parts(parts)
        for part in range(parts):
            keys, ordering = [], []
            for start, batch in self._selected([*columns]):
                rows = batch
                if parts > 1:
                    rows = batch.filter(pa.array(part_of_row[start : start + batch.num_rows] == part))
                keys.append(self._keys(rows))
                if rules.ordering_field is not None:
                    ordering.append(rows.column(rules.ordering_field))
            survivors = surviving_rows(pa.concat_arrays(keys), pa.concat_arrays(ordering) if ordering else None)
            if survivors is not None:
                of_part = np.flatnonzero(part_of_row == part)
                won[of_part] = False
                won[of_part[survivors]] = True
        for start, batch in self._selected([DELETE_COLUMN]) if has_deletes else ():
            deleted = batch.column(0).fill_null(False)  # noqa: FBT003 - Arrow's signature
            is_delete = deleted.to_numpy(zero_copy_only=False)
            of_batch = won[start : start + batch.num_rows]
            self.dropped += int((of_batch & is_delete).sum())
            of_batch &= ~is_delete
        return won

    def _parts(self, parts: int) -> npt.NDArray[np.uint16]:
        """The part of each row, by its key: rows of one key are in one."""
        found = np.zeros(self.rows_received, np.uint16)
        if parts > 1:
            hasher = KeyHasher(os.urandom(SEED_BYTES))  # noqa: TID251 - the result does not depend on it
            for start, batch in self._selected(self._plan.rules.record_key.fields):
                found[start : start + batch.num_rows] = hasher.hash(self._keys(batch)).parts(parts)
        return found

    def _selected(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """These columns of all rows, in arrival order, each batch with the number of its first row."""
        start = 0
        for batch in self._rows.batches(columns):
            yield start, batch
            start += batch.num_rows

    def _write(self, winners: npt.NDArray[np.bool_], to: pathlib.Path) -> None:
        schema = avro_to_arrow(json.loads(self._plan.block_schema_json))
        start = 0
        with BaseFileWriter(
            to,
            schema,
            str(self.file_name),
            row_group_rows=_ROW_GROUP_ROWS,
            row_group_bytes=int(self._plan.memory_bytes * _ROW_GROUP_SHARE),
            filtered_keys=self.upserts,
        ) as out:
            for batch in self._rows.batches():
                won = winners[start : start + batch.num_rows]
                start += batch.num_rows
                rows = batch if won.all() else batch.filter(pa.array(won))
                if self._plan.rules.fills_unavailable:
                    rows = filled_by(rows, self._keys(rows), self._keyed_rows(), last=True)
                if self._plan.has_deletes:
                    rows = rows.drop_columns([DELETE_COLUMN])
                out.write(self._with_meta_columns(rows))
            out.finish({})

    def _keyed_rows(self) -> Iterator[tuple[pa.Array, pa.RecordBatch]]:
        return ((self._keys(rows), rows) for rows in self._rows.batches())

    def _with_meta_columns(self, rows: pa.RecordBatch) -> pa.Table:
        count = rows.num_rows
        numbers = pa.array(self._numbers.take(count)).cast(pa.string())
        meta = [
            _constant(self._plan.instant_time, count),
            pc.binary_join_element_wise(self._sequence_prefix, numbers, ""),
            self._keys(rows),
            _constant(self.partition_path, count),
        ]
        return pa.Table.from_arrays([*meta, *rows.columns], names=[*META_COLUMNS[:4], *rows.schema.names])

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        return self._plan.rules.record_key.record_keys(rows)


def _constant(text: str, count: int) -> pa.DictionaryArray:
    """The same text `count` times, without writing it `count` times."""
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([text]))
