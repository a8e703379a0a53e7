"""A process of the pipeline: the real coordinator on the driver, the real write tasks, what the query does around them.

Only Spark between them is replaced: the shuffle by a filter, an executor by an actor that may stall, die, and continue
long after its driver has ended.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.lease.store_clock import StoreClock
from bucketingest.storage import StorageUnavailable
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, CoordinatorSettings
from bucketingest.write.errors import ConflictingAttempt, InstantAborted, PositionLost
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.open_table import OpenTable, open_table
from bucketingest.write.rows.write_status import WriteStatus
from support.simulation.job.engine import Engine
from support.simulation.job.services import OwnServices, ServiceRules
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import Routes
from support.simulation.source import SCHEMA
from support.simulation.spec import JobSpec, Work
from support.simulation.topic import offsets, position
from support.simulation.view import View
from support.simulation.world import Actor

_ROUNDS_MAX: Final = 3
_STARTS_MAX: Final = 4
_IDLE: Final = 0.3
"""How often the source has nothing for a while after a micro-batch."""
_LONG_IDLE: Final = 0.3
_STOPPED: Final = 0.04
"""How often the process gets a stop request after a micro-batch."""
_SERVED: Final = 0.7
"""How often table services have their step after a micro-batch."""
_CLOCK_SET: Final = 0.15
"""How often the wall clock is set after a micro-batch, where clocks are."""
_AHEAD_AT_ONCE: Final = 0.3
SKEWS: Final = (-120_000, -5_000, 0, 0, 3_000, 120_000)
"""By how many milliseconds a clock may be wrong."""


@dataclass(frozen=True)
class Limits:
    """How one attempt cuts the source and spreads the work; another attempt may do it differently."""

    batch_rows: tuple[int, int]
    map_tasks: int
    write_tasks: int
    max_retries: int
    twins: float
    """How often a task has a speculative twin."""
    skew: timedelta
    """By how much its clock is wrong."""
    commit_interval: timedelta | None
    """None: an instant per micro-batch."""
    locks: bool
    """Whether it holds the table's lock while it changes the timeline: then no other actor has a turn."""
    serves: ServiceRules | None = None
    """What its table services keep; None: it has none."""
    clears_up: bool = False
    """Whether its services do all that is due when the source has nothing more."""
    leaps: tuple[timedelta, ...] = ()
    """How long the source may have nothing after a micro-batch."""
    ahead: timedelta | None = None
    """By how much its clock is wrong from some moment on."""
    clock_is_set: bool = False
    """Whether its wall clock goes back and forth while it runs."""


