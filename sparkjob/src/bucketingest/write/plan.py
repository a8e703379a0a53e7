"""What a write task must know, as one value that is sent to it: tasks do not read the timeline themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.hudi.table.layout_warnings import BlockChoice
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.row_rules import RowRules
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.storage import UNBOUNDED, PathRoom

DELETE_COLUMN: Final = "_bucketingest_delete"
"""Boolean column that the query adds when the spec says which rows are deletes; it is not stored."""


@dataclass(frozen=True, slots=True)
class WritePlan:
    """One micro-batch of one instant, as its write tasks see it. Picklable."""

    table_url: str
    dead_letters_url: str | None
    """Where rejected rows are staged; None: they are only counted, and the driver fails the micro-batch."""
    storage_options: Mapping[str, str]
    pipeline: str
    instant_time: str
    sequence: int
    """Number of the micro-batch in its instant, from 1; the version in its log files' names."""
    schema: pa.Schema
    """Columns of the arriving rows, without meta columns, `DELETE_COLUMN` last if there is one."""
    block_schema_json: str
    """Avro schema of the blocks, meta columns included."""
    rules: RowRules
    log_block: BlockChoice
    memory_bytes: int
    """Budget of one task."""
    tasks: int
    """Number of write tasks that the shuffle routes to."""
    file_ids: FileIds | PlannedFileIds
    """What gives rows their file groups: an index with buckets, or the recorded plan of one with a state."""
    partitions: PartitionNumbers
    """The partitions that the table has: they have their partition metadata and are routed evenly."""
    room: PathRoom = UNBOUNDED
    """How long paths in the table may be: a row whose partition needs a longer one is rejected."""
    emptied: Sequence[FileSlice] | None = None
    """All that the table has, if the source was truncated: these rows are deleted first."""
    made_at: datetime = field(default_factory=utc_now)
    """When its instant was known to be open, by the driver's clock; see `Assignment`."""

    @property
    def is_global(self) -> bool:
        """Whether a key is in one partition only: then one task gets all rows of a key before they are placed."""
        return isinstance(self.file_ids, PlannedFileIds) and self.file_ids.plan.is_global

    @property
    def has_deletes(self) -> bool:
        """Whether rows carry the delete column."""
        return DELETE_COLUMN in self.schema.names
