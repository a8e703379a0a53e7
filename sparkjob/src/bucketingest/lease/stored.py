"""A lease seen from a process beside the one that renews it."""

from __future__ import annotations

from datetime import timedelta

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.lease.objects import newest_lease, time_of
from bucketingest.lease.record import LeaseLost
from bucketingest.lease.store_clock import StoreClock
from bucketingest.storage import Storage


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
