"""The BucketIngest as one pass of the operator read it from the API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bucketingest.spec.errors import Problem
from bucketingest.spec.model import API_GROUP, BucketIngest
from bucketingest.spec.status import Status

FINALIZER: Final = f"{API_GROUP}/driver"
PAUSE_ANNOTATION: Final = f"{API_GROUP}/pause"
"""`true`: the operator only watches; it starts and stops only what a deletion needs."""
RESTART_ANNOTATION: Final = f"{API_GROUP}/restart"
"""Any new value restarts the driver gracefully, and ends a stall."""
TABLE_TAKEN: Final = "TableTaken"
_AT_WORK: Final = frozenset({"Starting", "Running", "Idle", "Recovering"})


@dataclass(frozen=True, slots=True)
class Resource:
    """The BucketIngest as the API server has it.

    Attributes:
        wanted: The parsed resource; None if it cannot be used, and then `problems` says why.
        has_default_image: Its own spec names no image: that of `wanted` is the operator's.
        suspends: Whether its spec says `suspend`, also if the rest of it cannot be used.
        unknown: Fields of the spec that this version does not know and ignores.
        status: As the operator wrote it; empty if there is none or it cannot be read.
        version: `metadata.resourceVersion`. A status is written only if the version is still this one.
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
    unknown: tuple[str, ...] = ()
    has_default_image: bool = False
    suspends: bool = False

    @property
    def started(self) -> bool:
        """Whether it has had an attempt."""
        return bool(self.status.attempt)

    @property
    def committed(self) -> bool:
        """Whether it has committed to its table."""
        return self.status.last_commit is not None

    @property
    def holds(self) -> bool:
        """Whether its driver runs, or the next one follows by itself."""
        taken = any(each.type == "Ready" and each.reason == TABLE_TAKEN for each in self.status.conditions or ())
        return self.status.phase in _AT_WORK and not taken

    @property
    def rests(self) -> bool:
        """Whether it starts nothing until a person changes something."""
        if self.deleting or self.holds:
            return False
        return self.wanted is None or self.wanted.spec.suspend or self.status.phase in {"Stalled", "Completed"}

    @property
    def paused(self) -> bool:
        """Whether a person asked the operator only to watch."""
        return self.annotations.get(PAUSE_ANNOTATION, "").lower() == "true"

    @property
    def nonce(self) -> str:
        """The newest value of the restart annotation; "" without one."""
        return self.annotations.get(RESTART_ANNOTATION, "")
