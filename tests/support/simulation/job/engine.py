"""What Spark does with a micro-batch: map tasks, shuffle, write tasks, each of which may fail or have a twin."""

from __future__ import annotations

from itertools import chain
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.storage import StorageError
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.open_table import OpenTable
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.emptied import deletes_of, slices_to_empty
from bucketingest.write.rows.shuffle import SHUFFLE_ORDER, SHUFFLE_SCHEMA, pack
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.writer import at_owners
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import Routes, Twin, run_task
from support.simulation.source import INPUT_SCHEMA, as_table
from support.simulation.spec import TRUNCATE, JobSpec, Work
from support.simulation.view import View
from support.simulation.world import Actor

_TASK_ATTEMPTS_MAX: Final = 4


class Job(Protocol):
    """The process whose micro-batches these are."""

    name: str
    spec: JobSpec


class Engine:
    """The executors of one process."""

    def __init__(
        self, job: Job, around: Surroundings, routes: Routes, *, map_tasks: int, write_tasks: int, twins: float
    ) -> None:
        self._job = job
        self._around = around
        self._world = around.world
        self._routes = routes
        self._map_tasks, self._write_tasks, self._twins = map_tasks, write_tasks, twins

    def write(self, actor: Actor, opened: OpenTable, work: Work, assignment: Assignment) -> list[WriteStatus]:
        """All tasks of a micro-batch, and what they report."""
        self._route("packs", actor)
        plan = self._plan("packs", opened, assignment)
        table = self._decoded(actor, opened, work, assignment)
        packed = at_owners(self._packed(table, plan), plan)
        shares = [
            packed.filter(pc.equal(packed["route"], task)).sort_by([(name, "ascending") for name in SHUFFLE_ORDER])
            for task in range(self._write_tasks)
        ]
        statuses: list[WriteStatus] = []
        for task, share in enumerate(shares):
            twin = None
            if self._world.rng.random() < self._twins:
                twin = self._spawn_twin(opened, assignment, task, share)
            own = self._task(actor, opened, assignment, task, share)
            statuses += twin.statuses if twin and twin.statuses and self._world.rng.random() < 0.5 else own
        return statuses

    def _decoded(self, actor: Actor, opened: OpenTable, work: Work, assignment: Assignment) -> pa.Table:
        """The rows of a micro-batch; those before a truncate are not read, and what the table has is deleted."""
        rows = work.rows(self._around.rows)
        behind = max((at + 1 for at, row in enumerate(rows) if TRUNCATE in row), default=0)
        table = as_table(rows[behind:])
        if not behind:
            return table
        self._route(self._job.name, actor)  # of this process alone: it reads the table, and others have their turn
        plan = self._plan(self._job.name, opened, assignment)
        files = slices_to_empty(self._around.view(actor), plan.pipeline, plan.instant_time, plan.sequence)
        gone = pa.Table.from_batches(chain.from_iterable(deletes_of(each, plan) for each in files), plan.schema)
        return pa.concat_tables([gone.select(INPUT_SCHEMA.names).cast(INPUT_SCHEMA), table])

    def _task(
        self, actor: Actor, opened: OpenTable, assignment: Assignment, task: int, share: pa.Table
    ) -> list[WriteStatus]:
        """A write task, repeated after failures as the engine does."""
        plan = self._plan(self._job.name, opened, assignment)
        self._route(self._job.name, actor)
        for attempts_left in reversed(range(_TASK_ATTEMPTS_MAX)):
            try:
                return run_task(share, plan, task)
            except StorageError:
                if not attempts_left:
                    raise
        raise AssertionError

    def _spawn_twin(self, opened: OpenTable, assignment: Assignment, task: int, share: pa.Table) -> Twin:
        at = f"{assignment.instant_time}/{assignment.sequence}"
        name = f"{self._job.name} task {task} of {at} twin {self._world.steps}"
        twin = Twin(self._around, share, self._plan(name, opened, assignment), task)
        actor = self._world.spawn(name, twin.live, starts_in=self._world.rng.choice((0, 0, 0, 30, 200)))
        self._route(name, actor)
        return twin

    def _route(self, name: str, actor: Actor) -> None:
        around = self._around
        self._routes.add(f"table of {name}", around.view(actor))
        letters = around.letters[self._job.spec.dead_letters]
        self._routes.add(f"dead letters of {name}", View(letters, self._world, actor))

    def _packed(self, table: pa.Table, plan: WritePlan) -> pa.Table:
        share = -(-table.num_rows // self._map_tasks)
        parts = [table.slice(task * share, share).to_batches() for task in range(self._map_tasks)]
        return pa.Table.from_batches(
            [batch for task, part in enumerate(parts) for batch in pack(part, plan, task)], SHUFFLE_SCHEMA
        )

    def _plan(self, name: str, opened: OpenTable, assignment: Assignment) -> WritePlan:
        spec = self._job.spec
        return WritePlan(
            table_url=f"table of {name}",
            dead_letters_url=f"dead letters of {name}",
            storage_options={},
            pipeline=spec.pipeline,
            instant_time=assignment.instant_time,
            sequence=assignment.sequence,
            schema=opened.row_schema,
            block_schema_json=opened.block_schema_json,
            rules=opened.rules,
            log_block=spec.log_block,
            memory_bytes=spec.memory_bytes,
            tasks=self._write_tasks,
            file_ids=assignment.file_ids,
            partitions=assignment.partitions,
            made_at=assignment.made_at,
        )
