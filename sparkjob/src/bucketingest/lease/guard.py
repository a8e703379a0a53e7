"""What is checked right before each change of a timeline: the lease, and Hudi's lock where the table has one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

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
