"""The numbered objects of a table's lease: take the next number, find the newest and its age, delete old ones."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.naming import OWN_DIRECTORY
from bucketingest.lease.record import KEPT, LeaseRecord
from bucketingest.storage import NotFound, Storage, StorageError, StorageUnavailable, create_or_get

LEASES: Final = f"{OWN_DIRECTORY}/lease"
_LOOKS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One lease object of this job: retried unchanged until it is known whether it is there."""

    number: int
    content: bytes
    since: float
    """By this job's forward clock, before the first request."""
    usable_until: float
    """By the same clock, counted from there."""


def take(storage: Storage, step: Step) -> datetime | None:
    """Create the step's object; when it was created, by the storage's clock. None: this job does not hold the lease."""
    if not create(storage, step.number, step.content):
        return None
    # A request that was delayed for very long may find its number free again because that object was deleted: then
    # newer ones are there.
    made = _made(storage)
    if max(made, default=0) != step.number:
        storage.delete(_path(step.number))
        return None
    outdated = [_path(number) for number in made if number <= step.number - KEPT]
    if outdated:
        with suppress(StorageError):  # next time
            storage.delete_many(outdated)
    return made[step.number]


def create(storage: Storage, number: int, content: bytes) -> bool:
    """Create the lease object; returns whether it holds our content now. A retried create finds its own object."""
    try:
        return create_or_get(storage, _path(number), content) == content
    except NotFound:
        return False


def newest_lease(storage: Storage) -> tuple[int, LeaseRecord | None]:
    """Number and content of the newest lease object; 0 and None if there is none."""
    for _ in range(_LOOKS_MAX):
        number = max(_made(storage), default=0)
        if number == 0:
            return 0, None
        with suppress(NotFound):  # then it was old and deleted: newer ones are there
            return number, LeaseRecord.decode(storage.get(_path(number)), storage.absolute(_path(number)))
    raise StorageUnavailable(f"{storage.url}/{LEASES}: the listed objects cannot be read; try again")


def age_of(storage: Storage, number: int, lease: LeaseRecord | None) -> timedelta:
    """For how long at least the newest lease object has been there, by the storage's clock alone: it is compared with
    an object created now. 0 if that is unknown, or not needed.
    """
    if lease is None or lease.released:
        return timedelta()
    if lease.owner.process.is_alive():
        return timedelta()  # a local file system's clock is this machine's, which may be set at any time
    try:
        made = storage.head(_path(number)).modified
    except NotFound:  # newer ones are there
        return timedelta()
    return max(time_of(storage) - made, timedelta())


def time_of(storage: Storage) -> datetime:
    """What the storage's clock shows: it says when it made an object."""
    probe = f"{LEASES}/now-{uuid.uuid4().hex}"  # noqa: TID251 - the name of a probe
    try:
        storage.create(probe, b"")
        return storage.head(probe).modified
    finally:
        with suppress(StorageError):  # no job reads it
            storage.delete(probe)


def _made(storage: Storage) -> dict[int, datetime]:
    """Number of each lease object -> when it was created."""
    found = ((info.path.rpartition("/")[2], info.modified) for info in storage.list_level(LEASES).objects)
    return {int(name): modified for name, modified in found if name.isdecimal()}


def _path(number: int) -> str:
    return f"{LEASES}/{number:012d}"


def is_of(storage: Storage, number: int, lease_id: str) -> bool:
    """Whether the object of this number belongs to the lease."""
    try:
        return LeaseRecord.decode(storage.get(_path(number)), _path(number)).lease_id == lease_id
    except NotFound:
        return False
