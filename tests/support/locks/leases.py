"""Owners and objects of leases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.lease.objects import LEASES
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.storage import Storage

VALIDITY = timedelta(seconds=30)
HERE = ProcessIdentity("host-1", 4711)
"""A process of which nobody can say whether it is dead."""
Acquire = Callable[..., TableLease]


def owner(pipeline: str = "shop/orders", process: ProcessIdentity = HERE) -> LeaseOwner:
    return LeaseOwner(pipeline, process=process)


def numbers(storage: Storage) -> list[int]:
    return sorted(int(info.path.rpartition("/")[2]) for info in storage.list(LEASES))
