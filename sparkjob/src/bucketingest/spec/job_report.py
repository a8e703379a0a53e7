"""What the job reports to the operator, as two documents that both sides know: progress and termination."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from bucketingest.exit_codes import Remedy

JobPhase = Literal["starting", "running", "committing", "idle", "waiting", "stopping", "stopped", "failed"]


class _Report(BaseModel):
    """Fields are snake_case in Python and camelCase in JSON. A reader ignores fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True)


class CommitReport(_Report):
    """The last instant that this process completed."""

    instant: str = Field(description="Request time of the instant, yyyyMMddHHmmssSSS in UTC.")
    completion_time: str = Field(description="Completion time of the instant, in the same form.")
    at: datetime = Field(description="When it was completed, by the job's clock.")
    rows: int = Field(description="Rows received, deletes and dead letters included.")
    micro_batches: int = Field(description="Micro-batches that the instant holds.")
    latency_seconds: float = Field(
        description="From the request of the instant, with its first rows, to its completion."
    )
    age_seconds: float = Field(description="Since its completion.")


class InflightReport(_Report):
    """The instant that is open now."""

    instant: str = Field(description="Request time of the instant.")
    age_seconds: float = Field(description="Since its request, also if an earlier attempt made it.")


class LagReport(_Report):
    """Input that is not committed. Both are null while Kafka does not answer: nobody knows then."""

    offsets: int | None = Field(
        description="Kafka: up to the topics' end as Spark last saw it; null for other sources."
    )
    seconds: float | None = Field(
        description=(
            "Since input that is not committed was first seen by this process; the input itself may be older by the "
            "time between two micro-batches, and by what it waited before the process started. Null before the first "
            "look."
        )
    )


class SourceReport(_Report):
    """Whether the brokers of a Kafka source answer, as of the last look: there is one every few seconds."""

    bootstrap_servers: str = Field(description="source.kafka.bootstrapServers of the resource.")
    answers: bool = Field(description="Whether the last look was answered, and every topic was there.")
    answered_at: datetime | None = Field(description="When the last look that was answered ended; null before one.")
    answering_seconds: float = Field(
        description="Since the first look of a row that was answered; 0 while they are not."
    )
    unanswered_seconds: float = Field(
        description="Since the first look of a row that was not answered; 0 while they are answered."
    )
    problem: str | None = Field(
        description="What is wrong, where, and what to check, in a sentence for people; null while all is well."
    )
    open_transaction_seconds: float | None = Field(
        description=(
            "For how long a transaction that is open has kept the rows behind it back, as far as this process has "
            "seen; 0 without one, null while unknown. Of several the oldest."
        )
    )
    open_transaction: str | None = Field(description="Where it is: topic, partition, offset; null without one.")


class Pin(_Report):
    """What keeps a clean or the archive from going on."""

    service: Literal["clean", "archive"]
    by: str = Field(description="What holds it, in words: a file group, an instant, a pipeline.")
    seconds: float = Field(description="Since it has been held by this.")


class DamagedFile(_Report):
    """A data file that a commit names, and that is gone or shorter than the commit says."""

    file: str = Field(description="Path below the table.")
    file_group: str
    instant: str = Field(description="Request time of the instant whose commit names it.")
    problem: str = Field(description="What is wrong with it, in words.")


class CompactionWork(_Report):
    """A round of a compaction whose base files pods make."""

    compaction: str = Field(description="Request time of the compaction.")
    number: int = Field(description="Number of the compaction in the table's services folder.")
    round: int = Field(description="Number of the round.")
    chunks: int = Field(description="Parts of the work: more pods have nothing to do.")
    size: int = Field(description="Bytes to read.")


