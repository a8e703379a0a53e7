"""Plans of one micro-batch and what its tasks do with rows, without an engine: packed, sorted, written, read back."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.log.reader import Delete, LogContent, read_log
from bucketingest.hudi.naming import join
from bucketingest.hudi.table.schema import META_COLUMNS, arrow_to_avro, schema_json, with_meta_columns
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.row_rules import row_rules
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.storage import Storage, open_storage
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.bucket_writer import BucketWriter
from bucketingest.write.rows.shuffle import SHUFFLE_SCHEMA, pack
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.writer import at_owners, share_of

INSTANT = "20261121080000000"
SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("amount", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
)
"""Key, partition, payload and ordering column of the tests' rows."""
WITH_DELETES = SCHEMA.append(pa.field(DELETE_COLUMN, pa.bool_()))


def definition(**changes: Any) -> TableDefinition:
    """The tests' table: `id` is the key, `region` the partition, `at` orders, four buckets."""
    standard = TableDefinition("orders", ("id",), ("region",), "at", buckets=4)
    return replace(standard, **changes)


def write_plan(of: TableDefinition | None = None, **changes: Any) -> WritePlan:
    """A plan for a new table in memory; `of` changes how rows find their place."""
    table = of or definition()
    schema = changes.get("schema", SCHEMA)
    stored = pa.schema([column for column in schema if column.name != DELETE_COLUMN])
    standard = WritePlan(
        table_url=f"memory://{uuid.uuid4()}",
        dead_letters_url=f"memory://{uuid.uuid4()}",
        storage_options={},
        pipeline="shop/orders",
        instant_time=INSTANT,
        sequence=1,
        schema=schema,
        block_schema_json=schema_json(with_meta_columns(arrow_to_avro(stored, table_name="orders"))),
        rules=row_rules(table),
        log_block="parquet",
        memory_bytes=64 * 1024**2,
        tasks=2,
        file_ids=FileIds(BucketCounts(table.buckets, table.bucket_rules or ())),
        partitions=PartitionNumbers.of([]),
    )
    return replace(standard, **changes)


def row(
    key: str | None, *, region: str | None = "eu", amount: int = 0, at: int | None = 0, deleted: bool | None = None
) -> dict[str, Any]:
    """One row of `SCHEMA`; `at` in microseconds. `deleted` is for plans `WITH_DELETES`."""
    values = {"id": key, "region": region, "amount": amount, "at": at}
    return values if deleted is None else values | {DELETE_COLUMN: deleted}


def batch(rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """The rows as one batch."""
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)


def packed(map_tasks: Sequence[Iterable[pa.RecordBatch]], plan: WritePlan) -> pa.Table:
    """What all map tasks, each with its own batches, send into the shuffle."""
    sent = [message for task, batches in enumerate(map_tasks) for message in pack(batches, plan, task)]
    return pa.Table.from_batches(sent, SHUFFLE_SCHEMA)


def write(
    rows: Sequence[dict[str, Any]] | Sequence[pa.RecordBatch], plan: WritePlan, storage: Storage | None = None
) -> list[WriteStatus]:
    """Pack rows (or batches) in one map task and run every write task; all their statuses."""
    batches = [given if isinstance(given, pa.RecordBatch) else batch([given], plan.schema) for given in rows]
    sent = at_owners(packed([batches], plan), plan)
    statuses: list[WriteStatus] = []
    for task in range(plan.tasks):
        with BucketWriter(plan, storage or open_storage(plan.table_url), task=task) as writer:
            for message in share_of(task, sent):
                writer.write(message)
            statuses += writer.close()
    return statuses


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A log file read back."""

    path: str
    blocks: tuple[LogContent, ...]

    @property
    def stored_rows(self) -> list[dict[str, Any]]:
        """Rows of the data blocks, meta columns included."""
        return [found for block in self.blocks if block.rows is not None for found in block.rows.to_pylist()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of the data blocks without meta columns."""
        return [{name: row[name] for name in row if name not in META_COLUMNS} for row in self.stored_rows]

    @property
    def deletes(self) -> list[Delete]:
        """Entries of the delete blocks."""
        return [entry for block in self.blocks for entry in block.deletes]


def written_files(statuses: Sequence[WriteStatus], plan: WritePlan) -> list[WrittenFile]:
    """The files that the statuses name."""
    storage = open_storage(plan.table_url)
    paths = [join(status.partition_path, status.file_name) for status in statuses if status.file_id]
    return [WrittenFile(path, tuple(read_log(storage.get(path), source=path))) for path in paths]


def rows_in(statuses: Sequence[WriteStatus], plan: WritePlan) -> list[dict[str, Any]]:
    """All rows of the files that the statuses name."""
    return [found for file in written_files(statuses, plan) for found in file.rows]
