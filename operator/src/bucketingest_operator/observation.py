"""What one pass of the operator observed, as plain values: the only input of its decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated, Final, Literal

from pydantic import Field

from bucketingest.spec.job_report import ProgressReport, TerminationReport
from bucketingest.spec.model import BucketIngest
from bucketingest_operator.resource import Resource

CheckRole = Literal["preflight", "audit"]
"""What a Job checks: a changed spec, or whether the table equals its source."""
REFUSED_REST: Final = timedelta(minutes=2)
"""Time from the refusal of a Job to the next try."""


class PodState(Enum):
    """The state of a driver pod. Only a pod in a state of `ENDED` can never run again: it has restartPolicy Never.

    SUCCEEDED and FAILED mean that the job's container has terminated, or none ever started: a node may set the pod's
    phase earlier, and a sidecar may run on.
    """

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


ENDED: Final = frozenset({PodState.SUCCEEDED, PodState.FAILED})


class PodReason(Enum):
    """Why a pod does not start, or how it ended, as far as Kubernetes reports it."""

    NONE = "none"
    IMAGE_PULL = "image pull"
    CONFIG = "container config"
    """A Secret or ConfigMap that it mounts is missing, or the container cannot be created."""
    UNSCHEDULABLE = "unschedulable"
    OOM_KILLED = "out of memory"
    EVICTED = "evicted"
    """Evicted, preempted, or its node was shut down."""
    DEADLINE = "deadline"


@dataclass(frozen=True, slots=True)
class AttemptInput:
    """What an attempt was started with: kept as annotations of its ConfigMap and of its pod."""

    spec_digest: str
    fixed_digest: str
    nonce: str
    failures: tuple[datetime, ...] = ()
    """When earlier attempts that count for the circuit breaker failed."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver pod.

    Attributes:
        terminating: It has a deletion timestamp, and still exists: its process may run.
        node_gone: Its node is no longer a part of the cluster, so its process cannot run; or it has not reported the
            pod's end for `restart.unreachableAfter`, and the table's lease and fences keep the process from committing.
        exit_code: Of the job's container; None while it runs or if it is not known.
    """

    attempt: int
    name: str
    state: PodState
    created_at: datetime
    terminating: bool = False
    node_gone: bool = False
    reason: PodReason = PodReason.NONE
    message: str = ""
    exit_code: int | None = None
    report: TerminationReport | None = None
    finished_at: datetime | None = None
    uid: str = ""

    @property
    def can_run(self) -> bool:
        """Whether its process may run, now or later."""
        return self.state not in ENDED

    @property
    def has_ended(self) -> bool:
        """Whether its node has reported the end of its process."""
        return self.state in ENDED and self.finished_at is not None


class JobState(Enum):
    """The state of a Job."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class RollbackJob:
    """The rollback Job that followed an attempt."""

    attempt: int
    state: JobState
    terminating: bool = False
    exit_code: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """A Job whose pods merge for a round of a compaction, or do all that is due while the resource is suspended.

    Attributes:
        number: Of the compaction, in the table; 0: all that is due.
        round: Of its round.
        digest: Of the settings that it was made from.
        active: Its pods that wait or run.
        ready: Those that run.
    """

    name: str
    number: int
    round: int
    digest: str
    state: JobState
    created_at: datetime
    finished_at: datetime | None = None
    terminating: bool = False
    active: int = 0
    ready: int = 0
    message: str = ""
    uid: str = ""

    @property
    def does_all(self) -> bool:
        """Whether it does all that is due."""
        return self.number == 0


