"""What the holder of a table's lease has for each step of a service that only it takes: plan, decide, end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Generic

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.protocol.journal import KEPT, PlanT, ServiceJournal
from bucketingest.storage import Storage


class ServiceHolder(Generic[PlanT]):
    """Takes the holder's steps on one table. One at a time; each may be repeated after a failure."""

    JOURNAL: ClassVar[type[ServiceJournal[Any]]]
    """Of the service."""
    _journal: ServiceJournal[PlanT]

    def __init__(
        self,
        storage: Storage,
        lock: Lock,
        check_lease: Callable[[], None],
        *,
        check_unchanged: Callable[[Storage], None] = refuse_changed_table,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """`lock`: makes a context that holds Hudi's lock of the table. `check_lease`: raises if the lease was lost."""
        self._storage = storage
        self._lock = lock
        self._check_lease = check_lease
        self._check_unchanged = check_unchanged
        self._clock = clock
        self._journal = self.JOURNAL(storage)

    def _open_number(self) -> int | None:
        """The one that has not ended; the older, if two processes planned at once, without the table's lock."""
        return next((each for each in self._journal.numbers()[-KEPT:] if self._journal.done(each) is None), None)

    def _record(self, plan: PlanT, refusal: str | None) -> int:
        """Record a plan; returns its number. Raises PlanOutdated for a refusal, or if the one before has not ended, and
        as the lease's check does.
        """
        if self._open_number() is not None:
            refusal = "the one before has not ended"
        if refusal is not None:
            raise self._outdated(refusal)
        number = max(self._journal.numbers(), default=0) + 1
        self._check_lease()
        if not self._journal.put_plan(number, plan):
            raise self._outdated("another process is planning")
        return number

    def _outdated(self, why: str) -> PlanOutdated:
        return PlanOutdated(f"{self._storage.url}: {self._journal.SERVICE} not begun: {why}")


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
