"""What the job reports to the operator, as two documents that both sides know: progress and termination."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from bucketingest.exit_codes import Remedy
from bucketingest.spec.reading.plain_text import plain
from bucketingest.spec.status import InstantTime

JobPhase = Literal["starting", "running", "committing", "idle", "waiting", "stopping", "stopped", "failed"]


_COUNT_MAX: Final = 2**53
"""Every reader of JSON has whole numbers up to here."""
_SECONDS_MAX: Final = 1e10
"""Three centuries: added to any time of now, it is still a time."""
_TEXT_MAX: Final = 4096
_REASON_MAX: Final = 512
"""Of each of ten tables: the operator reads 64 KiB of an answer."""
_WORD_MAX: Final = 64
LISTED_MAX: Final = 10
"""Pins and damaged files that are named one by one: the answer has a limit."""


def _from_zero(value: Any) -> Any:
    """0 for what is below it: after a step of a clock a time that has passed is negative. To three digits."""
    if isinstance(value, float) and math.isfinite(value):
        value = round(value, 3)
    return 0 if isinstance(value, (int, float)) and value < 0 else value


def _within_years(value: datetime) -> datetime:
    if not 1970 <= value.year <= 2999:
        raise ValueError("is before 1970 or after 2999")
    return value


# The reader cannot trust the writer: a driver runs what its tenant gave it.
_Count = Annotated[int, BeforeValidator(_from_zero), Field(le=_COUNT_MAX)]
_Number = Annotated[float, BeforeValidator(_from_zero), Field(le=_COUNT_MAX, allow_inf_nan=False)]
_Seconds = Annotated[float, BeforeValidator(_from_zero), Field(le=_SECONDS_MAX, allow_inf_nan=False)]
_Text = Annotated[str, AfterValidator(lambda text: plain(text[:_TEXT_MAX]))]
_Word = Annotated[str, AfterValidator(lambda text: plain(text[:_WORD_MAX]))]
_Reason = Annotated[str, AfterValidator(lambda text: plain(text[:_REASON_MAX]))]
_Time = Annotated[AwareDatetime, AfterValidator(_within_years)]


class _Report(BaseModel):
    """Fields are snake_case in Python and camelCase in JSON. A reader ignores fields that it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", defer_build=True, alias_generator=to_camel, populate_by_name=True
    )


class CommitReport(_Report):
    """The last instant that this process completed."""

    instant: InstantTime = Field(description="Request time of the instant, yyyyMMddHHmmssSSS in UTC.")
    completion_time: InstantTime = Field(description="Completion time of the instant, in the same form.")
    at: _Time = Field(description="When it was completed, by the job's clock.")
    rows: _Count = Field(description="Rows received, deletes and dead letters included.")
    micro_batches: _Count = Field(description="Micro-batches that the instant holds.")
    latency_seconds: _Seconds = Field(
        description="From the request of the instant, with its first rows, to its completion."
    )
    age_seconds: _Seconds = Field(description="Since its completion.")


class InflightReport(_Report):
    """The instant that is open now."""

    instant: InstantTime = Field(description="Request time of the instant.")
    age_seconds: _Seconds = Field(description="Since its request, also if an earlier attempt made it.")


class LagReport(_Report):
    """Input that is not committed. Both are null while Kafka does not answer: nobody knows then."""

    offsets: _Count | None = Field(
        description="Kafka: up to the topics' end as Spark last saw it; null for other sources."
    )
    seconds: _Seconds | None = Field(
        description=(
            "Since input that is not committed was first seen by this process; the input itself may be older by the "
            "time between two micro-batches, and by what it waited before the process started. Null before the first "
            "look."
        )
    )


class SourceReport(_Report):
    """Whether the brokers of a Kafka source answer, as of the last look: there is one every few seconds."""

    bootstrap_servers: _Text = Field(description="source.kafka.bootstrapServers of the resource.")
    answers: bool = Field(default=True, description="Whether the last look was answered, and every topic was there.")
    answered_at: _Time | None = Field(None, description="When the last look that was answered ended; null before one.")
    answering_seconds: _Seconds = Field(
        0.0, description="Since the first look of a row that was answered; 0 while they are not."
    )
    unanswered_seconds: _Seconds = Field(
        0.0, description="Since the first look of a row that was not answered; 0 while they are answered."
    )
    problem: _Text | None = Field(
        None, description="What is wrong, where, and what to check, in a sentence for people; null while all is well."
    )
    open_transaction_seconds: _Seconds | None = Field(
        0.0,
        description=(
            "For how long a transaction that is open has kept the rows behind it back, as far as this process has "
            "seen; 0 without one, null while unknown. Of several the oldest."
        ),
    )
    open_transaction: _Text | None = Field(None, description="Where it is: topic, partition, offset; null without one.")


class Pin(_Report):
    """What keeps a clean or the archive from going on."""

    service: Literal["clean", "archive"]
    by: _Text = Field(description="What holds it, in words: a file group, an instant, a pipeline.")
    seconds: _Seconds = Field(description="Since it has been held by this.")


