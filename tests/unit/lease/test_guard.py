"""What is checked before a table is changed: lease and lock, in the job and in a process beside it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from bucketingest.hudi.errors import ClockError
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.lease.guard import LEASE_MARGIN, StoredLease, lease_and_lock
from bucketingest.lease.record import LeaseLost, LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import open_storage
from support.storage.dated_storage import DatedStorage


class Lock:
    """A lock that may be lost."""

    lost = False

    def check(self) -> None:
        if self.lost:
            raise RuntimeError("lock lost")


def test_the_lock_is_checked_and_the_lease_with_its_margin() -> None:
    asked: list[timedelta] = []

    class Lease:
        def check(self, margin: timedelta, /) -> None:
            asked.append(margin)

    lock = Lock()
    check = lease_and_lock(Lease(), lock)
    check()
    assert asked == [LEASE_MARGIN]
    lock.lost = True
    with pytest.raises(RuntimeError):
        check()


def test_beside_the_job_only_its_own_lease_counts() -> None:
    storage = open_storage("memory://guarded")
    with TableLease.acquire(storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        check = lease_and_lock(StoredLease(storage, lease.lease_id), Lock())
        check()
        lease.renew()
        check()
        with pytest.raises(LeaseLost):
            lease_and_lock(StoredLease(storage, "another"), Lock())()
    with pytest.raises(LeaseLost):
        check()


def test_a_clock_that_is_wrong_is_noticed_beside_the_job_too() -> None:
    storage = open_storage("memory://guarded-by-a-wrong-clock")
    with TableLease.acquire(storage, LeaseOwner("shop/orders"), wait=timedelta(0)) as lease:
        wrong = DatedStorage(storage, lambda: utc_now() - timedelta(days=3))
        with pytest.raises(ClockError, match="ahead"):
            lease_and_lock(StoredLease(wrong, lease.lease_id), Lock())()
