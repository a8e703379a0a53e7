"""One schedule: what a seed says happens, run to its end, and judged."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from support.simulation.checker import Ended, check_end, check_moment
from support.simulation.hudi_writer import HudiHabits, HudiWriter
from support.simulation.process import Limits, Process, Surroundings
from support.simulation.reader import read
from support.simulation.rollback_command import RollbackCommand
from support.simulation.source import draw_rows
from support.simulation.store import Objects
from support.simulation.tasks import Routes, installed
from support.simulation.world import Actor, Chances, World

_FAULTS_MAX: Final = 24
_PROCESSES_MAX: Final = 40
_CALM_AFTER: Final = 20
"""Processes after which no more faults happen: then one must get through."""
_LAST_STARTS: Final = 2
"""How often the pipeline starts once more when all is done: it finds what there is to sweep."""
_FAILURES_MAX: Final = 4
"""How many processes in a row may fail without any fault."""

_KINDS: Final = {
    "crashes": Chances(crash=0.012, switch=0.005),
    "many crashes": Chances(crash=0.05, switch=0.005),
    "unavailable": Chances(unavailable=0.03, crash=0.002, switch=0.005),
    "zombies": Chances(stall=0.02, crash=0.003, switch=0.05),
    "late": Chances(late=0.03, crash=0.004, stall=0.003, switch=0.02),
    "lists": Chances(stale_list=0.3, torn_list=0.3, stall=0.005, crash=0.008, switch=0.03),
    "everything": Chances(crash=0.006, unavailable=0.006, late=0.006, stall=0.006, switch=0.05, stale_list=0.1,
                          torn_list=0.1),
}  # fmt: skip

_COUNTED: Final = (
    "crash at",
    "unavailable at",
    "late",
    "stalls",
    "stale list",
    "pages of a list",
    "position lost",
    "leaps",
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a schedule."""

    seed: int
    kind: str
    violations: list[str]
    steps: list[str]
    counts: Counter[str]
    """How often what happened."""

    @property
    def report(self) -> str:
        """For a person: what is wrong, how it came, how to see it again."""
        return "\n".join(
            [
                f"seed {self.seed} ({self.kind}): {len(self.violations)} violations",
                *(f"  ! {violation}" for violation in self.violations[:12]),
                "last steps:",
                *(f"  {step}" for step in self.steps),
                f"again: make simulate SEED={self.seed}",
            ]
        )


def run_schedule(seed: int, *, steps_shown: int = 60) -> Verdict:
    """Run the schedule of a seed in this process and judge it."""
    return Schedule(seed).run(steps_shown)