@dataclass(frozen=True, slots=True)
class CheckJob:
    """A Job that checks a changed spec, or compares the table with its source.

    Attributes:
        digest: Of the spec, or of its section `audit`.
        waiting: Why its pod does not start.
        message: About its pod, or its end.
        report: What its pod said at its end.
    """

    name: str
    uid: str
    digest: str
    state: JobState
    created_at: datetime
    terminating: bool = False
    waiting: PodReason = PodReason.NONE
    message: str = ""
    report: TerminationReport | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The API server's last refusal of a Job that merges or checks.

    Attributes:
        role: `compaction`, `preflight` or `audit`.
        about_driver: A driver of this spec would be refused as well.
    """

    job: str
    message: str
    at: datetime
    role: str = "compaction"
    about_driver: bool = False

    def is_fresh(self, now: datetime) -> bool:
        """Whether it is too early for another try."""
        return timedelta() <= now - self.at < REFUSED_REST


@dataclass(frozen=True, slots=True)
class Executors:
    """The executor pods of the newest attempt.

    Attributes:
        message: Why one of them does not start.
        refused: Why the API server creates none, in its words; "" if it does, or if that is not known.
        secret_gone: One of them, or the driver, waits for the Secret of Spark's ports, which was deleted.
    """

    running: int = 0
    pending: int = 0
    message: str = ""
    refused: str = ""
    secret_gone: bool = False


@dataclass(frozen=True, slots=True)
class Contact:
    """The last attempt to read `/progress` of the newest driver.

    Attributes:
        report: Its newest answer; None if it has never answered.
        unreachable_since: Since when it has not answered; None if it has answered.
        read_at: When its answer came; None: just now.
    """

    report: ProgressReport | None = None
    unreachable_since: datetime | None = None
    read_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Another BucketIngest of the namespace that wants the same table.

    Attributes:
        started: It has had an attempt.
        has_driver: Its driver may still run.
        rests: It starts nothing until a person changes something: suspended, invalid, stalled, completed.
        committed: It has committed to the table.
        holds: Its driver runs, or the next one follows by itself.
    """

    namespace: str
    name: str
    uid: str
    created_at: datetime
    started: Annotated[bool, Field(alias="begun")] = False  # the key in decision logs
    has_driver: bool = False
    rests: bool = False
    committed: bool = False
    holds: bool = False

    @property
    def pipeline(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class CreationRefusal:
    """The API server refused an object that this resource needs.

    Attributes:
        message: The API server's sentence.
        times: How often, in a row.
        retry_in: Time until it is tried again.
    """

    message: str
    times: int
    retry_in: timedelta


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that a decision is made from.

    Attributes:
        drivers: Every driver pod of this resource, by its uid, of all attempts.
        inputs: What attempts were started with, by their number, as far as their ConfigMaps still exist.
        live: Pods were just read from the API server, not from a cache. Only then an absent object counts as
            gone.
        compaction_jobs: Every one of this resource, also those that have ended.
        preflights: Jobs that check a changed spec, also those that have ended.
        audits: Jobs that compare the table with its source.
        refusals: The last one of each role, as long as this process runs.
        namespace_terminating: Nothing can be created any more.
        creation_refusal: The last creation was refused; None if it was not, or nothing was tried.
        last_good: The spec of `status.upgrade.attempt`, if another one is wanted and its ConfigMap can be read.
        upgrade_kept: The API server keeps `status.upgrade`. If not, a changed spec is neither checked nor on probation:
            what was found would be forgotten with each write.
        ended_drivers: Driver pods that are gone and had ended before, as this process has seen: their node said so.
        restarts_full: As many pipelines restart as may at the same time: a planned restart of this one waits.
        waits_long: It has waited for so long that its status says so also if there is nothing else to write.
    """

    now: datetime
    resource: Resource
    drivers: tuple[Driver, ...] = ()
    inputs: Annotated[Mapping[int, AttemptInput], Field(alias="told")] = field(default_factory=dict)
    jobs: tuple[RollbackJob, ...] = ()
    compaction_jobs: tuple[CompactionJob, ...] = ()
    preflights: tuple[CheckJob, ...] = ()
    audits: tuple[CheckJob, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    executors: Executors = Executors()
    contact: Contact = Contact()
    claims: tuple[Claim, ...] = ()
    live: bool = True
    namespace_terminating: bool = False
    restarts_full: bool = False
    waits_long: bool = True
    upgrade_kept: bool = True
    creation_refusal: CreationRefusal | None = None
    last_good: BucketIngest | None = None
    ended_drivers: tuple[str, ...] = ()

    def driver(self, attempt: int) -> Driver | None:
        """The driver pod of an attempt."""
        return next((pod for pod in self.drivers if pod.attempt == attempt), None)

    def job(self, attempt: int) -> RollbackJob | None:
        """The rollback Job that followed an attempt."""
        return next((job for job in self.jobs if job.attempt == attempt), None)

    def refusal(self, job: str) -> Refusal | None:
        """Why the Job of this name could not be made, if it was the last one of its role."""
        return next((each for each in self.refusals if each.job == job), None)

    def fresh_refusal(self, job: str) -> Refusal | None:
        """The same, if it is too early for another try."""
        refusal = self.refusal(job)
        return refusal if refusal is not None and refusal.is_fresh(self.now) else None
