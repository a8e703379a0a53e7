"""How old the knowledge may be with which a process changes the table: after a pause it looks again, or sends nothing.

Without this limit a task or a driver that was paused could act on a table of hours ago. What a request meets that was
sent in time, and arrives late, is kept for longer (`write/instants/journal.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.storage import Storage
from bucketingest.write.errors import InstantAborted, WriteError
from bucketingest.write.pipeline_names import instant_path
from bucketingest.write.plan import WritePlan

LOOK_MAX: Final = timedelta(minutes=5)
"""Longer than the checks of a commit take, and than a task waits for its turn in most micro-batches: a task looks again
with two small requests. A process that was not paused needs no look for a small micro-batch.
"""
_LOOKS_MAX: Final = 3
_Found = TypeVar("_Found")


class Look:
    """When a process looked at an instant. It acts on what it saw as long as that is fresh."""

    def __init__(self, forward: Callable[[], float], age: timedelta = timedelta(0)) -> None:
        self._forward = forward
        self._at = forward() - age.total_seconds()

    @property
    def is_fresh(self) -> bool:
        """Whether it is younger than `LOOK_MAX`."""
        return self._forward() - self._at < LOOK_MAX.total_seconds()


def fresh_look(where: str, forward: Callable[[], float], checks: Callable[[], _Found]) -> tuple[_Found, Look]:
    """Make the checks before a commit, again if they took longer than `LOOK_MAX`: what they found, and their look.

    `where` names the table in the error. Raises WriteError if they take so long each time, and as they do.
    """
    for _ in range(_LOOKS_MAX):
        look = Look(forward)
        found = checks()
        if look.is_fresh:
            return found, look
    raise WriteError(
        f"{where}: the checks before a commit take longer than {LOOK_MAX}: the storage is too slow, or this process is "
        "paused again and again; it is not committed"
    )


class InstantLook:
    """A write task's knowledge that its instant is open. It may be used by several threads."""

    def __init__(
        self,
        plan: WritePlan,
        storage: Storage,
        now: Callable[[], datetime] = utc_now,
        forward: Callable[[], float] = forward_seconds,
    ) -> None:
        self._plan = plan
        self._storage = storage
        self._forward = forward
        # The only comparison of the clocks of two machines. One that is wrong by more than the limit costs a look.
        self._look = Look(forward, abs(now() - plan.made_at))

    def renew(self) -> None:
        """Call it before each change of the table. Raises InstantAborted if the instant is decided or forgotten."""
        if self._look.is_fresh:
            return
        look, plan = Look(self._forward), self._plan
        # A driver that was paused may have made the later ones anew, when the instant was forgotten.
        intent, decision = (instant_path(plan.pipeline, plan.instant_time, name) for name in ("intent/1", "decision"))
        if self._storage.exists(decision) or not self._storage.exists(intent):
            raise InstantAborted(
                f"{self._storage.url}: instant {plan.instant_time} was decided while this task was paused: it writes "
                "nothing more"
            )
        self._look = look
