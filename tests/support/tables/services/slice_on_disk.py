"""One file slice on disk, made block by block, and its merge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.log.blocks import avro_data_block, delete_block, parquet_data_block
from bucketingest.hudi.merge.merge_rules import IS_DELETED, OPERATION, MergeRules
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns
from bucketingest.services.merge.outcome import Limits
from bucketingest.services.merge.slice_merge import MergeStatistics, SliceInput, merge_slices
from bucketingest.storage import open_storage
from support.tables.services.java_merge import DEFAULT, Entry

PARTITION = "eu"
FEW = Limits(fold_records=5, batch_rows=4, key_rows=5, row_group_rows=6)
PASSES = replace(FEW, fold_bytes=200, batch_bytes=300, row_group_bytes=400)
"""With so few bytes, keys are taken in several passes."""
NEWEST = "20260101000000999"
META = [pa.field(name, pa.string()) for name in META_COLUMNS]


def schema_of(ordering: pa.DataType, *more: pa.Field) -> pa.Schema:
    columns = [pa.field("id", pa.string()), pa.field("at", ordering), pa.field("value", pa.string()), *more]
    return pa.schema([*META, *columns])


@dataclass
class Slice:
    """A file slice on disk, made block by block."""

    folder: Path
    schema: pa.Schema
    ordering_field: str | None = "at"
    logs: list[str] = field(default_factory=list)
    base: str | None = None
    entries: list[Entry] = field(default_factory=list)
    base_rows: list[tuple[str, Any, Any]] = field(default_factory=list)
    limits: Limits = FEW
    delete_marker: tuple[str, str] | None = None
    _written: int = 0

    def rows(self, rows: Sequence[dict[str, Any]], schema: pa.Schema | None = None) -> pa.Table:
        """With meta columns as a writer fills them."""
        full = []
        for row in rows:
            self._written += 1
            meta = dict(zip(META_COLUMNS, ("1", f"1_0_{self._written}", row["id"], PARTITION, "f"), strict=True))
            full.append(meta | row)
        return pa.Table.from_pylist(full, schema=schema or self.schema)

    def log(self, *blocks: list[Any]) -> None:
        """One more log file with these blocks."""
        self.logs.append(f".log-{len(self.logs)}")
        (self.folder / self.logs[-1]).write_bytes(
            b"".join(bytes(memoryview(part)) for block in blocks for part in block)
        )

    def data(self, rows: Sequence[dict[str, Any]], *, avro: bool = False, schema: pa.Schema | None = None) -> list[Any]:
        """A data block."""
        table = self.rows(rows, schema)
        for row in rows:
            self.entries.append(Entry(row["id"], self._ordering(row), row["value"], deleted=self._deletes(row)))
        make = avro_data_block if avro else parquet_data_block
        return make(table, instant_time="20260101000000001", avro_schema_json=avro_json(table.schema))

    def deletes(self, keys: Sequence[str], ordering: Sequence[Any] | None) -> list[Any]:
        """One or two delete blocks; a null is a delete by commit time, and comes first."""
        values = [None] * len(keys) if ordering is None else list(ordering)
        pairs = sorted(zip(keys, values, strict=True), key=lambda pair: pair[1] is not None)
        entries = [Entry(key, DEFAULT if self._is_default(value) else value) for key, value in pairs]
        self.entries += entries
        kind = self.schema.field("at").type
        column = None if ordering is None else pa.array([value for _, value in pairs], kind)
        keys = [key for key, _ in pairs]
        header = {"instant_time": "20260101000000001", "avro_schema_json": avro_json(self.schema)}
        return delete_block(pa.array(keys, pa.string()), PARTITION, column, **header)

    def write_base(self, rows: Sequence[dict[str, Any]], schema: pa.Schema | None = None) -> None:
        """The base file."""
        self.base = "base.parquet"
        pq.write_table(self.rows(rows, schema), self.folder / self.base, row_group_size=7)
        self.base_rows = [(row["id"], self._ordering(row), row["value"]) for row in rows]

    def merge(self) -> tuple[pa.Table, MergeStatistics]:
        """The new base file, and what was done."""
        rules = MergeRules(self.schema, self.ordering_field, self.delete_marker)
        given = SliceInput(self.base, self.logs, NEWEST)
        to = self.folder / "new.parquet"
        done = merge_slices(open_storage(str(self.folder)), [given], rules, file_name="new", to=to, limits=self.limits)
        return pq.read_table(to), done

    def _is_default(self, value: Any) -> bool:
        return value is None or (self.schema.field("at").type in (pa.int32(), pa.date32()) and value in (0, EPOCH))

    def _deletes(self, row: dict[str, Any]) -> bool:
        """Whether Hudi takes the row for a delete."""
        marked = self.delete_marker is not None and row[self.delete_marker[0]] == self.delete_marker[1]
        return marked or bool(row.get(IS_DELETED)) or row.get(OPERATION) in {"D", "-U"}

    def _ordering(self, row: dict[str, Any]) -> Any:
        value = row["at"]
        return DEFAULT if self._deletes(row) and self._is_default(value) else value


EPOCH = date(1970, 1, 1)


def avro_json(schema: pa.Schema) -> str:
    return schema_json(with_meta_columns(arrow_to_avro(schema, table_name="t")))
