"""A lease seen from a process beside the one that renews it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from bucketingest.lease.objects import newest_lease
from bucketingest.lease.record import LeaseLost
from bucketingest.storage import Storage


@dataclass(frozen=True, slots=True)
class StoredLease:
    """The lease of this id, by what is in storage."""

    storage: Storage
    lease_id: str

    def check(self, _: timedelta = timedelta(0), /) -> None:
        """Raise LeaseLost if the table's newest lease is another one. Whoever takes it over waits until it has expired,
        so its age is no matter here.
        """
        newest = newest_lease(self.storage)[1]
        if newest is None or newest.lease_id != self.lease_id or newest.released:
            raise LeaseLost(f"{self.storage.url}: the job that started this service no longer holds the table's lease")