class ServicesReport(_Report):
    """Table services of the job, as of their last look at the table; totals from the start of the process."""

    log_files: int = Field(description="Log files that no compaction has merged.")
    log_bytes: int = Field(description="Their bytes.")
    oldest_log_seconds: float | None = Field(description="Age of the oldest of them; null without log files.")
    compacting: str | None = Field(description="Request time of the compaction that is pending.")
    compacting_seconds: float | None = Field(description="Since its request time.")
    compactions: int
    failures: int
    mode: str | None = Field(default=None, description="services.mode of the resource, or the default.")
    home: str | None = Field(
        default=None, description="Where the newest compaction is merged: inline or job; null before the first."
    )
    why: str | None = Field(default=None, description="Why there, or why table services are left to another writer.")
    oldest_log_at: datetime | None = Field(
        default=None, description="When the oldest log file's instant was requested: so old are read-optimized queries."
    )
    compacting_at: datetime | None = Field(default=None, description="Request time of the pending compaction.")
    last_compaction: str | None = Field(
        default=None, description="Request time of the last compaction that this process completed."
    )
    last_compaction_at: datetime | None = Field(default=None, description="When it was completed.")
    last_failure: str | None = Field(default=None, description="Why the last failed step failed.")
    small_groups: int | None = Field(
        default=None, description="Small file groups; null where they are not merged, and before the first look."
    )
    merged_groups: int = Field(default=0, description="Small file groups whose place new ones took.")
    too_large: str | None = Field(
        default=None,
        description="A file group that is not compacted: the storage takes no object as large as its base file.",
    )
    pins: tuple[Pin, ...] = Field(
        default=(), description="What holds clean and archive, the oldest first, at most ten; empty: nothing does."
    )
    damaged_files: int = Field(default=0, description="Data files that commits name and that are gone or too short.")
    damage: tuple[DamagedFile, ...] = Field(default=(), description="The first ten of them.")
    job: CompactionWork | None = Field(
        default=None, description="What a Job of pods is wanted for now; null while none is."
    )


class StateReport(_Report):
    """An index with a state, after the last micro-batch."""

    keys: int = Field(description="Entries: a key that moved has more than one until they are merged.")
    state_bytes: int = Field(description="Bytes that each executor maps into memory.")
    file_groups: int = Field(description="File groups whose keys it has.")
    loaded_keys: int = Field(description="Keys that this process read from the table's files.")
    unloaded_partitions: int = Field(description="Partitions whose keys are loaded when a row of them comes.")
    new_keys_in_logs: bool = Field(
        description=(
            "New keys go into log files, where Hudi's SIMPLE and BLOOM indexes do not look: run bucketingest handover "
            "before such a writer writes."
        )
    )


class ProgressReport(_Report):
    """`/progress`: what a running job is doing. Totals count from the start of the process."""

    pipeline: str
    namespace: str | None
    name: str
    phase: JobPhase
    epoch: int | None = Field(description="Number of the attempt among all of the pipeline; null before its claim.")
    verdict: str | None = Field(
        description="How table and checkpoint fitted at the start: new, in step, resumed, rebuilt, rewound."
    )
    verdict_reason: str | None
    running_seconds: float
    last_commit: CommitReport | None
    inflight: InflightReport | None
    lag: LagReport
    source: SourceReport | None = Field(
        default=None, description="A Kafka source; null for others, and before the first look at the brokers."
    )
    idle: bool = Field(description="Spark has looked and the source has nothing new.")
    batch: int | None = Field(description="Spark's number of the micro-batch that is or was last written.")
    batches: int
    commits: int
    rows: int = Field(description="Rows received, deletes and dead letters included, committed or not.")
    deletes: int
    dead_letters: int
    bytes: int = Field(description="Size of the data files written.")
    rows_per_second: float = Field(description="Over the last twenty micro-batches.")
    skew: float | None = Field(description="Rows of the busiest write task by the mean of all, last micro-batch.")
    services: ServicesReport | None = Field(
        default=None,
        description="What table services see and do; null before their first look, and where they are off.",
    )
    state: StateReport | None = Field(
        default=None, description="Null with an index with buckets, and before the first micro-batch."
    )
    rollbacks: int = Field(description="Instants rolled back after their micro-batch started, and written again.")
    position_losses: int = Field(description="How often the table was rolled back behind this process.")
    last_report_at: datetime | None = Field(description="When the query last made progress.")
    last_report_age_seconds: float | None


class TerminationReport(_Report):
    """The termination message: how the job ended. At most 4096 bytes as JSON in UTF-8."""

    error_class: str = Field(description="The exit code as one CamelCase word; Stopped or Completed for 0.")
    exit_code: int
    message: str = Field(description="One sentence for people, cut if it is long.")
    remedy: Remedy
    pipeline: str | None = None
    epoch: int | None = None
    verdict: str | None = None
    batch: int | None = Field(default=None, description="Spark's number of the last micro-batch.")
    instant: str | None = Field(default=None, description="The instant that was open; null if all was committed.")
    last_instant: str | None = Field(default=None, description="The last instant that this process completed.")
    rows: int | None = None
    commits: int | None = None
    at: datetime
