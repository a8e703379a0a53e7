"""How many pipelines restart at the same time: an upgrade or an annotation on all must not stop the whole fleet."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from bucketingest.spec.status import Attempt, Status
from bucketingest_operator.decide.current_attempt import PLANNED_RESTARTS
from bucketingest_operator.decide.pass_state import RESTART_WAITING
from bucketingest_operator.decide.plan import CreateCheck, Plan
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.decide.status import READY, RECONCILING
from bucketingest_operator.decide.upgrade.preflight import PASSED, PENDING, SKIPPED
from bucketingest_operator.observation import JobState, Observation
from bucketingest_operator.resource import Resource

SLOT_SECONDS: Final = 600.0
"""A pipeline that is not ready so long after its restart has another problem, which must not block the others."""
WAIT_SECONDS: Final = 60.0
"""A wait for a turn that is shorter is no news."""
_RESTING: Final = frozenset({"Completed", "Stalled", "Suspended"})
_CHECK: Final = 0


class Clock(Protocol):
    """A monotonic clock, such as an event loop's."""

    def time(self) -> float:
        """Seconds since an arbitrary point."""
        ...


@dataclass(frozen=True, slots=True)
class _Slot:
    """What a pipeline was allowed to do: the end of this attempt, or a check of its changed spec (`_CHECK`)."""

    namespace: str
    attempt: int
    since: float
    by_default: bool
    """Its spec names no image."""


