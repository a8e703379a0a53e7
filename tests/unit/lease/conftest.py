"""A storage and a clock that a test moves, and leases that end with the test."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage, open_storage
from support.locks.clocks import FakeClock
from support.locks.leases import Acquire, owner
from support.storage.dated_storage import DatedStorage


@pytest.fixture
def clock() -> FakeClock:
    """Of the storage, and of every job that has no other."""
    return FakeClock()


@pytest.fixture
def storage(clock: FakeClock) -> Storage:
    return DatedStorage(open_storage(f"memory://{uuid.uuid4()}"), clock.wall)


@pytest.fixture
def acquire(storage: Storage, clock: FakeClock) -> Iterator[Acquire]:
    """Acquires the lease by a stopped clock; leases that a test still holds are released after it."""
    held: list[TableLease] = []

    def make(of: LeaseOwner | None = None, at: Storage | None = None, **settings: Any) -> TableLease:
        times: dict[str, Any] = {
            "clock": clock.wall,
            "monotonic": clock.forward,
            "sleep": clock.sleep,
            "wait": timedelta(0),
        }
        held.append(TableLease.acquire(at or storage, of or owner(), **(times | settings)))
        return held[-1]

    yield make
    for lease in held:
        lease.release()
