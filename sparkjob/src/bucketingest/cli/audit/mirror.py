"""The table's side: its rows as a reader sees them at one moment, merged file slice by file slice in bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final, Self

import numpy as np
import pyarrow as pa

from bucketingest.cli.audit.source import Compared, PostgresSource, Sum, add
from bucketingest.cli.audit.texts import hashes_of, text_of
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import FileView, load_file_view
from bucketingest.hudi.table.schema import avro_to_arrow, with_meta_columns
from bucketingest.hudi.table.schema_evolution import widened
from bucketingest.hudi.table.table import HoodieTable, load_table
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.merge.slice_merge import SliceInput, rows_of_slice
from bucketingest.storage.interface import Storage
from bucketingest.write.open_table import stored_schema

_META: Final = 5
"""Hudi's own columns, which are first."""


class Mirror:
    """The table as of its newest commit when it was opened."""

    def __init__(self, storage: Storage, table: HoodieTable, timeline: Timeline, schema: pa.Schema) -> None:
        self._storage = storage
        self._rules = merge_rules(table, schema)
        self._view: FileView = load_file_view(storage, timeline)
        self._replaced = replaced_file_groups(storage, timeline)
        self.instant = max(each.request_time for each in timeline.completed_commits)
        self.key = tuple(table.properties.get("hoodie.table.recordkey.fields", "").split(","))
        self.schema = pa.schema(list(schema)[_META:])

    @classmethod
    def open(cls, storage: Storage) -> Self:
        """Raises what reading a table raises, UnsupportedTable for one without a commit, or that only Hudi merges."""
        table, timeline = load_table(storage), Timeline.load(storage)
        schema = stored_schema(table, timeline)
        if schema is None:
            raise UnsupportedTable(storage.url, ["it has no commit yet: there is nothing to compare"])
        return cls(storage, table, timeline, avro_to_arrow(with_meta_columns(schema)))

    def sums(self, source: PostgresSource) -> dict[int, Sum]:
        """Of each range that has rows."""
        counts = np.zeros(len(source.ranges), np.int64)
        totals = np.zeros(len(source.ranges), np.int64)
        for columns in self._rows(source.compared):
            numbers = source.number_of(columns[: len(source.compared.key)], hashes_of)
            np.add.at(counts, numbers, 1)
            np.add.at(totals, numbers, hashes_of(columns))  # wraps, as the sum modulo 2**64 does
        unsigned = totals.view(np.uint64)
        return {at: (int(counts[at]), int(unsigned[at])) for at in np.flatnonzero(counts).tolist()}

    def rows(self, source: PostgresSource, numbers: Collection[int]) -> dict[tuple[str | None, ...], Sum]:
        """The rows of each key of these ranges, by the texts of the keys. A key may be in two partitions."""
        found: dict[tuple[str | None, ...], Sum] = {}
        wanted = np.array(sorted(numbers), np.int64)
        for columns in self._rows(source.compared):
            key = columns[: len(source.compared.key)]
            kept = pa.array(np.isin(source.number_of(key, hashes_of), wanted))
            if kept.true_count:
                asked = [each.filter(kept) for each in columns]
                keys = [text_of(each).to_pylist() for each in asked[: len(key)]]
                for one, value in zip(zip(*keys, strict=True), hashes_of(asked).tolist(), strict=True):
                    add(found, one, value)
        return found

    def _rows(self, compared: Compared) -> Iterator[list[pa.Array]]:
        fields = [self.schema.field(name) for name in compared.columns]
        for group in self._view.groups:
            if (group.partition_path, group.file_id) in self._replaced or (newest := group.latest) is None:
                continue
            base = None if newest.base_file is None else newest.base_file.path
            files = SliceInput(base, tuple(each.path for each in newest.log_files), self.instant)
            for part in rows_of_slice(self._storage, files, self._rules):
                for batch in part.to_batches():
                    yield [
                        widened(batch.column(each.name), each.type)
                        if each.name in batch.schema.names
                        else pa.nulls(len(batch), each.type)
                        for each in fields
                    ]
