"""What a pass decided to do, as plain values that `act` carries out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.job_report import CompactionWork
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status
from bucketingest_operator.observation import AttemptInput, CheckRole


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the status, if the resource still has the observed version.

    If it has not, or the write fails, the rest of the plan must not be carried out.
    """

    status: Status
    if_version: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Make a deletion wait for the operator."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let a deletion continue."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Create, each only if its name is free: ServiceAccount, Role, RoleBinding, ConfigMap, Secret, driver pod."""

    number: int
    attempt_input: Annotated[AttemptInput, Field(alias="told")]
    wanted: BucketIngest
    ended: tuple[str, ...] = ()
    """Earlier driver pods whose processes have certainly ended: the job need not wait for their lease."""


@dataclass(frozen=True, slots=True)
class DeleteDriver:
    """Delete the driver pod of an attempt, if it exists.

    Attributes:
        force: Do not wait for its node, which is no longer a part of the cluster.
        stuck: It makes no progress, so it cannot use its grace period to commit.
        uid: Of the pod that was observed.
    """

    number: int
    name: str
    force: bool = False
    stuck: bool = False
    uid: str = ""


@dataclass(frozen=True, slots=True)
class DeleteExecutors:
    """Delete executor pods that an attempt left."""

    number: int


@dataclass(frozen=True, slots=True)
class DeleteAttempt:
    """Delete what is left of an old attempt: ConfigMap, and pod and rollback Job if there are any. Kubernetes
    deletes executors with their driver.
    """

    number: int
    has_driver: bool = False
    has_job: bool = False


@dataclass(frozen=True, slots=True)
class CreateRollback:
    """Create the rollback Job that follows an attempt, if its name is free."""

    number: int
    wanted: BucketIngest


@dataclass(frozen=True, slots=True)
class CreateCompaction:
    """Create the Job whose pods merge for a round of a compaction, if its name is free.

    If the API server refuses it, the rest of the plan is carried out.
    """

    work: CompactionWork
    digest: str
    wanted: BucketIngest


@dataclass(frozen=True, slots=True)
class CreateServices:
    """Create the Job that does all that is due while the resource is suspended, if its name is free.

    If the API server refuses it, the rest of the plan is carried out.
    """

    wanted: BucketIngest


@dataclass(frozen=True, slots=True)
class CreateCheck:
    """Create a Job that checks a changed spec or compares the table with its source, if its name is free.

    If the API server refuses it, the rest of the plan is carried out.

    Attributes:
        number: Of the attempt that runs.
        digest: Of the spec, or of its section `audit`.
    """

    role: CheckRole
    number: int
    digest: str
    wanted: BucketIngest


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete a Job that merges or checks, and its pods. `uid`: of the Job that was observed."""

    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Emit a Kubernetes event. Its name depends on its content, so that repeating it makes one event."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: str
    """Its subject, such as an attempt's number: a part of its name."""


Action = (
    WriteStatus
    | AddFinalizer
    | RemoveFinalizer
    | StartAttempt
    | DeleteDriver
    | DeleteExecutors
    | DeleteAttempt
    | CreateRollback
    | CreateCompaction
    | CreateServices
    | CreateCheck
    | DeleteJob
    | EmitEvent
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, in this order, and when to look again.

    Attributes:
        actions: A write of the resource that fails ends the plan. What is between two of them is independent.
        status: The status after the plan.
        look_again: Longest time to the next pass.
        look_live: It was made from copies, and what is missing in them matters: it is not carried out, but made again
            from what the API server has now.
    """

    actions: tuple[Action, ...]
    status: Status
    look_again: timedelta
    look_live: bool = False
