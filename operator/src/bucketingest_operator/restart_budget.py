"""How many pipelines restart at the same time: an upgrade or an annotation on all must not stop the whole fleet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from bucketingest.spec.status import Status
from bucketingest_operator.decide.current_attempt import PLANNED_RESTARTS, RESTART_WAITING
from bucketingest_operator.decide.status import READY, RECONCILING
from bucketingest_operator.resource import Resource

SLOT_SECONDS: Final = 600.0
"""A pipeline that is not ready so long after its restart has another problem, which must not block the others."""
_RESTING: Final = frozenset({"Completed", "Stalled", "Suspended"})


class Clock(Protocol):
    """A monotonic clock, such as an event loop's."""

    def time(self) -> float:
        """Seconds since an arbitrary point."""
        ...


class RestartBudget:
    """Counts planned restarts, from the stop of a driver until the next one is ready.

    Args:
        limit: Restarts at the same time.
        wake: Called with the UID of a waiting resource whose turn it may be.
        clock: Default: the event loop.
    """

    def __init__(self, limit: int, wake: Callable[[str], None], clock: Clock | None = None) -> None:
        self._limit = limit
        self._wake = wake
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._since: dict[str, float] = {}
        self._waiting: dict[str, None] = {}

    def seed(self, resources: Iterable[Resource]) -> None:
        """Start from what statuses say: an earlier leader started these restarts."""
        now = datetime.now(UTC)
        self._waiting.clear()
        self._since = {each.uid: self._clock.time() for each in resources if is_restarting(each.status, now)}

    def full(self, uid: str) -> bool:
        """Whether a restart of this resource must wait."""
        earliest = self._clock.time() - SLOT_SECONDS
        return sum(since > earliest for other, since in self._since.items() if other != uid) >= self._limit

    def note(self, uid: str, status: Status) -> None:
        """A pass over a resource has decided on this status."""
        if _waits(status):
            self._waiting.setdefault(uid)
        else:
            self._waiting.pop(uid, None)
        if is_restarting(status, datetime.now(UTC)):
            self._since.setdefault(uid, self._clock.time())
        else:
            self._release(uid)

    def forget(self, uid: str) -> None:
        """The resource no longer exists."""
        self._waiting.pop(uid, None)
        self._release(uid)

    def _release(self, uid: str) -> None:
        if self._since.pop(uid, None) is not None and self._waiting:
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._wake(following)


def is_restarting(status: Status, now: datetime) -> bool:
    """Whether a driver was stopped for a planned restart, and the next is not ready yet."""
    attempts = status.attempts or ()
    if not attempts or status.phase in _RESTING:
        return False
    if attempts[-1].outcome in PLANNED_RESTARTS:
        return True
    before = attempts[-2] if len(attempts) > 1 else None
    if attempts[-1].outcome is not None or before is None or before.ended_at is None:
        return False
    recent = now - before.ended_at < timedelta(seconds=SLOT_SECONDS)
    ready = any(each.type == READY and each.status == "True" for each in status.conditions or ())
    return before.outcome in PLANNED_RESTARTS and recent and not ready


def _waits(status: Status) -> bool:
    return any(each.type == RECONCILING and each.reason == RESTART_WAITING for each in status.conditions or ())
