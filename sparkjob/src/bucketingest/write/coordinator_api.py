"""What the coordinator is given and gives back: its settings, and the types of a start and a micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.state.summary import StateSummary
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.storage import Storage, open_storage
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows.write_status import WriteStatus


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """How the coordinator commits."""

    pipeline: str
    tasks: int
    """Number of write tasks, each of which must report."""
    max_retries: int
    """How often a commit is retried after a storage error."""
    dead_letters: Storage | None
    """Where rejected rows go; None: a rejected row fails the micro-batch."""
    commit_interval: timedelta | None = None
    """Age at which an instant is committed; None: after each micro-batch, as always with an index with a state."""
    max_files: int = 100_000
    """Files of an instant at which it is committed before its age, so that a commit and its metadata stay bounded."""
    lock: Lock = nullcontext
    """Makes a context that holds Hudi's lock of the table while the timeline is changed."""
    check_lease: Callable[[], None] = lambda: None
    """Raises if another job may hold the table already."""
    clock: Callable[[], datetime] = utc_now
    forward: Callable[[], float] = forward_seconds
    """Seconds by a clock that cannot be set."""
    work: str = ""
    """Fingerprint of everything that decides which rows are written, and how, except the source range: a micro-batch is
    resumed only by an attempt with the same fingerprint.
    """
    repeatable: bool = True
    """Whether a task that runs again gets the same rows. If not, as with rand() in the SQL, no other attempt resumes a
    micro-batch, and each micro-batch is searched for files of tasks that ran twice.
    """
    open_letters: Callable[[str], Storage] = open_storage
    """Opens the place where an earlier attempt staged dead letters, by its URL."""
    check_unchanged: Callable[[Storage], None] = refuse_changed_table
    """Raises, or drops it, if another writer has switched Hudi's metadata table on."""


class StartVerdict(StrEnum):
    """What an attempt finds when it starts."""

    NEW = "new"
    """The table has nothing of the pipeline."""
    IN_STEP = "in step"
    """Everything that was started is completed or rolled back."""
    RESUMED = "resumed"
    """An instant that an earlier attempt left is resumed, or was completed just now."""
    REWOUND = "rewound"
    """Rows of a rolled-back or overtaken instant are ingested again."""


@dataclass(frozen=True, slots=True)
class Start:
    """What the coordinator found at a start, and where reading the source continues."""

    position: SourceRange | None
    """The last range that the table, or the open instant, has; None: start at the source's beginning."""
    replay: SourceRange | None
    """A micro-batch that was started: it must come next, with exactly this range."""
    verdict: StartVerdict
    reason: str
    """The verdict in words, for the log."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the tasks of one micro-batch get."""

    instant_time: str
    sequence: int
    file_ids: FileIds | PlannedFileIds
    partitions: PartitionNumbers
    made_at: datetime
    """When the instant was known to be open, by the driver's clock: a process may be paused since."""


WriteRows: TypeAlias = Callable[[Assignment], Sequence[WriteStatus]]
"""Runs the write tasks and returns all their statuses. Raises ConflictingAttempt if a task found other rows under its
names.
"""


@dataclass(frozen=True, slots=True)
class Commit:
    """An instant that was completed. Times in seconds, size in bytes, the rest in rows or files."""

    instant_time: str
    completion_time: str
    micro_batches: int
    rows: int
    """Rows received, rejected ones included."""
    files: int
    size_bytes: int
    open_seconds: float
    """From the instant's request to the start of its commit."""
    commit_seconds: float


@dataclass(frozen=True, slots=True)
class MicroBatchOutcome:
    """The result of a micro-batch. Times in seconds, size in bytes, the rest in rows or files."""

    instant_time: str | None
    """None: its rows were in the table already."""
    rows: int = 0
    upserts: int = 0
    deletes: int = 0
    inserts: int = 0
    """Of the upserts, rows of keys that an index with a state did not know."""
    dropped: int = 0
    """Deletes of such keys."""
    moved: int = 0
    """Keys that moved to another partition, where a key is in one only; each is deleted in the old one."""
    older: int = 0
    """Rows that were older than that of their key in another partition, and are not written."""
    rejected: int = 0
    first_rejected: str = ""
    """Why the first of them was; "" without one."""
    files: int = 0
    size_bytes: int = 0
    write_seconds: float = 0.0
    commit: Commit | None = None
    """None: its instant stays open for further micro-batches."""
    state: StateSummary | None = None
    """The size of the index's state; None with a bucket index."""

    @property
    def commit_seconds(self) -> float:
        """Time that the commit took, if there was one."""
        return 0.0 if self.commit is None else self.commit.commit_seconds


def outcome_of(
    instant: str, statuses: Sequence[WriteStatus], write_seconds: float, commit: Commit | None
) -> MicroBatchOutcome:
    """The outcome that a micro-batch's write statuses add up to."""
    return MicroBatchOutcome(
        instant_time=instant,
        rows=sum(status.rows_received for status in statuses),
        upserts=sum(status.upserts for status in statuses),
        deletes=sum(status.deletes for status in statuses),
        inserts=sum(status.inserts for status in statuses),
        dropped=sum(status.dropped for status in statuses),
        moved=sum(status.moved for status in statuses),
        older=sum(status.older for status in statuses),
        rejected=sum(status.rejected for status in statuses),
        first_rejected=next((status.sample for status in statuses if status.rejected), ""),
        files=sum(1 for status in statuses if status.file_id),
        size_bytes=sum(status.size_bytes for status in statuses),
        write_seconds=write_seconds,
        commit=commit,
    )
