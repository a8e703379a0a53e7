"""What the operator reports about a pipeline in the resource's status."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import SmallText, Whole

Phase = Literal["Pending", "Starting", "Running", "Idle", "Recovering", "Suspended", "Stalled", "Completed"]
Sentence = Annotated[str, Field(max_length=4096)]
COUNT_MAX = 2**53
"""The API server holds bounds as floating point numbers, and refuses every object where a larger one is rounded up."""
Count = Annotated[int, Field(strict=True, ge=0, le=COUNT_MAX)]
InstantTime = Annotated[str, Field(pattern=r"^[0-9]{17}$", max_length=17)]

WORST_MAX = 10
"""Tables that the status names."""
ATTEMPTS_MAX = 10
"""Attempts that the status keeps, the newest ones."""


class Condition(SpecModel):
    """One aspect of the pipeline's state, in the form that Kubernetes tools know."""

    type: SmallText = Field(
        description="Ready, Reconciling, Stalled, CommitFresh, CheckpointHealthy, TimelineClean, ServicesHealthy, "
        "SourceComplete, CatalogSynced, SchemasTaken, TablesHealthy, MirrorEqual or Degraded.",
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether the condition holds.")
    reason: SmallText = Field(description="One CamelCase word why.")
    message: Sentence = Field(default="", description="A sentence for people.")
    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that this was found for."
    )
    last_transition_time: datetime = Field(description="When status last changed.")


class LastCommit(SpecModel):
    """The last completed instant of this pipeline."""

    instant: InstantTime = Field(description="Request time of the instant, yyyyMMddHHmmssSSS in UTC.")
    time: datetime = Field(description="When the instant was completed.")
    rows: Count = Field(description="Rows that the instant wrote, deletes included.")
    latency_seconds: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="Seconds from the arrival of the instant's oldest row in the source to its completion.",
    )


class Lag(SpecModel):
    """Input that is not yet visible in the table."""

    offsets: Count | None = Field(
        default=None,
        description="Offsets between the source's end and the last commit; absent while nobody knows them.",
    )
    since: datetime | None = Field(
        default=None,
        description="Since when input waits to be committed. While no driver answers, or the source does not: since "
        "when it may wait. Absent if all input is committed.",
    )


class Inflight(SpecModel):
    """The instant that is open now."""

    instant: InstantTime = Field(description="Request time of the instant, yyyyMMddHHmmssSSS in UTC.")
    since: datetime = Field(description="When it was opened.")


class Attempt(SpecModel):
    """One driver pod of the pipeline."""

    number: Count = Field(description="Number of the attempt, from 1, never used twice.")
    pod: SmallText | None = Field(default=None, description="Name of the driver pod.")
    generation: Count | None = Field(default=None, description="Generation of the spec that it runs.")
    started_at: datetime | None = Field(default=None, description="When the pod was created.")
    ended_at: datetime | None = Field(default=None, description="When the attempt ended.")
    outcome: SmallText | None = Field(
        default=None, description="One CamelCase word how it ended; absent while it runs."
    )
    message: Sentence | None = Field(default=None, description="The job's message about its end.")


class ServicesStatus(SpecModel):
    """Table services of the pipeline, as its driver last reported them."""

    mode: SmallText = Field(description="services.mode, or the default.")
    home: SmallText | None = Field(
        default=None, description="Where the newest compaction is merged: inline or job; absent before the first."
    )
    why: Sentence | None = Field(
        default=None, description="Why there, or why table services are left to another writer."
    )
    pending: InstantTime | None = Field(default=None, description="Request time of the compaction that is pending.")
    pending_since: datetime | None = Field(default=None, description="The same as a time.")
    oldest_log_at: datetime | None = Field(
        default=None,
        description="When the oldest log file without a compaction was started: so old are read-optimized "
        "queries. Absent without log files.",
    )
    last_compaction: InstantTime | None = Field(
        default=None, description="Request time of the last completed compaction."
    )
    last_compaction_at: datetime | None = Field(default=None, description="When it was completed.")
    failures: Count = Field(default=0, description="Steps that failed since the driver started, each tried again.")
    last_failure: Sentence | None = Field(default=None, description="Why the last of them failed.")
    suspended_run: SmallText | None = Field(
        default=None,
        description="What the newest Job of services.whileSuspended did: Running, Done, Skipped (another process held "
        "the table) or Failed.",
    )
    suspended_run_at: datetime | None = Field(default=None, description="When it ended, or was created.")


class IndexStatus(SpecModel):
    """An index with a state, as the driver last reported it."""

    new_keys_in_logs: bool = Field(
        description="New keys go into log files, where Hudi's SIMPLE and BLOOM indexes do not look: run bucketingest "
        "handover before such a writer writes."
    )
    unloaded_partitions: Count = Field(description="Partitions whose keys are loaded when a row of them comes.")


