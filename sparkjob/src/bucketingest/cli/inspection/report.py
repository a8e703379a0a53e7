"""What inspect reports about a table, as plain data: made once, then shown as text or as JSON."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Properties:
    """What the table is, from hoodie.properties. Absent ones are None or empty."""

    name: str
    version: int
    type: str
    record_key: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: str | None
    buckets: int | None
    """None: another writer made the table, and Hudi does not record it."""
    has_state: bool
    """Whether keys are looked up in a state: then there are no buckets."""
    bucket_rules: tuple[str, ...]
    """Rules for partitions to come, as `<pattern> <count>`, the first that is found wins; empty: there are none."""
    hash: str | None
    hash_fields: tuple[str, ...]
    time_zone: str
    metadata_table: str
    """Partitions of Hudi's metadata table; empty: it is off."""


@dataclass(frozen=True, slots=True)
class InstantLine:
    """One instant of the timeline's end. Ages in seconds, sizes in bytes; None: not known."""

    time: str
    action: str
    state: str
    completed: str | None
    age: float | None
    """Since completion; of a pending instant since its request."""
    rows: int | None
    deletes: int | None
    files: int | None
    size_bytes: int | None
    pipeline: str | None


@dataclass(frozen=True, slots=True)
class PendingInstant:
    """An instant that has not completed. Ages in seconds."""

    time: str
    action: str
    state: str
    age: float
    hangs: bool
    """Whether it is older than the limit."""
    heartbeat_age: float | None
    """None: it has no heartbeat."""
    pipeline: str | None
    """Its pipeline, from its inflight file; None: not one of bucketingest's, or nothing was written yet."""
    epoch: str | None
    advice: str


@dataclass(frozen=True, slots=True)
class FileGroupSize:
    """One file group's latest slice."""

    partition_path: str
    file_id: str
    size_bytes: int
    log_files: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """Distribution of sizes in bytes."""

    total: int
    smallest: int
    median: int
    p99: int
    largest: int


@dataclass(frozen=True, slots=True)
class Files:
    """The file groups that a snapshot reads."""

    partitions: int
    file_groups: int
    slices: int
    base_files: int
    log_files: int
    """Of the latest slices: what a snapshot has to merge."""
    sizes: Sizes | None
    """Of the latest slices; None: there is none."""
    all_bytes: int
    """Of all slices, older ones included."""
    bucket_skew: float | None
    """Bytes of the largest bucket, over all partitions of one bucket count, divided by the median bucket's."""
    bucket_counts: dict[str, int]
    """Bucket count of each partition, if the table has rules for it."""
    largest: tuple[FileGroupSize, ...]


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file of a newest slice that is gone, or shorter than its commit says."""

    path: str
    file_id: str
    instant: str
    """That wrote it."""
    size_bytes: int
    """That its commit names."""
    found_bytes: int | None
    """None: it is gone."""
    rows: int
    """At stake: all that its commit wrote into it."""
    problem: str
    offsets: str | None
    """JSON of the source position at which the instant began; None: it was no pipeline's, or at the beginning."""


@dataclass(frozen=True, slots=True)
class UncommittedFile:
    """A data file without a completed instant; readers skip it."""

    path: str
    size_bytes: int
    instant: str
    pending: bool
    """Whether its instant is pending, so that it may still be committed; else it is a leftover."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline of bucketingest that has written, or has started to write, this table."""

    name: str
    epoch: int | None
    claimant: str | None
    last_instant: str | None
    position: str | None
    """JSON of the source position after its last commit."""
    open_instants: tuple[str, ...]
    """Those whose decision has not been carried out."""


@dataclass(frozen=True, slots=True)
class UnmergedGroup:
    """A file group whose latest slice has log files. Sizes in bytes, ages in seconds."""

    partition_path: str
    file_id: str
    log_files: int
    log_bytes: int
    base_bytes: int | None
    """None: it has no base file, so a read-optimized query shows nothing of it."""
    oldest_log_age: float


@dataclass(frozen=True, slots=True)
class PendingPlan:
    """A compaction or clean that is on the timeline and not complete."""

    time: str
    action: str
    age: float
    """Seconds since its request."""
    file_groups: int | None
    """Of a compaction; None: it has no readable plan."""
    files: int | None
    """That a clean deletes."""
    by: str
    """Who planned it: bucketingest, or another writer."""