class RestartBudget:
    """Counts planned restarts, from the check of the changed spec or the stop of a driver until the next is ready.

    It counts what it has allowed and has not seen ready since, whatever the API server has answered or shows so far:
    slowness may cost time, and never lets more drivers stop.

    The default image is that of the operator's start, so a new one comes to all pipelines at once: until one has
    committed with it, one at a time is checked and restarted, and has its turn until it commits, is idle or is late.
    `wake` is called with the UID of a waiting resource whose turn it may be. `namespaces`: how many have resources.
    """

    def __init__(
        self,
        limit: int,
        wake: Callable[[str], None],
        namespaces: Callable[[], int] = lambda: 1,
        clock: Clock | None = None,
    ) -> None:
        self._limit = limit
        self._wake = wake
        self._namespaces = namespaces
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._slots: dict[str, _Slot] = {}
        self._waiting: dict[str, Resource] = {}
        self._waits_since: dict[str, float] = {}
        self._default_is_proven = False

    def seed(self, resources: Iterable[Resource]) -> None:
        """Add what statuses say: an earlier leader started these restarts."""
        now = datetime.now(UTC)
        for each in resources:
            if _has_its_turn(each.status):
                self._slots.setdefault(each.uid, self._slot(each, _CHECK))
            stopped = [one for one in each.status.attempts or () if one.outcome in PLANNED_RESTARTS]
            if not stopped:
                continue
            slot, ended = self._slot(each, stopped[-1].number), stopped[-1].ended_at
            lately = ended is not None and now - ended < timedelta(seconds=SLOT_SECONDS)
            if is_restarting(each.status, now) or (lately and self._awaits_commit(slot, each.status)):
                self._slots.setdefault(each.uid, slot)

    def full(self, resource: Resource) -> bool:
        """Whether a restart of this resource, or the check before it, must wait.

        Where several namespaces have resources, one gets at most half of what the others leave: one whose restarts
        never become ready does not stop all others.
        """
        earliest = self._clock.time() - SLOT_SECONDS
        taken = {uid: slot for uid, slot in self._slots.items() if slot.since > earliest}
        if resource.uid in taken:
            return False
        if not self._default_is_proven and resource.has_default_image and any(s.by_default for s in taken.values()):
            return True
        own = sum(slot.namespace == resource.namespace for slot in taken.values())
        left = self._limit - (len(taken) - own)
        share = left if self._namespaces() < 2 else max(1, left // 2)
        return len(taken) >= self._limit or own >= share

    def waits_long(self, uid: str) -> bool:
        """Whether a resource has waited for its turn for so long that a person should know."""
        return self._clock.time() - self._waits_since.get(uid, math.inf) >= WAIT_SECONDS

    def note(self, seen: Observation, plan: Plan) -> None:
        """A pass over a resource has decided this."""
        uid, status = seen.resource.uid, plan.status
        if not self._default_is_proven and _proves_default(seen.resource, status):
            self._default_is_proven = True
            for waiting in tuple(self._waiting):
                self._wake(waiting)
        if _waits(status):
            self._waiting[uid] = seen.resource
            self._waits_since.setdefault(uid, self._clock.time())
        else:
            self._waiting.pop(uid, None)
            self._waits_since.pop(uid, None)
        last = status.attempts[-1] if status.attempts else None
        before = self._slots.get(uid)
        if last is None or status.phase in _RESTING:
            self._release(uid)
        elif last.outcome in PLANNED_RESTARTS:
            self._take(seen.resource, last.number)
        elif _is_checked(seen, plan) and not _waits(status):
            self._take(seen.resource, _CHECK)
        elif before is None or (_is_back(before, last, status) and not self._awaits_commit(before, status)):
            self._release(uid)

    def _awaits_commit(self, slot: _Slot, status: Status) -> bool:
        """Whether it may still show that the default image works: ready it is before it has written anything."""
        if self._default_is_proven or not slot.by_default or slot.attempt == _CHECK or status.phase == "Idle":
            return False
        trial = None if status.upgrade is None else status.upgrade.trial
        return trial is not None and trial.failed_at is None

    def forget(self, uid: str) -> None:
        """The resource no longer exists."""
        self._waiting.pop(uid, None)
        self._waits_since.pop(uid, None)
        self._release(uid)

    def _take(self, resource: Resource, attempt: int) -> None:
        before = self._slots.get(resource.uid)
        if before is None or before.attempt != attempt:
            self._slots[resource.uid] = self._slot(resource, attempt)

    def _slot(self, resource: Resource, attempt: int) -> _Slot:
        return _Slot(resource.namespace, attempt, self._clock.time(), resource.has_default_image)

    def _release(self, uid: str) -> None:
        if self._slots.pop(uid, None) is None:
            return
        first: dict[str, Resource] = {}
        for each in self._waiting.values():
            first.setdefault(each.namespace, each)
        following = next((each for each in first.values() if not self.full(each)), None)
        if following is not None:
            del self._waiting[following.uid]
            self._wake(following.uid)


def _proves_default(resource: Resource, status: Status) -> bool:
    """Whether it has committed with the default image."""
    if resource.wanted is None or status.upgrade is None or not resource.has_default_image:
        return False
    return status.upgrade.digest == digest(resource.wanted)


def _is_checked(seen: Observation, plan: Plan) -> bool:
    """Whether the changed spec is being checked, or was, and the restart follows."""
    upgrade = plan.status.upgrade
    preflight = None if upgrade is None else upgrade.preflight
    if any(isinstance(each, CreateCheck) and each.role == "preflight" for each in plan.actions):
        return True
    runs = any(each.state is JobState.RUNNING for each in seen.preflights)
    return preflight is not None and (runs or preflight.result in {PASSED, SKIPPED})


def _has_its_turn(status: Status) -> bool:
    """Whether the changed spec is being checked, or was, and the restart follows, as far as a status says."""
    preflight = None if status.upgrade is None else status.upgrade.preflight
    return preflight is not None and preflight.result in {PENDING, PASSED, SKIPPED} and not _waits(status)


def _is_back(slot: _Slot, last: Attempt, status: Status) -> bool:
    """Whether a later attempt is ready, or the driver that was there before was not stopped after all."""
    ready = any(each.type == READY and each.status == "True" for each in status.conditions or ())
    return slot.attempt in {_CHECK, last.number} or ready


def is_restarting(status: Status, now: datetime) -> bool:
    """Whether a driver was stopped for a planned restart, and the next is not ready yet, as far as a status says."""
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