class Process:
    """One life of the driver. `finished` when it has brought the whole input into the table."""

    def __init__(
        self, name: str, around: Surroundings, routes: Routes, limits: Limits, spec: JobSpec | None = None
    ) -> None:
        self.name = name
        self.spec = spec or JobSpec()
        self.finished = False
        self.ended: str | None = None
        self.error: BucketIngestError | None = None
        self._around = around
        self._world = around.world
        self._routes = routes
        self._limits = limits
        self._skew = limits.skew
        self._store_clock = StoreClock(around.table.url, self._clock, around.world.forward)
        self._engine = Engine(
            self, around, routes, map_tasks=limits.map_tasks, write_tasks=limits.write_tasks, twins=limits.twins
        )
        self._services: OwnServices | None = None
        self._fingerprint = repr((self.spec, limits.map_tasks, limits.write_tasks))
        self._assignment: Assignment | None = None
        around.pipeline = self.spec.pipeline

    def live(self, actor: Actor) -> None:
        """Runs the process, until the input's end, an error, or its death."""
        try:
            self._ingest(actor)
        except BucketIngestError as error:
            self.error = error
            self.ended = f"{type(error).__name__}: {error}"
            self._world.note(self.name, "ends with", self.ended)
            self._around.failures.append(self.ended)

    def _clock(self) -> datetime:
        return self._world.now() + self._skew

    def _check_lease(self) -> None:
        """As the lease's renewals do, it compares the clock with the storage's. Raises FencedOut, ClockError."""
        self._around.check_lease(self.spec.pipeline)
        self._store_clock.check()

    def _now_ms(self) -> int:
        return int(self._clock().timestamp() * 1000)

    def _lock_of(self, actor: Actor) -> Lock:
        return (lambda: self._world.atomically(actor)) if self._limits.locks else nullcontext

    def _ingest(self, actor: Actor) -> None:
        around, limits, spec = self._around, self._limits, self.spec
        self._store_clock.written(self._world.now(), self._world.forward())
        if limits.ahead is not None and self._world.rng.random() < _AHEAD_AT_ONCE:
            self._skew = limits.ahead
        self._check_lease()
        opened = open_table(around.view(actor), around.definition, SCHEMA, has_deletes=True)
        settings = CoordinatorSettings(
            spec.pipeline,
            limits.write_tasks,
            limits.max_retries,
            View(around.letters[spec.dead_letters], self._world, actor),
            commit_interval=limits.commit_interval,
            lock=self._lock_of(actor),
            check_lease=self._check_lease,
            clock=self._clock,
            forward=self._world.forward,
            work=self._fingerprint,
            open_letters=lambda url: around.open_letters(url, actor, self._routes.views),
        )
        if limits.serves is not None:
            self._services = OwnServices(
                self.name,
                around,
                limits.serves,
                lock_of=self._lock_of,
                check_lease=self._check_lease,
                clock=self._clock,
            )
            self._services.settle(actor)
        coordinator = InstantCoordinator(opened, settings)
        self._world.note(self.name, "claimed", f"epoch {coordinator.epoch}")
        for starts_left in reversed(range(_STARTS_MAX)):
            try:
                self._query(actor, opened, coordinator)
            except PositionLost as error:
                self._world.note(self.name, "position lost", str(error))
                if not starts_left:
                    raise
            else:
                return

    def _query(self, actor: Actor, opened: OpenTable, coordinator: InstantCoordinator) -> None:
        """Runs one query of the process: it starts at the table's position, and continues to the input's end."""
        rng, total = self._world.rng, len(self._around.rows)
        start = coordinator.start()
        self._world.note(self.name, "starts", f"{start.verdict}: {start.reason}")
        at, topic = position({0: 0}) if start.position is None else start.position.end, self._around.topic
        batch = None if start.replay is None else self._replayed(start.replay)
        while batch is not None or topic.numbers(at, topic.end(total)):
            if batch is None:
                batch = self._next(at, topic.next(rng, at, rng.randint(*self._limits.batch_rows), total))
            self._run(actor, opened, coordinator, batch)
            at, batch = batch.end, None
            if self._limits.clock_is_set and rng.random() < _CLOCK_SET:
                self._skew = timedelta(milliseconds=rng.choice(SKEWS))
                self._world.note(self.name, "clock is", f"wrong by {self._skew}")
            if self._limits.ahead is not None and rng.random() < _CLOCK_SET:
                self._skew = self._limits.ahead
                self._world.note(self.name, "clock is", f"ahead by {self._skew}")
            if self._services is not None and rng.random() < _SERVED:
                for _ in range(rng.choice((1, 1, 2, 4))):
                    self._services.step(actor, between=coordinator.inflight is None)
            if self._limits.leaps and rng.random() < _LONG_IDLE:
                self._be_idle(coordinator)
            if rng.random() < _IDLE:
                coordinator.commit_if_due()
            if rng.random() < _STOPPED:  # gracefully, as by SIGTERM
                coordinator.commit_open()
                self._world.note(self.name, "stopped")
                return
        coordinator.commit_open()
        if self._services is not None:
            if self._limits.clears_up:
                self._services.clear_up(actor)
            self._services.step(actor, to_the_end=True)
        self.finished = True
        self._world.note(self.name, "finished")

    def _be_idle(self, coordinator: InstantCoordinator) -> None:
        """Hours without a row: first the instant that is open becomes due."""
        if self._limits.commit_interval is not None:
            self._world.leap(self._limits.commit_interval)
            coordinator.commit_if_due()
        self._world.leap(self._world.rng.choice(self._limits.leaps))

    def _next(self, start: str, end: str) -> SourceRange:
        """A new micro-batch: Spark's checkpoint has its range and its time before anything runs."""
        now = self._now_ms()
        self._around.checkpoints[self.name, start, end] = now
        number = sum(offsets(start).values())
        return SourceRange("kafka", start, end, query_id=self.name, batch_id=number, timestamp_ms=now)

    def _replayed(self, batch: SourceRange) -> SourceRange:
        """A micro-batch that comes again: its time is that of the checkpoint, else that of the table, else now."""
        start, end = batch.start, batch.end
        known = self._around.checkpoints.get((batch.query_id, start, end))
        time = known or batch.timestamp_ms or self._now_ms()
        self._around.checkpoints[batch.query_id, start, end] = time
        return replace(batch, timestamp_ms=time)

    def _run(self, actor: Actor, opened: OpenTable, coordinator: InstantCoordinator, batch: SourceRange) -> None:
        numbers = self._around.topic.numbers(batch.start, batch.end)
        work = Work(numbers, self.spec.transform, batch.timestamp_ms or 0, f"{self._fingerprint}{opened.row_schema}")
        for rounds_left in reversed(range(_ROUNDS_MAX)):
            self._world.note(self.name, "micro-batch", f"{batch.start} to {batch.end}")
            try:
                outcome = coordinator.run(batch, lambda assignment: self._write(actor, opened, work, assignment))
            except (InstantAborted, ConflictingAttempt, StorageUnavailable) as error:
                if isinstance(error, ConflictingAttempt) and self._assignment is not None:
                    self._around.check_conflict(error, self._assignment.instant_time, self._assignment.sequence)
                self._world.note(self.name, "again", str(error))
                if not rounds_left or (isinstance(error, StorageUnavailable) and self._world.rng.random() < 0.5):
                    raise
            else:
                what = "written" if outcome.commit is None else "committed"
                self._world.note(self.name, what, f"{batch.start} to {batch.end} in {outcome.instant_time}")
                return

    def _write(self, actor: Actor, opened: OpenTable, work: Work, assignment: Assignment) -> list[WriteStatus]:
        """What the engine does with a micro-batch, once it is planned."""
        self._assignment = assignment
        self._around.assign(assignment.instant_time, assignment.sequence, work)
        return self._engine.write(actor, opened, work, assignment)
