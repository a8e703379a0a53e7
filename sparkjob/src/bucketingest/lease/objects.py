"""The numbered objects of a table's lease: take the next number, find the newest and its age, delete old ones."""

from __future__ import annotations

import uuid
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
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
    usable_until: float
    """By this job's forward clock, counted from before the first request."""


def take(storage: Storage, step: Step) -> bool:
    """Create the step's object; returns whether this job holds the lease then."""
    if not create(storage, step.number, step.content):
        return False
    # A request that was delayed for very long may find its number free again because that object was deleted: then
    # newer ones are there.
    numbers = _numbers(storage)
    if max(numbers, default=step.number) > step.number:
        storage.delete(_path(step.number))
        return False
    outdated = [_path(number) for number in numbers if number <= step.number - KEPT]
    if outdated:
        with suppress(StorageError):  # next time
            storage.delete_many(outdated)
    return True


def create(storage: Storage, number: int, content: bytes) -> bool:
    """Create the lease object; returns whether it holds our content now. A retried create finds its own object."""
    try:
        return create_or_get(storage, _path(number), content) == content
    except NotFound:
        return False


def newest_lease(storage: Storage) -> tuple[int, LeaseRecord | None]:
    """Number and content of the newest lease object; 0 and None if there is none."""
    for _ in range(_LOOKS_MAX):
        number = max(_numbers(storage), default=0)
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
    probe = f"{LEASES}/now-{uuid.uuid4().hex}"
    try:
        made = storage.head(_path(number)).modified
        storage.create(probe, b"")
        now = storage.head(probe).modified
    except NotFound:  # newer ones are there
        return timedelta()
    finally:
        with suppress(StorageError):  # no job reads it
            storage.delete(probe)
    return max(now - made, timedelta())


def _numbers(storage: Storage) -> list[int]:
    names = (info.path.rpartition("/")[2] for info in storage.list_level(LEASES).objects)
    return [int(name) for name in names if name.isdecimal()]


def _path(number: int) -> str:
    return f"{LEASES}/{number:012d}"


def is_of(storage: Storage, number: int, lease_id: str) -> bool:
    """Whether the object of this number belongs to the lease."""
    try:
        return LeaseRecord.decode(storage.get(_path(number)), _path(number)).lease_id == lease_id
    except NotFound:
        return False
