"""Runs passes: observe, decide, act, and schedule the next; one at a time for a resource, a bounded number in all.

A pass is the operator's only way to do anything for a resource:

    observe   the resource, its pods, Jobs and ConfigMaps from the mirrors, and the driver's own report
    decide    `reconcile`, a pure function: from what was observed to a plan (actions, status, when to look again)
    act       carry out the plan's actions: the status first, then what is independent at the same time

* Nothing is remembered that a decision depends on: `Memory` may be lost at any time, the status is what lasts.
* An event only says *when* to look: the queue holds each resource once, and hands out namespaces in turn, so that a
  tenant with many resources delays nobody.
* Drivers are asked apart, by `poll`: a pod that never answers costs a poller's time, and no pass waits for it.
* A pass that fails is repeated after a growing pause; that of one resource stops no other. After a conflict the
  resource is read from the API server instead of the mirror.
* Leadership is asked again before each call (`act`): a leader that was replaced writes nothing more. What is due then
  stays due: a leader that loses the lease for a moment drops nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from bucketingest.spec.status import Status
from bucketingest_operator.act import Actor
from bucketingest_operator.counts import Counts
from bucketingest_operator.decide.plan import Action, AddFinalizer, CreateRollback, Plan, StartAttempt, WriteStatus
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decision_log import EVENT, record
from bucketingest_operator.kube.api import Api, ApiError, Conflict, NotFound, Object
from bucketingest_operator.kube.kinds import BUCKET_INGESTS
from bucketingest_operator.kube.leaders_api import CreationRefused, NotLeader
from bucketingest_operator.observation import CreationRefusal, Observation, Refusal
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.observe import Observer
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.resource import Resource
from bucketingest_operator.restart_budget import RestartBudget
from bucketingest_operator.work_queue import WorkQueue

log = logging.getLogger(__name__)

WORKERS: Final = 48
"""Passes at the same time. They mostly wait for the API server."""
POLLERS: Final = 64
"""Drivers that are asked at the same time."""
AT_ONCE_MIN: Final = 4
LATE_SECONDS: Final = 1.0
PACE_SECONDS: Final = 1.0
POLL_SECONDS: Final = 3.0
"""A pass waits so long for the driver's answer, which causes one, before it decides without."""
PASS_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 8.0
BACKOFF_CAP: Final = 60.0
NOT_OURS_SECONDS: Final = 60.0
"""What this process may not act on now is due again then: a new leader looks at everything, but none can forget one."""
REFUSED_SECONDS: Final = 5.0
REFUSED_CAP: Final = 120.0
"""First and longest time until a refused creation is tried again."""
_CREATING: Final = (StartAttempt, CreateRollback)
NAMESPACE_TERMINATING_SECONDS: Final = 120.0
"""How long a namespace counts as being deleted after the API server reported it."""


@dataclass(slots=True)
class Refusals:
    """Creations that the API server refused in a row.

    Attributes:
        about: What was wanted: another generation or restart annotation is tried immediately.
        retry_at: By the loop's clock.
    """

    about: object
    message: str
    times: int
    retry_at: float


@dataclass(slots=True)
class Memory:
    """What is kept about a resource from one pass to the next. All of it may be lost."""

    talk: Talk | None = None
    failures: int = 0
    refusals: Refusals | None = None
    counts: Counts = field(default_factory=Counts)
    refused_jobs: dict[str, Refusal] = field(default_factory=dict)  # by role
    wrote: tuple[str, Status] | None = None
    """The version that the last write of a status made, and that status, if the API server did not store all of it."""

    def without_repeats(self, version: str, actions: Sequence[Action]) -> Sequence[Action]:
        """Without a write that has no effect: an older definition drops fields, which are then missed by each pass."""
        first = actions[0] if actions else None
        repeats = isinstance(first, WriteStatus) and self.wrote == (version, first.status)
        return actions[1:] if repeats else actions


@dataclass(frozen=True, slots=True)
class PassMetrics:
    """Metrics callbacks of the passes."""

    duration: Callable[[float], None]
    error: Callable[[], None]