@dataclass(frozen=True, slots=True)
class SmallFileGroups:
    """File groups that are small, as each micro-batch of an index with a state leaves them."""

    groups: int | None
    """None: it cannot be known."""
    size: int
    """Their bytes."""
    most: int
    """Of one partition."""
    due: int
    """Those that would be merged now."""
    limit: int
    """Bytes below which a group is small."""
    merged: bool
    """Whether the resource has them merged."""


@dataclass(frozen=True, slots=True)
class ArchivePin:
    """What keeps instants on the timeline that are old enough to leave it."""

    instant: str
    """The instant that must stay, or that something is wrong with."""
    why: str
    first_kept: str
    """The oldest write that stays because of it."""


@dataclass(frozen=True, slots=True)
class DueServices:
    """What would be done now. None: it cannot be known, `unknown` says why."""

    compaction_file_groups: int | None
    clean_files: int | None
    archive_instants: int
    """Completed writes that are old enough to leave the timeline; `archive_pins` may still keep them there."""
    archive_pins: tuple[ArchivePin, ...]
    """The strictest first."""
    log_age: float
    """Seconds: limit of the age of a log file."""
    log_files: int | None
    """Limit of the log files of a file group; None: by age alone, as slo.readOptimizedFreshness promises."""
    log_ratio: float | None
    """Limit of what the log files cost reads by what the base file costs a compaction; None: by age alone."""
    retain: float | None
    """Seconds for which superseded files stay; None: by versions."""
    versions: int | None
    """Versions of a file group that stay; None: by time."""
    small_groups: SmallFileGroups | None = None
    """None: the table has no index with a state."""
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServicesReport:
    """Table services. Of the latest slices; sizes in bytes."""

    unmerged_groups: int
    """File groups with log files."""
    without_base: int
    """Those of them without a base file."""
    log_files: int
    log_bytes: int
    base_bytes: int
    snapshot_age: float | None
    """Seconds since the newest commit, which snapshot readers see; None without one."""
    read_optimized_age: float | None
    """Seconds since the request of the oldest log file's instant: so far behind are read-optimized queries. None
    without log files.
    """
    oldest: tuple[UnmergedGroup, ...]
    """The file groups with the oldest log files, at most five."""
    pending: tuple[PendingPlan, ...]
    due: DueServices


@dataclass(frozen=True, slots=True)
class IndexState:
    """The stored state of an index with one. `problem`: why it cannot be read; the next start then loads it anew."""

    runs: int = 0
    """Its files."""
    lost_runs: int = 0
    """Files that it names and that are not there: the next start loads it anew."""
    size_bytes: int = 0
    """What each executor maps into memory, 16 bytes for a key."""
    known_groups: int = 0
    """File groups whose keys it has."""
    changed_groups: int = 0
    """File groups that are new or changed since. The next start reads their keys, except after our own updates."""
    missing_partitions: int = 0
    """Partitions of which it has no keys: they may wait for their first row."""
    log_key_groups: int = 0
    """File groups with new keys in log files, by their files and the commits that were opened: there may be more."""
    known_up_to: str | None = None
    """Completion time of the newest instant that it knows; None: it is empty."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A commit whose columns are others than those of the commit before it."""

    time: str
    """Request time of its instant."""
    pipeline: str | None
    """None: it is not one of bucketingest's."""
    added: tuple[str, ...]
    """Columns, and fields inside columns, that are new."""
    widened: tuple[str, ...]
    """Those with a wider type."""
    other: tuple[str, ...]
    """What only another writer does: each change in words."""


@dataclass(frozen=True, slots=True)
class TableReport:
    """Everything inspect reports."""

    url: str
    at: str
    """Instant time, UTC, of the report."""
    properties: Properties
    completed_instants: int
    pending_instants: int
    timeline: tuple[InstantLine, ...]
    """The newest ones, the newest last."""
    columns: int | None
    """By the newest commit that has a schema; None: none has."""
    schema_changes: tuple[SchemaChange, ...]
    """Within the commits that were opened, the newest last."""
    pending: tuple[PendingInstant, ...]
    files: Files
    damaged: tuple[DamagedFile, ...]
    compared_since: str | None
    """Completion time of the oldest commit whose files were looked for; None: there was none."""
    uncommitted: tuple[UncommittedFile, ...]
    unmarked_partitions: tuple[str, ...]
    """Partitions whose rows readers skip: the partition metadata file is missing."""
    pipelines: tuple[Pipeline, ...]
    services: ServicesReport
    index_state: IndexState | None
    """None: the table has an index without a state."""
    findings: tuple[str, ...]
    """What is wrong, each with what to do; empty: nothing found."""
