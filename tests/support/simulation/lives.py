"""Processes of the pipeline, one after the other: how each is started, and what a person edits in between."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Final

from support.simulation.events import Arranged
from support.simulation.features import Features
from support.simulation.job.process import SKEWS, Limits, Process
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import Routes
from support.simulation.spec import AMPLE, SCARCE, JobSpec, Transform
from support.simulation.world import Actor

_PROCESSES_MAX: Final = 40
_CALM_AFTER: Final = 20
"""Processes after which no more faults happen: then one must succeed."""
_MANY: Final = 20
"""So many times more where each row is an instant, and all may come again."""
_WRONG_CLOCK: Final = 1
"""Which process has a wrong clock, if one has."""
_NO_PROPERTIES: Final = "hoodie.properties is missing"
"""What ends a process while another writer replaces the file; it may be back by the next start."""
_FAILURES_MAX: Final = 4
"""How many processes in a row may fail without any fault."""


class Lives:
    """All processes of a schedule."""

    def __init__(
        self,
        rng: random.Random,
        around: Surroundings,
        features: Features,
        arranged: Arranged,
        *,
        is_global: bool = False,
    ) -> None:
        self.processes: list[Process] = []
        self.current: Actor | None = None
        """The newest one."""
        self.routes = Routes()
        self._around, self._world = around, around.world
        self._features, self._arranged = features, arranged
        # Of few rows, two queries send none to the same file group: then no file shows that they differ.
        self._batch_rows = rng.choice(((1, 4), (3, 6), (4, 9)) if features.is_fixed else ((1, 2), (1, 3), (3, 6)))
        self.spec = JobSpec(
            transform=Transform("time" if features.sql_uses_time and not is_global else "key"),
            log_block="avro" if rng.random() < 0.25 else "parquet",
            memory_bytes=SCARCE if rng.random() < 0.05 else AMPLE,
        )
        # The judge knows places, not what moves: here keys stay, and all else happens to them.
        self._edits = [edit for edit in features.edits if not (is_global and edit == "sql")]
        self._map_tasks, self._write_tasks = rng.choice((1, 1, 2)), rng.choice((1, 2))
        self._processes_max = _PROCESSES_MAX
        self._twins = rng.choice((0.0, 0.1, 0.4))
        self._interval_ms = rng.choice((None, 30, 100, 100 if features.serves else 5000))
        if arranged.many_instants:
            self._batch_rows, self._interval_ms = (1, 1), None
            self._processes_max, self._world.steps_max = _MANY * _PROCESSES_MAX, 2 * _MANY * self._world.steps_max
        self.locks = features.needs_lock or rng.random() < 0.3
        """Whether they hold the table's lock while they change the timeline."""
        self._failed_in_calm = 0

    @property
    def is_finished(self) -> bool:
        """Whether the last one has brought the whole input into the table."""
        return bool(self.processes) and self.processes[-1].finished

    def start(self, *, edited: float = 0.3, excused: bool = False) -> None:
        """The pipeline starts again. `edited`: the probability of an edited spec. `excused`: what comes from outside
        may have ended the last one.
        """
        world, processes = self._world, self.processes
        excused = excused or self.was_ahead or bool(processes and _NO_PROPERTIES in (processes[-1].ended or ""))
        if processes and max(world.faults_left, world.aims_left) <= 0 and processes[-1].ended and not excused:
            self._failed_in_calm += 1
            if self._failed_in_calm > _FAILURES_MAX:
                world.violation(f"does not recover: {processes[-1].ended}")
                return
        if len(processes) >= _CALM_AFTER:
            world.faults_left = world.aims_left = 0
        if len(processes) >= self._processes_max:
            world.violation(f"does not get through in {self._processes_max} processes: {self._around.failures[-3:]}")
            return
        if self._edits and processes and world.rng.random() < edited:
            edit = self._edits.pop(0)
            self.spec = self.spec.edited(edit, world.rng)
            world.note("person", "edits", f"{edit}: {self.spec}")
        if self._features.checkpoints_are_lost and world.rng.random() < 0.4:
            self._around.checkpoints.clear()
        process = Process(f"process {len(processes) + 1}", self._around, self.routes, self.limits(), self.spec)
        processes.append(process)
        self.current = world.spawn(process.name, process.live)

    def limits(self) -> Limits:
        """Those of the next one."""
        rng, clocks = self._world.rng, self._features.clocks_are_set
        ahead = self._arranged.ahead if len(self.processes) == _WRONG_CLOCK else None
        other = rng.random() < 0.2  # the cluster has another size today
        return Limits(
            batch_rows=self._batch_rows,
            map_tasks=rng.choice((1, 2)) if other else self._map_tasks,
            write_tasks=rng.choice((1, 2)) if other else self._write_tasks,
            max_retries=rng.choice((0, 2)),
            twins=self._twins,
            skew=timedelta(
                milliseconds=rng.choice(SKEWS if clocks else (0, 0, 0, -1500, 0 if self._features.serves else 2000))
            ),
            ahead=ahead,
            locks=self.locks,
            commit_interval=None if self._interval_ms is None else timedelta(milliseconds=self._interval_ms),
            leaps=self._arranged.leaps,
            clears_up=self._arranged.days > 0,
            clock_is_set=clocks,
            serves=self._features.serves,
        )

    @property
    def was_ahead(self) -> bool:
        """Whether the last process had a wrong clock, and so a reason to end."""
        return self._arranged.ahead is not None and len(self.processes) == _WRONG_CLOCK + 1
