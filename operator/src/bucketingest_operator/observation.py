"""What one pass of the operator saw, as plain values: the only input of its decisions, so that those can be tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from bucketingest.spec.errors import Problem
from bucketingest.spec.job_report import ProgressReport, TerminationReport
from bucketingest.spec.model import API_GROUP, BucketIngest
from bucketingest.spec.status import Status

FINALIZER: Final = f"{API_GROUP}/driver"
PAUSE_ANNOTATION: Final = f"{API_GROUP}/pause"
"""`true`: the operator only watches; it starts and stops nothing but what a deletion needs."""
RESTART_ANNOTATION: Final = f"{API_GROUP}/restart"
"""Any new value restarts the driver gracefully, and ends a stall."""


@dataclass(frozen=True, slots=True)
class Resource:
    """The BucketIngest as the API server has it.

    Attributes:
        wanted: The resource parsed; None when it cannot be used, and then `problems` says why.
        status: As the operator wrote it; empty when there is none or it cannot be read.
        version: `metadata.resourceVersion`. A status is written on the condition that it is still this.
    """

    namespace: str
    name: str
    uid: str
    generation: int
    created_at: datetime
    version: str
    wanted: BucketIngest | None
    problems: tuple[Problem, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    deleting: bool = False
    status: Status = field(default_factory=Status)

    @property
    def begun(self) -> bool:
        """Whether it has had an attempt."""
        return bool(self.status.attempt)

    @property
    def paused(self) -> bool:
        """Whether a person asked the operator to keep its hands off."""
        return self.annotations.get(PAUSE_ANNOTATION, "").lower() == "true"

    @property
    def nonce(self) -> str:
        """The value that a new restart is asked with; "" when none ever was."""
        return self.annotations.get(RESTART_ANNOTATION, "")


class PodState(Enum):
    """How far a driver pod is. Only what `OVER` holds can never run again: the pod has restartPolicy Never.

    SUCCEEDED and FAILED are to be reported once every container has terminated, or none ever started: a node may set
    the pod's phase before.
    """

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


OVER: Final = frozenset({PodState.SUCCEEDED, PodState.FAILED})


class PodReason(Enum):
    """Why a pod does not start, or how it ended, as far as Kubernetes says."""

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
class AttemptTold:
    """What an attempt was started with: annotations of its ConfigMap and of its pod."""

    spec_digest: str
    fixed_digest: str
    nonce: str
    failures: tuple[datetime, ...] = ()
    """Ends of the failed attempts before it that count for the circuit breaker."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver pod.

    Attributes:
        terminating: It has a deletion timestamp, and is still there: its process may run.
        node_gone: The node it was on is no longer a part of the cluster, so nothing of it can run.
        exit_code: Of the job's container; None while it runs or when it is not known.
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

    @property
    def can_run(self) -> bool:
        """Whether a process of it may be alive, now or later."""
        return self.state not in OVER


class JobState(Enum):
    """How far a rollback Job is."""

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
class Executors:
    """The executor pods of the newest attempt."""

    running: int = 0
    pending: int = 0
    message: str = ""
    """Why one of them does not start."""


@dataclass(frozen=True, slots=True)
class Contact:
    """The last try to read `/progress` of the newest attempt.

    Attributes:
        report: Its answer; with `unreachable_since`, the last that it ever gave, or None.
        unreachable_since: Since when it has not answered; None when it just did.
    """

    report: ProgressReport | None = None
    unreachable_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Another BucketIngest of the cluster that wants the same table.

    Attributes:
        begun: It has had an attempt.
        has_driver: A driver of it may still run.
    """

    namespace: str
    name: str
    uid: str
    created_at: datetime
    begun: bool = False
    has_driver: bool = False

    @property
    def pipeline(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that a decision is made from.

    Attributes:
        drivers: Every driver pod of this resource, by its uid, whatever its attempt.
        told: What attempts were told, by their number, as far as their ConfigMaps are still there.
        live: Pods and Jobs were just read from the API server, not from a cache. Without it nothing that is absent
            counts as gone.
        namespace_terminating: Nothing can be created any more.
    """

    now: datetime
    resource: Resource
    drivers: tuple[Driver, ...] = ()
    told: Mapping[int, AttemptTold] = field(default_factory=dict)
    jobs: tuple[RollbackJob, ...] = ()
    executors: Executors = Executors()
    contact: Contact = Contact()
    claims: tuple[Claim, ...] = ()
    live: bool = True
    namespace_terminating: bool = False

    def driver(self, attempt: int) -> Driver | None:
        """The driver pod of an attempt."""
        return next((pod for pod in self.drivers if pod.attempt == attempt), None)

    def job(self, attempt: int) -> RollbackJob | None:
        """The rollback Job that followed an attempt."""
        return next((job for job in self.jobs if job.attempt == attempt), None)