class DamagedFile(_Report):
    """A data file that a commit names, and that is gone or shorter than the commit says."""

    file: _Text = Field(description="Path below the table.")
    file_group: _Text
    instant: _Text = Field(description="Request time of the instant whose commit names it.")
    problem: _Text = Field(description="What is wrong with it, in words.")


class CatalogReport(_Report):
    """A catalog in which engines find the table."""

    catalog: _Text = Field(description="The catalog, the database, and the name of the table there.")
    behind_since: _Time | None = Field(
        None,
        description="Completion time of the oldest commit whose partitions or columns may be missing there, or when "
        "the job began to compare; null: all are there.",
    )
    failures: _Count = Field(0, description="Tries that failed since the start of the process.")
    problem: _Text | None = Field(None, description="Why the last try failed; null if it did its work.")


class CompactionWork(_Report):
    """A round of a compaction whose base files pods make."""

    compaction: _Text = Field(description="Request time of the compaction.")
    number: _Count = Field(description="Number of the compaction in the table's services folder.")
    round: _Count = Field(description="Number of the round.")
    chunks: _Count = Field(description="Parts of the work: more pods have nothing to do.")
    size: _Count = Field(description="Bytes to read.")


class ServicesReport(_Report):
    """Table services of the job, as of their last look at the table; totals from the start of the process."""

    log_files: _Count = Field(description="Log files that no compaction has merged.")
    log_bytes: _Count = Field(description="Their bytes.")
    oldest_log_seconds: _Seconds | None = Field(description="Age of the oldest of them; null without log files.")
    compacting: InstantTime | None = Field(description="Request time of the compaction that is pending.")
    compacting_seconds: _Seconds | None = Field(description="Since its request time.")
    compactions: _Count
    failures: _Count
    failing: _Count = Field(
        default=0, description="Steps that failed one after the other up to now; 0: the last one did its work."
    )
    mode: _Word | None = Field(default=None, description="services.mode of the resource, or the default.")
    home: _Word | None = Field(
        default=None, description="Where the newest compaction is merged: inline or job; null before the first."
    )
    why: _Text | None = Field(default=None, description="Why there, or why table services are left to another writer.")
    oldest_log_at: _Time | None = Field(
        default=None, description="When the oldest log file's instant was requested: so old are read-optimized queries."
    )
    compacting_at: _Time | None = Field(default=None, description="Request time of the pending compaction.")
    last_compaction: InstantTime | None = Field(
        default=None, description="Request time of the last compaction that this process completed."
    )
    last_compaction_at: _Time | None = Field(default=None, description="When it was completed.")
    last_failure: _Text | None = Field(default=None, description="Why the last failed step failed.")
    small_groups: _Count | None = Field(
        default=None, description="Small file groups; null where they are not merged, and before the first look."
    )
    merged_groups: _Count = Field(default=0, description="Small file groups whose place new ones took.")
    too_large: _Text | None = Field(
        default=None,
        description="A file group that is not compacted: the storage takes no object as large as its base file.",
    )
    pins: tuple[Pin, ...] = Field(
        default=(),
        max_length=LISTED_MAX,
        description="What holds clean and archive, the oldest first, at most ten; empty: nothing does.",
    )
    damaged_files: _Count = Field(default=0, description="Data files that commits name and that are gone or too short.")
    damage: tuple[DamagedFile, ...] = Field(default=(), max_length=LISTED_MAX, description="The first ten of them.")
    job: CompactionWork | None = Field(
        default=None, description="What a Job of pods is wanted for now; null while none is."
    )


class UnknownColumn(_Report):
    """A column of files that the schema does not have, so its values are not read."""

    column: _Text
    file: _Text = Field(description="A file that has it, below the source's directory.")


class FilesReport(_Report):
    """A source of files: what of it is not in the table."""

    changed_files: _Count = Field(
        default=0,
        description="Files that were changed after they were read, and are not read again, as of the last listing.",
    )
    changed: tuple[_Text, ...] = Field(default=(), max_length=LISTED_MAX, description="The first ten of them.")
    unknown_columns: _Count = Field(
        default=0,
        description="Columns of files that the schema does not have, since the start of the process: at most 1,000.",
    )
    unknown: tuple[UnknownColumn, ...] = Field(default=(), max_length=LISTED_MAX, description="The first ten of them.")


class RefusedSchema(_Report):
    """A schema of a registry all of whose messages are dead letters."""

    id: _Count
    reason: _Text


class SchemasReport(_Report):
    """Schemas that messages are written with, since the start of the process."""

    refused_schemas: _Count = Field(default=0, description="Those whose messages are all dead letters.")
    refused: tuple[RefusedSchema, ...] = Field(default=(), max_length=LISTED_MAX, description="The first ten of them.")
    growths: _Count = Field(default=0, description="How often the table's columns became more, or wider.")
    last_growth: _Text | None = Field(default=None, description="The schemas of the last time, and what was new.")


