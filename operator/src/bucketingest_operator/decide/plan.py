"""What a pass decided to do, as plain values that the acting code carries out in order."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status
from bucketingest_operator.observation import AttemptTold


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the status, on the condition that the resource has still the version that was observed.

    When it has not, or the write fails, the rest of the plan must not be carried out.
    """

    status: Status
    if_version: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Have a deletion wait for us."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let a deletion go on."""


@dataclass(frozen=True, slots=True)
class StartAttempt:
    """Create, each only if its name is free: ServiceAccount, Role, RoleBinding, ConfigMap, Service, driver pod."""

    number: int
    told: AttemptTold
    wanted: BucketIngest


@dataclass(frozen=True, slots=True)
class DeleteDriver:
    """Delete the driver pod of an attempt; it being gone already is fine.

    Attributes:
        force: Without waiting for its node, which is no longer a part of the cluster.
    """

    number: int
    name: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteExecutors:
    """Delete executor pods that an attempt left."""

    number: int


@dataclass(frozen=True, slots=True)
class DeleteAttempt:
    """Delete what is left of an attempt that is long over: pod, executors, Service, ConfigMap, rollback Job."""

    number: int


@dataclass(frozen=True, slots=True)
class CreateRollback:
    """Create the rollback Job that follows an attempt, if its name is free."""

    number: int
    wanted: BucketIngest


@dataclass(frozen=True, slots=True)
class DeleteRollback:
    """Delete a rollback Job and its pods."""

    number: int


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Tell people. The name is made from what is told, so that telling it twice is one event."""

    kind: Literal["Normal", "Warning"]
    reason: str
    message: str
    about: str
    """What it is about, such as an attempt's number: a part of its name."""


Action = (
    WriteStatus
    | AddFinalizer
    | RemoveFinalizer
    | StartAttempt
    | DeleteDriver
    | DeleteExecutors
    | DeleteAttempt
    | CreateRollback
    | DeleteRollback
    | EmitEvent
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, in this order, and when to look again.

    Attributes:
        actions: To be carried out one after the other, up to the first that fails.
        status: The status after the plan.
        look_again: Longest time to the next pass.
        look_live: The next pass must read pods and Jobs from the API server.
    """

    actions: tuple[Action, ...]
    status: Status
    look_again: timedelta
    look_live: bool = False
