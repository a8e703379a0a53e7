"""A real table whose write tasks are simulated: a commit has everything except the rows, so that commits of any number
of file groups can be measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from bucketingest.hudi.naming import LogFileName, join
from bucketingest.hudi.rollback.markers import mark_files
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.index.bucket_index import FileIds
from bucketingest.storage import Storage, open_storage
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, CoordinatorSettings
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.open_table import OpenTable, open_table
from bucketingest.write.rows.write_status import WriteStatus

ROWS_PER_FILE_GROUP: Final = 10_000
_FILES_MARKED: Final = 1000
"""By one object, as many as a shuffle batch has messages at most."""
_COLUMNS: Final = pa.schema([("id", pa.string()), ("day", pa.string()), ("updated_at", pa.timestamp("us", "UTC"))])


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """One instant on the driver, in seconds, without the time its write tasks would take."""

    begin: float
    """From the call with the micro-batch until its tasks may start: timeline, intent, requested, inflight."""
    commit: float
    """From the last task's report until the instant is complete and nothing is left to do for it."""


@dataclass
class SimulatedTable:
    """A table of `file_groups` file groups, and one attempt of a pipeline.

    Each commit reports one log file per file group; only their markers exist.
    """

    path: Path
    """Its folder, also if it is reached through a server of which this is the storage."""
    file_groups: int
    pipeline: str = "simulated"
    buckets_max: int = 1_000
    """Most buckets of a partition."""
    storage: Storage | None = None
    """How the coordinator reaches it; None: as the folder."""
    coordinator: InstantCoordinator = field(init=False)
    last: Assignment | None = field(default=None, init=False)
    """The last commit's instant."""

    def __post_init__(self) -> None:
        self._opened = self.open()
        settings = CoordinatorSettings(pipeline=self.pipeline, tasks=1, max_retries=0, dead_letters=None)
        self.coordinator = InstantCoordinator(self._opened, settings)
        self.coordinator.start()

    @property
    def buckets(self) -> int:
        """Buckets per partition."""
        return min(self.file_groups, self.buckets_max)

    def open(self) -> OpenTable:
        """The table as a new attempt finds it."""
        definition = TableDefinition(
            name="simulated",
            record_key=("id",),
            partition_fields=("day",),
            ordering_field="updated_at",
            buckets=self.buckets,
        )
        return open_table(self.storage or open_storage(str(self.path)), definition, _COLUMNS)

    def commit(self, file_groups: int | None = None) -> CommitTimes:
        """Commit an instant that wrote to `file_groups` file groups, by default all."""
        count = self.file_groups if file_groups is None else file_groups
        done = self.coordinator.position
        number = 0 if done is None else done.batch_id + 1
        source_range = SourceRange("checkpoint", None if done is None else done.end, str(number), "simulated", number)
        tasks_began = tasks_ended = 0.0

        def write(assignment: Assignment) -> list[WriteStatus]:
            nonlocal tasks_began, tasks_ended
            tasks_began = time.perf_counter()
            self.last = assignment
            statuses = self._statuses(assignment, count)
            names = [join(each.partition_path, each.file_name) for each in statuses]
            for start in range(0, len(names), _FILES_MARKED):
                mark_files(self._opened.storage, assignment.instant_time, names[start : start + _FILES_MARKED])
            tasks_ended = time.perf_counter()
            return statuses

        started = time.perf_counter()
        self.coordinator.run(source_range, write)
        return CommitTimes(tasks_began - started, time.perf_counter() - tasks_ended)

    def touch_files(self) -> None:
        """Empty files under the names of the last commit, so that listings find as many files as it names."""
        assert self.last is not None, "after a commit"
        statuses = self._statuses(self.last, self.file_groups)
        empty_files([self.path / join(status.partition_path, status.file_name) for status in statuses])

    def _statuses(self, assignment: Assignment, count: int) -> list[WriteStatus]:
        return [self._status(assignment, *divmod(number, self.buckets)) for number in range(count)]

    def _status(self, assignment: Assignment, partition: int, bucket: int) -> WriteStatus:
        partition_path = f"2026-{partition // 28 + 1:02d}-{partition % 28 + 1:02d}"
        assert isinstance(assignment.file_ids, FileIds)
        file_id = assignment.file_ids.file_id(partition_path, bucket)
        deletes = bucket % 100
        return WriteStatus(
            task=0,
            partition_path=partition_path,
            bucket=bucket,
            file_id=file_id,
            file_name=str(LogFileName(file_id, assignment.instant_time, assignment.sequence)),
            size_bytes=ROWS_PER_FILE_GROUP * 60 + bucket,
            blocks=1 + (deletes > 0),
            rows_received=ROWS_PER_FILE_GROUP,
            upserts=ROWS_PER_FILE_GROUP - deletes,
            deletes=deletes,
        )


def empty_files(paths: Iterable[Path]) -> None:
    """Make them: in each directory one file with many names, which is ten times faster."""
    first: dict[Path, Path] = {}
    for path in paths:
        if path.parent in first:
            path.hardlink_to(first[path.parent])
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            first[path.parent] = path
