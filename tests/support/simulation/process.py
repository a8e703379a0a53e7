"""A process of the pipeline: the real coordinator on the driver, the real write tasks, what the query does around them.

Only Spark between them is replaced: the shuffle by a filter, an executor by an actor that may stall, die, and go on
long after its driver is gone.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.errors import BucketIngestError
from bucketingest.storage import StorageError, StorageUnavailable
from bucketingest.write.coordinator import CoordinatorSettings, InstantCoordinator
from bucketingest.write.errors import ConflictingAttempt, InstantAborted, PositionLost
from bucketingest.write.opening import OpenTable, open_table
from bucketingest.write.outcome import Assignment
from bucketingest.write.plan import WritePlan
from bucketingest.write.shuffle import SHUFFLE_ORDER, SHUFFLE_SCHEMA, pack
from bucketingest.write.source_range import SourceRange
from bucketingest.write.write_status import WriteStatus
from support.simulation.source import DEFINITION, SCHEMA, Row, as_table, offset_of, source_range
from support.simulation.store import Objects
from support.simulation.tasks import Routes, Twin, check_conflict, run_task
from support.simulation.view import View
from support.simulation.world import Actor, World

PIPELINE = "shop/orders"
_ROUNDS_MAX = 3
_TASK_ATTEMPTS_MAX = 4
_STARTS_MAX = 4
_IDLE = 0.3
"""How often the source has nothing for a while after a micro-batch."""
_STOPPED = 0.04
"""How often the process is asked to stop after a micro-batch."""


@dataclass(frozen=True)
class Limits:
    """How one attempt cuts the source and spreads the work; another attempt may do it otherwise."""

    batch_rows: tuple[int, int]
    map_tasks: int
    write_tasks: int
    max_retries: int
    log_block: Literal["parquet", "avro"]
    twins: float
    """How often a task has a speculative twin."""
    skew: timedelta
    """By how much its clock is wrong."""
    commit_interval: timedelta | None
    """None: an instant per micro-batch."""
    locks: bool
    """Whether it holds the table's lock where it changes the timeline: then nobody has a turn meanwhile."""


@dataclass
class Surroundings:
    """What the processes of a schedule share."""

    world: World
    table: Objects
    dead_letters: Objects
    rows: list[Row]
    failures: list[str] = field(default_factory=list)


