"""A table, and what guards each change that a service makes of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.storage import Storage


def _nothing() -> None:
    """The check of a process that has no rival."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A table. Without lock and check it is only looked at."""

    storage: Storage
    lock: Lock = nullcontext
    """Makes a context that holds Hudi's lock of the table."""
    check: Callable[[], None] = _nothing
    """Raises if the lease or the lock was lost."""
    clock: Callable[[], datetime] = utc_now
    running: str = ""
    """Name of the pipeline whose job runs meanwhile. It looks itself for what others took from it: what is marked
    without its knowledge it would take for ingested again.
    """
