"""The content of a table's lease, and the decisions that follow from it, without I/O."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode
from bucketingest.hudi.lock.process_identity import ProcessIdentity

DEFAULT_VALIDITY: Final = timedelta(seconds=30)
DRIFT: Final = timedelta(seconds=2)
"""Other jobs wait so much longer before a lease counts as expired: clocks run at slightly different speeds, and storage
may give times in whole seconds.
"""
KEPT: Final = 5
"""Number of newest lease objects that stay."""
ROLLBACK_OWNER: Final = "(rollback)"
SERVICES_OWNER: Final = "(table services)"
COMMAND_OWNERS: Final = (ROLLBACK_OWNER, SERVICES_OWNER)
"""Owners that are commands, not pipelines: no real pipeline's name has parentheses."""
_MS: Final = timedelta(milliseconds=1)


class LeaseError(BucketIngestError):
    """Base of every error about a table's lease."""

    exit_code = ExitCode.WRITE_CONFLICT


class TableLeased(LeaseError):
    """Another job holds the table; this one must not write to it."""

    exit_code = ExitCode.TABLE_LOCKED


class LeaseLost(LeaseError):
    """The attempt may no longer hold the table: it must stop and commit nothing."""

    exit_code = ExitCode.FENCED_OUT


class LeaseNotRenewed(LeaseLost):
    """Storage has not answered a renewal for so long that another job may take the table."""

    exit_code = ExitCode.STORAGE_UNAVAILABLE


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """The holder of a table's lease."""

    pipeline: str
    epoch: int | None = None
    process: ProcessIdentity = field(default_factory=ProcessIdentity.own)

    def __str__(self) -> str:
        epoch = "" if self.epoch is None else f" (epoch {self.epoch})"
        return f"pipeline {self.pipeline}{epoch}, {self.process}"


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """Content of one lease object. Times in milliseconds since 1970, by the owner's clock: only for people to read,
    because other clocks may differ.
    """

    owner: LeaseOwner
    lease_id: str
    """The same in all renewals of one lease, and in no other lease."""
    acquired_ms: int
    valid_until_ms: int
    validity_ms: int
    released: bool = False

    def encode(self) -> bytes:
        """As it is stored: JSON."""
        return json.dumps(
            {
                "owner": {
                    "pipeline": self.owner.pipeline,
                    "epoch": self.owner.epoch,
                    **self.owner.process.to_json(),
                },
                "id": self.lease_id,
                "acquired": self.acquired_ms,
                "validUntil": self.valid_until_ms,
                "validity": self.validity_ms,
                "released": self.released,
            }
        ).encode()

    @classmethod
    def decode(cls, content: bytes, path: str) -> Self:
        """As `encode` made it. Raises LeaseError naming the object."""
        try:
            stored = json.loads(content)
            owner = stored["owner"]
            return cls(
                owner=LeaseOwner(owner["pipeline"], owner["epoch"], ProcessIdentity.from_json(owner)),
                lease_id=stored["id"],
                acquired_ms=stored["acquired"],
                valid_until_ms=stored["validUntil"],
                validity_ms=stored["validity"],
                released=stored["released"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise LeaseError(
                f"{path} is not a lease of this version ({error!r}): stop the job that wrote it, then delete the object"
            ) from error

    def describe(self) -> str:
        """The holder of the table, since when and until when, for messages."""
        return f"{self.owner}, since {_moment(self.acquired_ms)}, until {_moment(self.valid_until_ms)} unless renewed"


def milliseconds(moment: datetime) -> int:
    """A moment as milliseconds since 1970."""
    return (moment - datetime.fromtimestamp(0, UTC)) // _MS


def why_free(newest: LeaseRecord | None, unchanged: timedelta, *, owner_dead: bool) -> str | None:
    """Why the table may be taken; None if it is held. Pure.

    `unchanged`: for how long at least the newest lease has not changed. It never compares clocks of two machines, so no
    wrong clock frees or blocks a table. `owner_dead`: its process has certainly ended.
    """
    if newest is None:
        return "no job held it before"
    if newest.released:
        return "released"
    if owner_dead:
        return f"{newest.owner} has ended without releasing it"
    if unchanged > newest.validity_ms * _MS + DRIFT:
        return f"{newest.owner} has not renewed its lease"
    return None


def renewal_interval(validity: timedelta) -> timedelta:
    """Time between renewals: two of them may fail before the lease is given up."""
    return validity / 3


def usable(validity: timedelta) -> timedelta:
    """For how long after the start of its request a lease counts for its owner: well below its time for other jobs."""
    return validity * 2 / 3


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
