"""Attempts of one pipeline on one table in memory, without an engine, and what a reader of the table sees."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.log.reader import read_log
from bucketingest.hudi.naming import bucket_of_file_id
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import Storage, open_storage
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, CoordinatorSettings, MicroBatchOutcome, Start
from bucketingest.write.dead_letters.writer import STAGING_DIRECTORY
from bucketingest.write.instants.source_range import SourceRange, canonical_json, reaches_beyond
from bucketingest.write.open_table import OpenTable, open_table
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus
from support.tables.write_plans import SCHEMA, definition, write, write_plan

PIPELINE = "shop/orders"
TASKS = 2
Rows = Sequence[dict[str, Any]]


def offsets(start: int, end: int) -> SourceRange:
    """A range of the only partition of a Kafka topic."""
    at = [canonical_json({"orders": {"0": offset}}) for offset in (start, end)]
    return SourceRange("kafka", at[0], at[1], "query", start)


@dataclass
class Attempt:
    """One process of the pipeline: its coordinator, and tasks that write what they are given."""

    opened: OpenTable
    coordinator: InstantCoordinator
    dead_letters_url: str | None
    pipeline: str
    start: Start
    tasks: int = TASKS

    def run(
        self, source_range: SourceRange, rows: Rows, then: Callable[[], object] = lambda: None, **changes: Any
    ) -> MicroBatchOutcome:
        """Write the rows as one micro-batch; `then` happens after the tasks and before the commit."""

        def write_rows(assignment: Assignment) -> list[WriteStatus]:
            statuses = write(rows, self.plan(assignment, **changes), self.opened.storage)
            then()
            return statuses

        return self.coordinator.run(source_range, write_rows)

    def go_on(self, *batches: tuple[SourceRange, Rows]) -> None:
        """Write what the table lacks of these micro-batches, as a query does that starts where the table ends."""
        for source_range, rows in batches:
            if reaches_beyond(source_range, self.coordinator.position):
                self.run(source_range, rows)

    def plan(self, assignment: Assignment, **changes: Any) -> WritePlan:
        """What the tasks of this attempt receive."""
        standard = {
            "table_url": self.opened.storage.url,
            "dead_letters_url": self.dead_letters_url,
            "pipeline": self.pipeline,
            "instant_time": assignment.instant_time,
            "sequence": assignment.sequence,
            "schema": self.opened.row_schema,
            "block_schema_json": self.opened.block_schema_json,
            "rules": self.opened.rules,
            "tasks": self.tasks,
            "file_ids": assignment.file_ids,
            "partitions": assignment.partitions,
            "made_at": assignment.made_at,
        }
        return write_plan(self.opened.definition, **(standard | changes))


class TestTable:
    """A table, its dead letters, and the attempts that write to it. Every look at it goes past the attempts' faults."""

    __test__ = False

    def __init__(self, of: TableDefinition | None = None, schema: pa.Schema = SCHEMA) -> None:
        self.definition = of or definition()
        self.schema = schema
        self.storage = open_storage(f"memory://{uuid.uuid4()}")
        self.dead_letters = open_storage(f"memory://{uuid.uuid4()}")

    def attempt(
        self,
        storage: Storage | None = None,
        *,
        dead_letters: Storage | None = None,
        reject: str = "deadLetter",
        max_retries: int = 0,
        pipeline: str = PIPELINE,
        commit_interval: timedelta | None = None,
        max_files: int = 100_000,
        clock: Callable[[], datetime] = utc_now,
        forward: Callable[[], float] | None = None,
        work: str = "",
        repeatable: bool = True,
        drop_metadata_table: Callable[[Storage], None] | None = None,
        tasks: int = TASKS,
    ) -> Attempt:
        """A new process, its coordinator started; on `storage`, which may fail, instead of the table's own."""
        table, drop = storage or self.storage, drop_metadata_table
        drop_now = None if drop is None else partial(drop, table)
        opened = open_table(table, self.definition, self.schema, drop_metadata_table=drop_now)
        letters = (dead_letters or self.dead_letters) if reject == "deadLetter" else None
        coordinator = InstantCoordinator(
            opened,
            CoordinatorSettings(
                pipeline,
                tasks,
                max_retries,
                letters,
                commit_interval=commit_interval,
                max_files=max_files,
                clock=clock,
                forward=forward or (lambda: clock().timestamp()),
                work=work,
                repeatable=repeatable,
                check_unchanged=drop or refuse_changed_table,
            ),
        )
        start = coordinator.start()
        return Attempt(opened, coordinator, None if letters is None else self.dead_letters.url, pipeline, start, tasks)

    def timeline(self) -> Timeline:
        """The timeline as it is now."""
        return Timeline.load(self.storage)

    def visible_rows(self) -> list[dict[str, Any]]:
        """Every row of every committed log file, also where one supersedes another; by key."""
        view = load_file_view(self.storage, self.timeline())
        files = [file for group in view.groups for slice_ in group.slices for file in slice_.log_files]
        contents = (content for file in files for content in read_log(self.storage.get(file.path)))
        rows = [row for content in contents if content.rows is not None for row in content.rows.to_pylist()]
        return sorted(rows, key=lambda row: str(row["_hoodie_record_key"]))

    def visible_keys(self) -> list[str]:
        """Record keys of the visible rows, doubled ones twice."""
        return [row["_hoodie_record_key"] for row in self.visible_rows()]

    def completed(self) -> dict[str, bytes]:
        """Completed files on the timeline, by path."""
        paths = [path_of(instant) for instant in self.timeline().completed]
        return {path: self.storage.get(path) for path in paths}

    def leftovers(self) -> list[str]:
        """What should not stay: pending instants, uncommitted files, heartbeats, markers; and second file ids."""
        timeline = self.timeline()
        view = load_file_view(self.storage, timeline)
        groups = [group for group in view.groups if group.slices and self.definition.state is None]
        places = [(group.partition_path, bucket_of_file_id(group.file_id)) for group in groups]
        return [
            *(path_of(instant) for instant in timeline.pending),
            *(file.path for file in view.uncommitted),
            *(f"unmarked partition {path}" for path in view.unmarked_partitions),
            *(f"second file group of {place}" for place in set(places) if places.count(place) > 1),
            *(info.path for info in self.storage.list(".hoodie/.heartbeat")),
            *(info.path for info in self.storage.list(".hoodie/.temp")),
        ]

    def published_letters(self) -> list[dict[str, Any]]:
        """The rows of the dead-letter table that a reader sees."""
        paths = [i.path for i in self.dead_letters.list("") if not i.path.startswith(f"{STAGING_DIRECTORY}/")]
        tables = [pq.read_table(io.BytesIO(self.dead_letters.get(path))) for path in paths]
        return [row for table in tables for row in table.to_pylist()]

    def staged_letters(self) -> list[str]:
        """Paths of dead-letter files that are not published."""
        return [info.path for info in self.dead_letters.list(STAGING_DIRECTORY)]