class TableStatus(SpecModel):
    """One table of many that is parked or late."""

    topic: SmallText = Field(description="Its topic.")
    state: SmallText = Field(description="parked (an error keeps it from being written) or late.")
    reason: Sentence | None = Field(default=None, description="Why it is parked.")


class TablesStatus(SpecModel):
    """The tables of a resource with many, as the driver last reported them."""

    known: Count = Field(description="Tables of topics that Kafka has, or had since the start of the driver.")
    open: Count = Field(description="Those that are written when rows come.")
    parked: Count = Field(description="Those that an error keeps from being written; each is tried again.")
    gone: Count = Field(description="Those whose topic Kafka has no more.")
    late: Count = Field(description="Those whose input has waited longer than health.maxCommitLag.")
    left_out: Count = Field(default=0, description="Topics without a table: there are 1,000 already.")
    worst: tuple[TableStatus, ...] | None = Field(
        default=None,
        description=f"The first {WORST_MAX} that are parked or late.",
        max_length=WORST_MAX,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Trial(SpecModel):
    """A changed spec that has not committed yet."""

    digest: SmallText = Field(description="Hash of what a driver reads of the spec.")
    generation: Count = Field(description="Generation of the spec.")
    attempt: Count = Field(description="Its first attempt.")
    until: datetime = Field(description="When it must have committed.")
    failed_at: datetime | None = Field(
        default=None, description="When the operator went back to the last spec that committed."
    )
    message: Sentence | None = Field(default=None, description="Why.")


class Preflight(SpecModel):
    """The check of a changed spec before the driver that runs is stopped for it."""

    digest: SmallText = Field(description="Hash of what a driver reads of the spec.")
    generation: Count = Field(description="Generation of the spec.")
    since: datetime = Field(description="When it was first wanted.")
    result: SmallText = Field(
        description="Pending, Passed, Failed (a check failed: the driver runs on), NotRun (it could not be run, and is "
        "tried again) or Skipped (it could not be run, and the spec is taken over without it)."
    )
    tries: Count = Field(default=0, description="How often it ended without a pass.")
    last_end: datetime | None = Field(default=None, description="When the last of these ended.")
    job: SmallText | None = Field(default=None, description="UID of the Job of the last of these.")
    message: Sentence | None = Field(default=None, description="What failed, or why it could not be run.")


class UpgradeStatus(SpecModel):
    """The last spec that committed, which runs again if a changed spec does not commit."""

    attempt: Count = Field(description="The newest attempt that committed. Its ConfigMap holds the spec.")
    generation: Count | None = Field(default=None, description="Generation of that spec.")
    digest: SmallText = Field(description="Hash of what a driver reads of that spec.")
    trial: Trial | None = Field(
        default=None, description="The spec that has to prove itself; absent if the last one that committed is wanted."
    )
    preflight: Preflight | None = Field(
        default=None, description="The check of a changed spec that no driver runs yet; absent once a driver runs it."
    )


class Status(SpecModel):
    """What the operator last saw and did."""

    observed_generation: Count | None = Field(
        default=None, description="Generation of the spec that the status is about."
    )
    phase: Phase | None = Field(default=None, description="The state in one word.")
    conditions: tuple[Condition, ...] | None = Field(
        default=None,
        description="Ready, Reconciling, Stalled, CommitFresh, CheckpointHealthy, TimelineClean; with table services "
        "ServicesHealthy; with a source of files SourceComplete; with catalogs CatalogSynced; with a schema registry "
        "SchemasTaken; with many tables TablesHealthy; with an audit MirrorEqual; after a change of the spec Degraded.",
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    last_commit: LastCommit | None = Field(default=None, description="The last completed instant of this pipeline.")
    inflight: Inflight | None = Field(default=None, description="The instant that is open now.")
    lag: Lag | None = Field(
        default=None,
        description="Input that is not yet visible in the table, as of the last commit, or newer after a minute.",
    )
    index: IndexStatus | None = Field(
        default=None, description="An index with a state; absent with buckets and before the first micro-batch."
    )
    services: ServicesStatus | None = Field(
        default=None, description="Table services; absent before their first look, and where they are off."
    )
    tables: TablesStatus | None = Field(
        default=None, description="Tables of a resource with many; absent with one, and before the first look."
    )
    upgrade: UpgradeStatus | None = Field(
        default=None, description="Which spec has proven itself, and which is on trial; absent before the first commit."
    )
    executors: Count = Field(default=0, description="Executors of the newest attempt that run.")
    executor_selector: SmallText | None = Field(default=None, description="Labels of executor pods, for autoscalers.")
    attempt: Whole | None = Field(default=None, description="Number of the newest attempt.", ge=0, le=COUNT_MAX)
    attempts: tuple[Attempt, ...] | None = Field(
        default=None,
        description=f"The newest attempts, at most {ATTEMPTS_MAX}, oldest first.",
        max_length=ATTEMPTS_MAX,
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