class Schedule:
    """The pipeline's processes come and go, other writers visit, until the input is in the table; then it is judged."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        rng = random.Random(seed)
        self._kind = rng.choice(list(_KINDS))
        self._world = World(f"schedule {seed}", _KINDS[self._kind], faults=rng.randint(1, _FAULTS_MAX))
        rows = draw_rows(rng, rng.randint(8, 30))
        self._table = self._objects("sim://table")
        self._around = Surroundings(self._world, self._table, self._objects("sim://letters"), rows)
        self._routes = Routes()
        self._batch_rows = rng.choice(((1, 4), (3, 6), (4, 9)))
        self._log_block = rng.choice(("avro", "parquet", "parquet", "parquet"))
        self._twins = rng.choice((0.0, 0.1, 0.4))
        self._visits = rng.choice((0, 0, 1, 2, 4))
        self._interval_ms = rng.choice((None, 30, 100, 5000))
        self._late_rollbacks = rng.random() < 0.3
        if self._late_rollbacks:
            self._visits = max(self._visits, rng.choice((1, 3)))
        self._locks = rng.random() < 0.3
        self._leaps = rng.choice((0, 0, 0, 2))
        self._processes: list[Process] = []
        self._current: Actor | None = None
        self._hudi_writers: list[HudiWriter] = []
        self._commands = 0
        self._failed_in_calm = 0
        self._extra_restarts = rng.choice((0, 0, 1, 3))

    def run(self, steps_shown: int) -> Verdict:
        """Run and judge."""
        world = self._world
        with installed(self._routes, world.now):
            try:
                world.run(self._between_turns)
                if not world.violations:
                    self._come_to_rest()
            finally:
                world.end()
        if not world.violations:
            for found in check_end(self._ended()):
                world.violation(found)
        steps = [f"{step:6} {actor:28} {what:14} {detail}" for step, actor, what, detail in world.log]
        return Verdict(
            self.seed,
            self._kind,
            world.violations,
            steps[-steps_shown:],
            self._counts(),
        )

    def _counts(self) -> Counter[str]:
        table = read(self._contents(self._table))
        counts = Counter({what: self._world.counts[what] for what in _COUNTED})
        counts.update(
            {
                "processes": len(self._processes),
                "storage calls": self._world.steps,
                "instants completed": len(table.completed),
                "instants rolled back": len(table.rolled_back),
                "of those after completion": len(table.rolled_back & table.completed.keys()),
            }
        )
        return counts

    def _objects(self, url: str) -> Objects:
        return Objects(url, lambda: (self._world.steps, self._world.now()), self._world.violation)

    def _between_turns(self) -> None:
        """What the world around does: starts the pipeline anew, lets other writers come, looks at the table."""
        rng, current = self._world.rng, self._current
        if self._visits and rng.random() < (0.4 if self._world.watched else 0.05):
            self._visits -= 1
            self._visit()
        if current is None or current.done:
            if self._processes and self._processes[-1].finished:
                return
            self._start_process()
        elif current.wakes_at > self._world.steps and rng.random() < 0.5:
            self._start_process()  # it is taken for dead, and is not
        elif self._extra_restarts and rng.random() < 0.01:
            self._extra_restarts -= 1
            self._start_process()
        elif self._leaps and rng.random() < 0.02 and self._world.leap(timedelta(hours=rng.choice((1, 30)))):
            self._leaps -= 1
        if rng.random() < 0.02 and not self._late_rollbacks:
            self._look()

    def _start_process(self) -> None:
        world = self._world
        if self._processes and world.faults_left <= 0 and self._processes[-1].ended:
            self._failed_in_calm += 1
            if self._failed_in_calm > _FAILURES_MAX:
                world.violation(f"does not recover: {self._processes[-1].ended}")
                return
        if len(self._processes) >= _CALM_AFTER:
            world.faults_left = 0
        if len(self._processes) >= _PROCESSES_MAX:
            world.violation(f"does not get through in {_PROCESSES_MAX} processes: {self._around.failures[-3:]}")
            return
        process = Process(f"process {len(self._processes) + 1}", self._around, self._routes, self._limits())
        self._processes.append(process)
        self._current = world.spawn(process.name, process.live)

    def _limits(self) -> Limits:
        rng = self._world.rng
        return Limits(
            batch_rows=self._batch_rows,
            map_tasks=rng.choice((1, 1, 2)),
            write_tasks=rng.choice((1, 2)),
            max_retries=rng.choice((0, 2)),
            log_block="parquet" if self._log_block == "parquet" else "avro",
            twins=self._twins,
            skew=timedelta(milliseconds=rng.choice((0, 0, 0, -1500, 2000))),
            locks=self._locks,
            commit_interval=None if self._interval_ms is None else timedelta(milliseconds=self._interval_ms),
        )

    def _visit(self) -> None:
        rng = self._world.rng
        if rng.random() < 0.2:
            self._commands += 1
            command = RollbackCommand(f"rollback command {self._commands}", self._world, self._table)
            self._world.spawn(command.name, command.live)
            return
        eager = rng.random() < 0.6
        habits = HudiHabits(eager, commits=not eager or rng.random() < 0.5, late_rollbacks=self._late_rollbacks)
        writer = HudiWriter(f"hudi {len(self._hudi_writers) + 1}", self._world, self._table, habits)
        self._hudi_writers.append(writer)
        self._world.spawn(writer.name, writer.live)

    def _look(self) -> None:
        for found in check_moment(self._contents(self._table), self._around.rows):
            self._world.violation(found)

    def _come_to_rest(self) -> None:
        """Every request has landed, nobody is left; one more process finds what there is to sweep."""
        world = self._world
        world.land_late(all_of_them=True)
        world.chances = replace(Chances(), switch=1e-9)
        world.faults_left = 0
        self._visits = 0
        starts = 0
        while starts < _LAST_STARTS:
            self._start_process()
            world.run(lambda: None)
            last = self._processes[-1]
            if last.ended:
                world.violation(f"a start after all is done fails: {last.ended}")
            if world.violations:
                return
            starts += last.finished  # it may have been stopped

    def _ended(self) -> Ended:
        objects = self._contents(self._table)
        tried = {
            instant: row
            for writer in self._hudi_writers
            for instant, row in writer.tried.items()
            if self._table.creators.get(f".hoodie/timeline/{instant}.deltacommit.requested", writer.name) == writer.name
        }
        table = read(objects)
        return Ended(
            objects=objects,
            letters=self._contents(self._around.dead_letters),
            rows=self._around.rows,
            foreign_rows=[row for i, row in tried.items() if i in table.completed and i not in table.rolled_back],
            foreign_instants=frozenset(tried),
            others=bool(self._hudi_writers),
        )

    @staticmethod
    def _contents(objects: Objects) -> dict[str, bytes]:
        return {path: stored.content for path, stored in objects.objects.items()}
