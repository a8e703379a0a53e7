"""What is checked right before each change of a timeline: the lease, and Hudi's lock where the table has one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.lease.objects import newest_lease, time_of
from bucketingest.lease.record import LeaseLost
from bucketingest.lease.store_clock import StoreClock
from bucketingest.storage import Storage

LEASE_MARGIN: Final = timedelta(seconds=2)
"""The lease must stay valid for this long after a commit is decided: longer than one small write takes."""


class _Lease(Protocol):
    def check(self, margin: timedelta, /) -> None: ...


class _Lock(Protocol):
    def check(self) -> None: ...


def lease_and_lock(lease: _Lease, lock: _Lock) -> Callable[[], None]:
    """A check that raises LeaseLost, or what the lock raises, unless this process may change the table now."""

    def check() -> None:
        lease.check(LEASE_MARGIN)
        lock.check()

    return check


class StoredLease:
    """The lease of this id, by what is in storage."""

    def __init__(self, storage: Storage, lease_id: str) -> None:
        self._storage = storage
        self._lease_id = lease_id
        self._clock = StoreClock(storage.url)
        since = forward_seconds()
        self._clock.written(time_of(storage), since)

    def check(self, _: timedelta = timedelta(0), /) -> None:
        """Raise LeaseLost if the table's newest lease is another one, ClockError if this machine's clock and the
        storage's differ. Whoever takes the lease over waits until it has expired, so its age is no matter here.
        """
        newest = newest_lease(self._storage)[1]
        if newest is None or newest.lease_id != self._lease_id or newest.released:
            raise LeaseLost(f"{self._storage.url}: the job that started this service no longer holds the table's lease")
        self._clock.check()