class Process:
    """One life of the driver. `finished` when it has brought the whole input into the table."""

    def __init__(self, name: str, around: Surroundings, routes: Routes, limits: Limits) -> None:
        self.name = name
        self.finished = False
        self.ended: str | None = None
        self._around = around
        self._world = around.world
        self._routes = routes
        self._limits = limits

    def live(self, actor: Actor) -> None:
        """What the process does, until the input's end, an error, or its death."""
        try:
            self._ingest(actor)
        except BucketIngestError as error:
            self.ended = f"{type(error).__name__}: {error}"
            self._world.note(self.name, "ends with", self.ended)
            self._around.failures.append(self.ended)

    def _clock(self) -> datetime:
        return self._world.now() + self._limits.skew

    def _ingest(self, actor: Actor) -> None:
        around, limits = self._around, self._limits
        opened = open_table(View(around.table, self._world, actor), DEFINITION, SCHEMA, has_deletes=True)
        settings = CoordinatorSettings(
            PIPELINE,
            limits.write_tasks,
            limits.max_retries,
            View(around.dead_letters, self._world, actor),
            commit_interval=limits.commit_interval,
            lock=(lambda: self._world.atomically(actor)) if limits.locks else nullcontext,
            clock=self._clock,
        )
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
        """What one query of the process does: start where the table is, and go on to the input's end."""
        rng, total = self._world.rng, len(self._around.rows)
        start = coordinator.start()
        self._world.note(self.name, "starts", f"{start.verdict}: {start.reason}")
        position = 0 if start.position is None else offset_of(start.position.end)
        batch = start.replay
        while batch is not None or position < total:
            if batch is None:
                batch = source_range(position, min(total, position + rng.randint(*self._limits.batch_rows)), self.name)
            self._run(actor, opened, coordinator, batch)
            position, batch = offset_of(batch.end), None
            if rng.random() < _IDLE:
                coordinator.commit_if_due()
            if rng.random() < _STOPPED:  # gracefully, as by SIGTERM
                coordinator.commit_open()
                self._world.note(self.name, "stopped")
                return
        coordinator.commit_open()
        self.finished = True
        self._world.note(self.name, "finished")

    def _run(self, actor: Actor, opened: OpenTable, coordinator: InstantCoordinator, batch: SourceRange) -> None:
        start, end = offset_of(batch.start or ""), offset_of(batch.end)
        rows = self._around.rows[start:end]
        for rounds_left in reversed(range(_ROUNDS_MAX)):
            self._world.note(self.name, "micro-batch", f"{start} to {end}")
            try:
                outcome = coordinator.run(batch, lambda assignment: self._write(actor, opened, rows, assignment))
            except (InstantAborted, ConflictingAttempt, StorageUnavailable) as error:
                if isinstance(error, ConflictingAttempt):
                    check_conflict(error, self._world)
                self._world.note(self.name, "again", str(error))
                if not rounds_left or (isinstance(error, StorageUnavailable) and self._world.rng.random() < 0.5):
                    raise
            else:
                what = "written" if outcome.commit is None else "committed"
                self._world.note(self.name, what, f"{start} to {end} in {outcome.instant_time}")
                return

    def _write(self, actor: Actor, opened: OpenTable, rows: list[Row], assignment: Assignment) -> list[WriteStatus]:
        """What the engine does with a micro-batch: map tasks, shuffle, write tasks."""
        packed = self._packed(rows, self._plan("packs", opened, assignment))
        shares = [
            packed.filter(pc.equal(packed["route"], task)).sort_by([(name, "ascending") for name in SHUFFLE_ORDER])
            for task in range(self._limits.write_tasks)
        ]
        statuses: list[WriteStatus] = []
        for task, share in enumerate(shares):
            twin = None
            if self._world.rng.random() < self._limits.twins:
                twin = self._spawn_twin(opened, assignment, task, share)
            own = self._task(actor, opened, assignment, task, share)
            statuses += twin.statuses if twin and twin.statuses and self._world.rng.random() < 0.5 else own
        return statuses

    def _task(
        self, actor: Actor, opened: OpenTable, assignment: Assignment, task: int, share: pa.Table
    ) -> list[WriteStatus]:
        """A write task, repeated after failures as the engine does."""
        plan = self._plan(self.name, opened, assignment)
        self._route(self.name, actor)
        for attempts_left in reversed(range(_TASK_ATTEMPTS_MAX)):
            try:
                return run_task(share, plan, task)
            except StorageError:
                if not attempts_left:
                    raise
        raise AssertionError

    def _spawn_twin(self, opened: OpenTable, assignment: Assignment, task: int, share: pa.Table) -> Twin:
        name = f"{self.name} task {task} of {assignment.instant_time}/{assignment.sequence} twin {self._world.steps}"
        twin = Twin(self._world, share, self._plan(name, opened, assignment), task)
        actor = self._world.spawn(name, twin.live, starts_in=self._world.rng.choice((0, 0, 0, 30, 200)))
        self._route(name, actor)
        return twin

    def _route(self, name: str, actor: Actor) -> None:
        self._routes.add(f"table of {name}", View(self._around.table, self._world, actor))
        self._routes.add(f"dead letters of {name}", View(self._around.dead_letters, self._world, actor))

    def _packed(self, rows: list[Row], plan: WritePlan) -> pa.Table:
        table, count = as_table(rows), self._limits.map_tasks
        share = -(-table.num_rows // count)
        parts = [table.slice(task * share, share).to_batches() for task in range(count)]
        return pa.Table.from_batches(
            [batch for task, part in enumerate(parts) for batch in pack(part, plan, task)], SHUFFLE_SCHEMA
        )

    def _plan(self, name: str, opened: OpenTable, assignment: Assignment) -> WritePlan:
        return WritePlan(
            table_url=f"table of {name}",
            dead_letters_url=f"dead letters of {name}",
            storage_options={},
            pipeline=PIPELINE,
            instant_time=assignment.instant_time,
            sequence=assignment.sequence,
            schema=opened.row_schema,
            block_schema_json=opened.block_schema_json,
            rules=opened.rules,
            log_block=self._limits.log_block,
            memory_bytes=64 * 1024**2,
            tasks=self._limits.write_tasks,
            file_ids=assignment.file_ids,
            partitions=assignment.partitions,
        )
