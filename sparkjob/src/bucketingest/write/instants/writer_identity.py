"""The pipeline and epoch of an attempt, with its clock, lock and dead-letter place."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.storage import Storage, open_storage


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Identifies the attempt that writes instants."""

    pipeline: str
    epoch: int
    dead_letters: Storage | None
    lock: Lock = nullcontext
    check_lease: Callable[[], None] = lambda: None
    clock: Callable[[], datetime] = utc_now
    forward: Callable[[], float] = forward_seconds
    """Seconds by a clock that cannot be set."""
    open_letters: Callable[[str], Storage] = open_storage
    """Opens the place where an earlier attempt staged dead letters, by its URL."""
    check_unchanged: Callable[[Storage], None] = refuse_changed_table
    """Raises, or drops it, if another writer has switched Hudi's metadata table on."""
