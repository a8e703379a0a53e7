"""How a pipeline keeps other jobs, and Hudi's own writers, from working on its table at the same moment."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from bucketingest.spec.base import SpecModel
from bucketingest.spec.scalars import DurationText


class TableLock(SpecModel):
    """Two things: a lease, by which a job holds its table from start to stop, and Hudi's lock, held for moments."""

    provider: Literal["auto", "storage", "fileSystem", "none"] = Field(
        default="auto",
        description=(
            "The lock of Hudi's writers that work on the table at the same time, in optimistic or non-blocking "
            "concurrency mode. storage: StorageBasedLockProvider, on object stores. fileSystem: "
            "FileSystemBasedLockProvider with its default path, on local file systems. none: no Hudi writer works at "
            "the same time. auto: what the table's property hoodie.write.lock.provider names; without it storage on "
            "object stores and none on file systems."
        ),
    )
    wait_timeout: Annotated[timedelta, DurationText("1s", "1h")] = Field(
        default=timedelta(minutes=1),
        alias="waitTimeout",
        description=(
            "Longest wait for Hudi's lock before a step, such as a commit, fails. Longer than leaseValidity, so that a "
            "lock left by a crash expires first."
        ),
    )
    lease_validity: Annotated[timedelta, DurationText("10s", "10m")] = Field(
        default=timedelta(seconds=30),
        alias="leaseValidity",
        description=(
            "After this time without renewal a job counts as dead, and others may take its table and lock. It gives "
            "both up itself after two thirds of that. Clocks of machines must agree within 2s."
        ),
    )
    on_held: Literal["wait", "exit"] = Field(
        default="wait",
        alias="onHeld",
        description=(
            "What a job does at its start when another one holds the table. wait: up to heldTimeout, then exit. exit: "
            "immediately, with the holder's name."
        ),
    )
    held_timeout: Annotated[timedelta, DurationText("1s", "24h")] = Field(
        default=timedelta(minutes=2),
        alias="heldTimeout",
        description=(
            "Longest wait with onHeld wait. Longer than leaseValidity, so that the table of a crashed job is taken "
            "over."
        ),
    )