class Passes:
    """Makes passes over the resources that are due, in the namespaces in which this process acts. `restarts_max`:
    planned restarts at the same time.
    """

    def __init__(
        self,
        api: Api,
        inventory: Inventory,
        observer: Observer,
        queue: WorkQueue,
        *,
        acts_in: Callable[[str], bool],
        metrics: PassMetrics,
        restarts_max: int,
    ) -> None:
        self._api = api
        self._inventory = inventory
        self._observer = observer
        self._queue = queue
        self._polls = WorkQueue(queue.group_of)
        self._acts_in = acts_in
        self._metrics = metrics
        self.actor: Actor | None = None
        """Carries out plans; set before the first pass."""
        self.budget = RestartBudget(restarts_max, queue.add, lambda: inventory.namespaces)
        self._at_once = max(WORKERS, POLLERS)
        self._busy = 0
        self._quiet = asyncio.Event()
        self._draining = False
        self._memories: dict[str, Memory] = {}
        self._terminating: dict[str, float] = {}
        self._clock = asyncio.get_running_loop()
        self._began = datetime.now(UTC)

    def memory_of(self, uid: str) -> Memory | None:
        """What is kept about a resource; None before its first pass."""
        return self._memories.get(uid)

    def note_refusal(self, uid: str, refusal: Refusal) -> None:
        """The API server refused a Job of this resource that can wait."""
        self._memories.setdefault(uid, Memory()).refused_jobs[refusal.role] = refusal

    def forget(self, uid: str) -> None:
        """Forget a resource that no longer exists."""
        self._memories.pop(uid, None)
        self._observer.forget(uid)
        self.budget.forget(uid)
        self._queue.discard(uid)
        self._polls.discard(uid)

    def pace(self, late: float) -> None:
        """Choose how many workers go on, by how many seconds the event loop was late. With little processor time many
        of them leave none for the lease: a leader that loses it again and again gets nothing done.
        """
        change = self._at_once // 2 if late > LATE_SECONDS else self._at_once + AT_ONCE_MIN
        self._at_once = min(max(AT_ONCE_MIN, change), max(WORKERS, POLLERS))

    async def poll(self, number: int = 0) -> None:
        """Ask drivers that are due, one after the other, forever: no pass waits for one. `number` as in `work`."""
        while True:
            if number >= self._at_once:
                await asyncio.sleep(PACE_SECONDS)
                continue
            uid = await self._polls.take()
            try:
                resource, memory = self._inventory.get(uid), self._memories.get(uid)
                if resource is not None and memory is not None:
                    if is_ours := self.may_act(resource.namespace):
                        memory.talk = await self._observer.ask(resource, memory.talk)
                    self._queue.add(uid, 0 if is_ours else NOT_OURS_SECONDS)
            except Exception:
                log.exception("a driver could not be asked", extra={"uid": uid})
                self._polls.add(uid, BACKOFF_CAP)
            finally:
                self._polls.done(uid)

    async def work(self, number: int = 0) -> None:
        """Make passes, one after the other, forever. The worker with the highest `number` rests first."""
        while True:
            if number >= self._at_once:
                await asyncio.sleep(PACE_SECONDS)
                continue
            uid = await self._queue.take()
            self._busy += 1
            try:
                resource = self._inventory.get(uid)
                if resource is not None and self.may_act(resource.namespace):
                    await self._pass(resource)
                elif resource is not None:
                    self._queue.add(uid, NOT_OURS_SECONDS)
            finally:
                self._busy -= 1
                self._queue.done(uid)
                self._quiet.set()

    def may_act(self, namespace: str) -> bool:
        """Whether the next call in a namespace may start."""
        return self._acts_in(namespace) and not self._draining

    async def drain(self) -> None:
        """Start no further actions, and wait, for a limited time, for those that run."""
        self._draining = True
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                while self._busy:
                    self._quiet.clear()
                    await self._quiet.wait()

    async def _pass(self, resource: Resource) -> None:
        memory, started = self._memories.setdefault(resource.uid, Memory()), self._clock.time()
        try:
            if self._observer.must_ask(resource, memory.talk):
                self._polls.add(resource.uid)  # its answer causes the pass
                return
            async with asyncio.timeout(PASS_SECONDS):
                after = await self._look_decide_act(resource, memory)
            memory.failures = 0
        except NotLeader as error:
            log.warning("stopped acting", extra={"reason": str(error)})
            after = NOT_OURS_SECONDS
        except (Conflict, NotFound):
            # A user or another writer changed or deleted it: not worth a report, unless it repeats.
            after = await self._read_again(resource, memory)
        except Exception as error:  # noqa: BLE001 - one resource must not stop the others; it is logged and counted
            after = self._failed(resource, memory, error)
        self._metrics.duration(self._clock.time() - started)
        if self._inventory.get(resource.uid) is not None:
            if memory.talk is not None and after > 0:
                self._polls.add(resource.uid, max(after, memory.talk.rest))
                after += POLL_SECONDS
            self._queue.add(resource.uid, after)

    async def _look_decide_act(self, resource: Resource, memory: Memory) -> float:
        """One pass. Returns the seconds until the next."""
        seen, plan = await self._decide(resource, memory, live=False)
        if plan.look_live:
            seen, plan = await self._decide(resource, memory, live=True)
        # Nothing is awaited from the decision to the note: so two passes cannot take the same turn.
        self.budget.note(seen, plan)
        self._log(seen, plan)
        talk = memory.talk
        if talk is not None and talk.report is not None and talk.silent_since is None:
            young = any(pod.created_at >= self._began for pod in seen.drivers if pod.can_run)
            memory.counts.note_report(talk.pod, talk.report, resource.status, from_its_start=young)

        def wrote(action: Action, body: Object) -> None:
            self._inventory.take(body, quiet=True)
            if isinstance(action, WriteStatus):
                stored = self._inventory.get(resource.uid)
                is_whole = stored is None or stored.status == action.status
                memory.wrote = None if is_whole else (body["metadata"]["resourceVersion"], action.status)
                memory.counts.note_status(resource.status, plan.status)

        assert self.actor is not None, "passes started before `actor` was set"
        try:
            with self._inventory.holding(resource.uid):
                await self.actor.act(resource, memory.without_repeats(resource.version, plan.actions), wrote)
        except CreationRefused as error:
            # Not the operator's failure: the next pass reports it.
            self._note_refusal(resource, memory, error)
            return 0
        if any(isinstance(action, _CREATING) for action in plan.actions):
            memory.refusals = None
        if any(isinstance(action, AddFinalizer) for action in plan.actions):
            return 0
        # Passes that started together should not stay together.
        return plan.look_again.total_seconds() * random.uniform(0.8, 1)  # noqa: S311

    async def _decide(self, resource: Resource, memory: Memory, *, live: bool) -> tuple[Observation, Plan]:
        """What is seen, in the copies or live, and what to do about it."""
        over = self._is_terminating(resource.namespace)
        seen, memory.talk = await self._observer.observe(resource, memory.talk, live=live, namespace_terminating=over)
        seen = replace(
            seen,
            refusals=tuple(memory.refused_jobs.values()),
            upgrade_kept=self.actor is None or self.actor.upgrade_kept,
            restarts_full=self.budget.full(resource),
            waits_long=self.budget.waits_long(resource.uid),
            creation_refusal=self._refusal(resource, memory),
        )
        return seen, reconcile(seen)

    def _refusal(self, resource: Resource, memory: Memory) -> CreationRefusal | None:
        """What the API server refused, for a decision about what is wanted now."""
        found = memory.refusals
        if found is None or found.about != _wish(resource):
            return None
        left = max(0.0, found.retry_at - self._clock.time())
        return CreationRefusal(found.message, found.times, timedelta(seconds=left))

    def _note_refusal(self, resource: Resource, memory: Memory, error: CreationRefused) -> None:
        before, wish = memory.refusals, _wish(resource)
        times = before.times + 1 if before is not None and before.about == wish else 1
        wait = min(REFUSED_CAP, REFUSED_SECONDS * 2 ** min(times - 1, 10)) * random.uniform(0.8, 1.2)  # noqa: S311
        memory.refusals = Refusals(wish, error.sentence, times, self._clock.time() + wait)
        who = {"namespace": resource.namespace, "resource": resource.name}
        log.warning("a creation was refused", extra={**who, "error": str(error), "retry_seconds": round(wait)})

    async def _read_again(self, resource: Resource, memory: Memory) -> float:
        memory.failures += 1
        try:
            body = await self._api.get(BUCKET_INGESTS, resource.namespace, resource.name)
        except NotFound:
            self._inventory.forget(resource.uid)
        except ApiError as error:
            return self._failed(resource, memory, error)
        else:
            self._inventory.take(body, quiet=body["metadata"]["uid"] == resource.uid)
            if body["metadata"]["uid"] != resource.uid:
                self._inventory.forget(resource.uid)
        return min(BACKOFF_CAP, 0.05 * 2 ** min(memory.failures, 12))

    def _failed(self, resource: Resource, memory: Memory, error: Exception) -> float:
        memory.failures += 1
        self._metrics.error()
        memory.counts.errors += 1
        who = {"namespace": resource.namespace, "resource": resource.name}
        if isinstance(error, ApiError):
            if error.namespace_terminating:
                self._terminating[resource.namespace] = self._clock.time() + NAMESPACE_TERMINATING_SECONDS
            log.warning("a pass failed", extra={**who, "error": str(error)})
        else:
            log.error("a pass failed", extra=who, exc_info=error)
        return float(min(BACKOFF_CAP, 0.5 * 2 ** min(memory.failures, 10)) * random.uniform(0.8, 1.2))  # noqa: S311

    def _is_terminating(self, namespace: str) -> bool:
        until = self._terminating.get(namespace)
        if until is not None and until < self._clock.time():
            del self._terminating[namespace]
        return namespace in self._terminating

    def _log(self, seen: Observation, plan: Plan) -> None:
        """Log a decision that a user may ask about: not each new commit in the status."""
        before, after = seen.resource.status, plan.status
        if any(not isinstance(each, WriteStatus) or _matters(before) != _matters(after) for each in plan.actions):
            who = {"namespace": seen.resource.namespace, "resource": seen.resource.name}
            log.info(EVENT, extra={**who, **record(seen, plan)})


def _wish(resource: Resource) -> object:
    """What a refused creation was for."""
    upgrade = resource.status.upgrade
    trial = None if upgrade is None else upgrade.trial
    return resource.generation, resource.nonce, resource.deleting, trial is not None and trial.failed_at


def _matters(status: Status) -> object:
    conditions = [(each.type, each.status, each.reason) for each in status.conditions or ()]
    return status.phase, conditions, status.attempts, status.observed_generation
