"""How old the knowledge may be with which a process changes the table: after a pause it looks again, or sends nothing.

Without this limit a task or a driver that was paused could act on a table of hours ago. What a request meets that was
sent in time, and arrives late, is kept for longer (`write/instants/journal.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.storage import Storage
from bucketingest.write.errors import InstantAborted
from bucketingest.write.pipeline_names import instant_path
from bucketingest.write.plan import WritePlan

LOOK_MAX: Final = timedelta(minutes=5)
"""Longer than the checks of a commit take, and than a task waits for its turn in most micro-batches: a task looks again
with two small requests. A process that was not paused needs no look for a small micro-batch.
"""


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
        self._looked = forward() - abs(now() - plan.made_at).total_seconds()

    def renew(self) -> None:
        """Call it before each change of the table. Raises InstantAborted if the instant is decided or forgotten."""
        now = self._forward()
        if now - self._looked < LOOK_MAX.total_seconds():
            return
        plan = self._plan
        intent, decision = (
            instant_path(plan.pipeline, plan.instant_time, name) for name in (f"intent/{plan.sequence}", "decision")
        )
        if self._storage.exists(decision) or not self._storage.exists(intent):
            raise InstantAborted(
                f"{self._storage.url}: instant {plan.instant_time} was decided while this task was paused: it writes "
                "nothing more"
            )
        self._looked = now