class StateReport(_Report):
    """An index with a state, after the last micro-batch."""

    keys: _Count = Field(description="Entries: a key that moved has more than one until they are merged.")
    state_bytes: _Count = Field(description="Bytes that each executor maps into memory.")
    file_groups: _Count = Field(description="File groups whose keys it has.")
    loaded_keys: _Count = Field(description="Keys that this process read from the table's files.")
    unloaded_partitions: _Count = Field(description="Partitions whose keys are loaded when a row of them comes.")
    new_keys_in_logs: bool = Field(
        description=(
            "New keys go into log files, where Hudi's SIMPLE and BLOOM indexes do not look: run bucketingest handover "
            "before such a writer writes."
        )
    )


class TableReport(_Report):
    """One table of many."""

    topic: _Text
    table: _Text = Field(description="Base path of the table.")
    state: Literal["opening", "open", "parked", "gone"] = Field(
        description="parked: an error keeps it from being written, and it is tried again; the others go on. gone: "
        "Kafka has the topic no more; the table stays as it is."
    )
    reason: _Reason | None = Field(default=None, description="Why it is parked.")
    failures: _Count = Field(default=0, description="Tries that failed, in a row.")
    again_seconds: _Seconds | None = Field(default=None, description="Until it is tried again.")
    lag: LagReport
    rows: _Count
    commits: _Count
    last_commit_seconds: _Seconds | None = Field(default=None, description="Since its last commit.")


class TablesReport(_Report):
    """The tables of a resource with many."""

    known: _Count = Field(
        description="Tables of topics that Kafka has, or had since the start of the process; of the "
        "latter as many as make 1,000 in all."
    )
    open: _Count = Field(description="Those whose position is known, and that are written when rows come.")
    parked: _Count = Field(description="Those that an error keeps from being written.")
    gone: _Count = Field(description="Those whose topic Kafka has no more.")
    late: _Count = Field(
        default=0,
        description="Those whose input has waited longer than health.maxCommitLag, or that are opened for so long.",
    )
    left_out: _Count = Field(default=0, description="Topics without a table: one resource has at most 1,000.")
    worst: tuple[TableReport, ...] = Field(
        default=(), max_length=LISTED_MAX, description="The ten in most need: parked ones, then those with most lag."
    )


class ProgressReport(_Report):
    """`/progress`: what a running job is doing. Totals count from the start of the process."""

    pipeline: _Text
    namespace: _Text | None
    name: _Text
    phase: JobPhase
    epoch: _Count | None = Field(description="Number of the attempt among all of the pipeline; null before its claim.")
    verdict: _Word | None = Field(
        description="How table and checkpoint fitted at the start: new, in step, resumed, rebuilt, rewound."
    )
    verdict_reason: _Text | None
    running_seconds: _Seconds
    last_commit: CommitReport | None
    inflight: InflightReport | None
    lag: LagReport
    source: SourceReport | None = Field(
        default=None, description="A Kafka source; null for others, and before the first look at the brokers."
    )
    files: FilesReport | None = Field(
        default=None, description="A source of files; null for others, and before the first listing."
    )
    schemas: SchemasReport | None = Field(
        default=None, description="With a registry; null without, and before the first message."
    )
    idle: bool = Field(description="Spark has looked and the source has nothing new.")
    batch: _Count | None = Field(description="Spark's number of the micro-batch that is or was last written.")
    batches: _Count
    commits: _Count
    rows: _Count = Field(description="Rows received, deletes and dead letters included, committed or not.")
    deletes: _Count
    dead_letters: _Count
    bytes: _Count = Field(description="Size of the data files written.")
    rows_per_second: _Number = Field(description="Over the last twenty micro-batches.")
    skew: _Number | None = Field(description="Rows of the busiest write task by the mean of all, last micro-batch.")
    services: ServicesReport | None = Field(
        default=None,
        description="What table services see and do; null before their first look, and where they are off.",
    )
    catalogs: tuple[CatalogReport, ...] = Field(default=(), max_length=8, description="Those of spec.catalogs.")
    state: StateReport | None = Field(
        default=None, description="Null with an index with buckets, and before the first micro-batch."
    )
    rollbacks: _Count = Field(description="Instants rolled back after their micro-batch started, and written again.")
    position_losses: _Count = Field(description="How often the table was rolled back behind this process.")
    tables: TablesReport | None = Field(default=None, description="With spec.tables; null without.")
    last_report_at: _Time | None = Field(description="When the query last made progress.")
    last_report_age_seconds: _Seconds | None


class TerminationReport(_Report):
    """The termination message: how the job ended. At most 4096 bytes as JSON in UTF-8."""

    error_class: _Text = Field(description="The exit code as one CamelCase word; Stopped or Completed for 0.")
    exit_code: _Count
    message: _Text = Field(description="One sentence for people, cut if it is long.")
    remedy: Remedy
    pipeline: _Text | None = None
    epoch: _Count | None = None
    verdict: _Text | None = None
    batch: _Count | None = Field(default=None, description="Spark's number of the last micro-batch.")
    instant: InstantTime | None = Field(
        default=None, description="The instant that was open; null if all was committed."
    )
    last_instant: InstantTime | None = Field(default=None, description="The last instant that this process completed.")
    rows: _Count | None = None
    commits: _Count | None = None
    at: _Time
