"""A snapshot of a running ingestion, for what shows it: a terminal, an HTTP endpoint, the termination message."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from bucketingest.index.state.summary import StateSummary
from bucketingest.services.state import ServicesState
from bucketingest.spec.job_report import CatalogReport, FilesReport, SchemasReport, SourceReport, TablesReport
from bucketingest.write.coordinator_api import Commit

BUSIEST: Final = 20
"""More buckets are not reported one by one: each would be a series."""

ANSWERS_WITHIN_SECONDS: Final = 180.0
"""A query that has not answered for so long is no longer alive. Longer than the pauses of a JVM that will recover."""
COMMITS_WITHIN_SECONDS: Final = 1800.0
"""A commit that takes longer hangs, for example on storage that never answers. Every call to an object store has a time
limit (`bucketingest.storage.limits`), as has the wait for the table's lock; with the default number of tries all of
them together take less.
"""


class Phase(StrEnum):
    """What the job is doing, in one word."""

    STARTING = "starting"
    """Spark starts, or what earlier attempts left is finished or rolled back."""
    RUNNING = "running"
    """A micro-batch is written, or the next one is about to be."""
    COMMITTING = "committing"
    """The tasks have reported; what they wrote is entered in the ledger, decided, completed."""
    IDLE = "idle"
    """Spark has looked and the source has nothing new."""
    WAITING = "waiting"
    """Kafka does not answer, and nothing is being written."""
    STOPPING = "stopping"
    """The job was asked to stop and finishes its work."""
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """Times in seconds, ages counted up to this moment, totals since the start of the process unless said otherwise."""

    running_for: float
    phase: Phase = Phase.STARTING
    epoch: int | None = None
    """Number of the attempt among all of the pipeline; None before the table was claimed."""
    verdict: str | None = None
    """How table and checkpoint fitted together at the start, see `StartVerdict`."""
    verdict_reason: str | None = None
    batches: int = 0
    """Micro-batches that ended."""
    batch: int | None = None
    """Spark's number of the micro-batch that is or was last written."""
    commits: int = 0
    rows: int = 0
    """Rows received, rejected ones included, committed or not."""
    deletes: int = 0
    rejected: int = 0
    """Rows that went to the dead-letter table."""
    size_bytes: int = 0
    rows_per_second: float = 0.0
    """Over the last micro-batches, from the start of the first to the end of the last."""
    skew: float | None = None
    """Rows of the busiest write task by the mean over all, of the last micro-batch; 1 is even."""
    busiest: tuple[tuple[int, int], ...] = ()
    """(bucket, rows) of the `BUSIEST` buckets with the most rows since the start of the process, most first."""
    bucket_rows: int = 0
    """Rows of all buckets since the start of the process."""
    buffer_bytes: int | None = None
    """The most that a write task of the last micro-batch held in buffers at a time."""
    executors: int | None = None
    """Executors that are registered with the driver; 0 in a local session, which has none."""
    executors_wanted: int | None = None
    """Executors that the job asks for; None: it does not choose their number."""
    lock_wait: float = 0.0
    """Waited for the table's lock, which other writers held."""
    lease_wait: float = 0.0
    """Waited for the table's lease, which another job held."""
    last: Commit | None = None
    """The last commit."""
    last_commit_age: float | None = None
    last_commit_at: datetime | None = None
    inflight_instant: str | None = None
    inflight_age: float | None = None
    """Since the instant's request, also if an earlier attempt made it."""
    lag_offsets: int | None = None
    """Kafka: offsets that are not committed, up to the topics' end as Spark last saw it; None for other sources, and
    while nobody can know, as Kafka does not answer."""
    lag_seconds: float | None = None
    """Since rows that are not committed were first seen, see `Lag`; None before the first look at the source, and
    while it does not answer."""
    source: SourceReport | None = None
    """Whether Kafka answers; None for other sources, and before the first look."""
    transaction_wait: float | None = None
    """For how long messages have waited for the end of a transaction of the database; None unless commits have whole
    ones."""
    files: FilesReport | None = None
    """What of the source's files is not in the table; None for other sources, and before the first listing."""
    schemas: SchemasReport | None = None
    """Schemas of a registry; None without one, and before the first message."""
    idle: bool = False
    last_report_at: datetime | None = None
    """When the query last made progress: a micro-batch started or ended, or the source had nothing new."""
    last_report_age: float | None = None
    committing_for: float | None = None
    """Since the start of the current commit; None without one."""
    services: ServicesState | None = None
    """What table services see and do; None where they are off."""
    oldest_log_age: float | None = None
    """Of the oldest log file that no compaction has merged; None before the first look, and without log files."""
    compacting_for: float | None = None
    """Since the request time of the pending compaction, which is up to a minute in the past; None without one."""
    catalogs: tuple[CatalogReport, ...] = ()
    """Catalogs of the resource; empty before the query starts."""
    catalog_behind: float | None = None
    """Age of the oldest commit that one of them may lack; 0 if none does, None without catalogs."""
    state: StateSummary | None = None
    """The index's state; None with a bucket index, and before the first micro-batch."""
    inserts: int = 0
    """Rows of keys that the state did not know."""
    dropped: int = 0
    """Deletes of such keys."""
    moved: int = 0
    """Keys that moved to another partition."""
    older: int = 0
    """Rows that were older than that of their key in another partition."""
    rollbacks: int = 0
    """Instants that were rolled back after their micro-batch started, and written again."""
    position_losses: int = 0
    """How often the table was rolled back behind this process, which then started again from it."""
    tables: TablesReport | None = None
    """How the tables are of a resource with many."""


class ProgressObserver(Protocol):
    """Receives each duration, for histograms. Called with the board's lock held: must return immediately."""

    def batch_took(self, seconds: float) -> None:
        """A micro-batch was written, and committed if that was due."""

    def commit_took(self, latency_seconds: float, commit_seconds: float) -> None:
        """An instant was completed: time since its request, and time of the commit itself."""


def latency(commit: Commit) -> float:
    """From the request of the instant, which is when its first micro-batch starts, to its completion."""
    return commit.open_seconds + commit.commit_seconds


def is_alive(now: Progress, silent_for: float) -> bool:
    """Whether the job makes progress or will. `silent_for`: since the thread that watches it last got an answer."""
    if now.committing_for is not None:  # that thread may be the one that commits, and wait for storage
        return now.committing_for < COMMITS_WITHIN_SECONDS
    return silent_for < ANSWERS_WITHIN_SECONDS or now.phase is Phase.STARTING
