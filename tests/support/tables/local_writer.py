"""The whole write path without Spark, with every setting that a test needs: no lease, Hudi's lock, more map tasks.

So a test of tables needs no second JVM.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.hudi.table.layout_warnings import LogBlock
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.services.metadata_table import MetadataTableDrop
from bucketingest.storage import Storage, open_storage
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, CoordinatorSettings, MicroBatchOutcome
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.open_table import open_table
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.writer import run_tasks
from support.tables.services.compactions import compact

PIPELINE = "test"


@dataclass
class LocalWriter:
    """One attempt of a pipeline on one table. Each commit's source range follows the one before."""

    path: Path
    definition: TableDefinition
    schema: pa.Schema
    """Columns of the rows, without the delete column."""
    deleted: str | None = None
    """A boolean column of the rows: true deletes the key."""
    log_block: LogBlock | None = None
    memory_bytes: int = 64 * 1024**2
    batch_rows: int = 10_000
    """Rows of a batch in which the engine hands the input over."""
    map_tasks: int = 2
    write_tasks: int = 2
    lock: Lock = nullcontext
    """Makes a context that holds Hudi's lock of the table."""
    pipeline: str = PIPELINE
    commit_interval: timedelta | None = None
    """How long an instant takes in micro-batches; None: each has one of its own."""
    drop_metadata_table: bool = False
    """Whether Hudi's metadata table is dropped; else a table with it is refused."""
    storage: Storage | None = None
    """What the driver reads and writes the table by."""
    read_as: str = ""
    """What messages are read as: see `OpenTable`."""
    coordinator: InstantCoordinator = field(init=False)

    def __post_init__(self) -> None:
        storage = self.storage or open_storage(str(self.path))

        def merge_logs(_: pa.Schema) -> None:
            compact(storage)

        drop = MetadataTableDrop(storage, self.lock) if self.drop_metadata_table else None
        opened = open_table(
            storage,
            self.definition,
            self.schema,
            has_deletes=self.deleted is not None,
            log_block=self.log_block,
            drop_metadata_table=None if drop is None else drop.at_start,
            merge_logs=merge_logs,
        )
        self._opened = replace(opened, read_as=self.read_as)
        settings = CoordinatorSettings(
            self.pipeline,
            self.write_tasks,
            max_retries=0,
            dead_letters=None,
            commit_interval=self.commit_interval,
            lock=self.lock,
            check_unchanged=drop or refuse_changed_table,
        )
        self.coordinator = InstantCoordinator(self._opened, settings)
        self.coordinator.start()

    def commit(self, rows: pa.Table) -> MicroBatchOutcome:
        """One micro-batch of these rows, in this order, as one instant."""
        done = self.coordinator.position
        batch_id = 0 if done is None else done.batch_id + 1
        start = None if done is None else done.end
        source_range = SourceRange("checkpoint", start, str(batch_id), query_id=PIPELINE, batch_id=batch_id)
        return self.coordinator.run(source_range, lambda assignment: self.write(rows, assignment))

    def write(self, rows: pa.Table, assignment: Assignment) -> list[WriteStatus]:
        """What the tasks of a micro-batch do: pack, shuffle, write."""
        if self.deleted is not None:
            rows = rows.append_column(DELETE_COLUMN, rows[self.deleted])
        plan = self.plan(assignment)
        present = [name for name in plan.schema.names if name in rows.column_names]  # the table may have more
        return run_tasks(rows.select(present), plan, map_tasks=self.map_tasks, batch_rows=self.batch_rows)

    def plan(self, assignment: Assignment) -> WritePlan:
        """What the tasks of a micro-batch are given."""
        return self._opened.plan(
            assignment,
            pipeline=self.pipeline,
            tasks=self.write_tasks,
            memory_bytes=self.memory_bytes,
            storage_options={},
        )
