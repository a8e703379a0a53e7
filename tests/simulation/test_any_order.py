"""Lives of the pipeline, of other writers and of the rollback command in any order, each dying at any storage call, two
of them at the same time: hypothesis looks for the shortest row of them that goes wrong.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.simulation.checker import Ended, check_end, check_moment
from support.simulation.hudi_writer import HudiHabits, HudiWriter
from support.simulation.process import Limits, Process, Surroundings
from support.simulation.reader import read
from support.simulation.rollback_command import RollbackCommand
from support.simulation.source import draw_rows
from support.simulation.store import Objects
from support.simulation.tasks import Routes, installed
from support.simulation.world import Chances, World

DEATHS = st.none() | st.integers(0, 120)
"""Storage calls that an actor makes before it dies; None: it lives to its end."""
INTERVALS = st.sampled_from([None, 30, 5000])
KINDS = st.sampled_from(["process", "hudi", "eager hudi", "rollback command"])


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(0, Chances(), faults=0)
        self.table, letters = (
            Objects(url, lambda: (self.world.steps, self.world.now()), self.world.violation)
            for url in ("sim://table", "sim://letters")
        )
        self.around = Surroundings(self.world, self.table, letters, draw_rows(random.Random(1), 12))
        self.routes = Routes()
        self.names = iter(range(10**6))
        self.hudi_writers: list[HudiWriter] = []
        self.installed = ExitStack()
        self.installed.enter_context(installed(self.routes, self.world.now))

    @rule(interval=INTERVALS, dies_in=DEATHS)
    def the_pipeline_runs(self, interval: int | None, dies_in: int | None) -> None:
        self.spawn("process", dies_in, interval)
        self.run_all()

    @rule(kind=KINDS, dies_in=DEATHS)
    def somebody_else_comes(self, kind: str, dies_in: int | None) -> None:
        self.spawn(kind, dies_in)
        self.run_all()

    @rule(kinds=st.tuples(KINDS, KINDS), deaths=st.tuples(DEATHS, DEATHS), interval=INTERVALS, turns=st.integers(0, 99))
    def two_at_the_same_time(
        self, kinds: tuple[str, str], deaths: tuple[int | None, int | None], interval: int | None, turns: int
    ) -> None:
        self.world.rng = random.Random(turns)
        self.world.chances = Chances(switch=0.1)
        for kind, dies_in in zip(kinds, deaths, strict=True):
            self.spawn(kind, dies_in, interval)
        self.run_all()
        self.world.chances = Chances()

    @rule(count=st.integers(1, 6))
    def more_rows_come(self, count: int) -> None:
        first = len(self.around.rows)
        self.around.rows += draw_rows(random.Random(first), first + count)[first:]

    @invariant()
    def readers_see_a_beginning_of_the_input(self) -> None:
        assert list(check_moment(self.contents(self.table), self.around.rows)) == []

    def teardown(self) -> None:
        finished = 0
        while finished < 2:  # a process may be asked to stop
            process = self.spawn("process", None)
            self.run_all()
            assert isinstance(process, Process)
            assert process.ended is None
            finished += process.finished
        self.installed.close()
        objects = self.contents(self.table)
        found = read(objects)
        tried = {instant: row for writer in self.hudi_writers for instant, row in writer.tried.items()}
        ended = Ended(
            objects=objects,
            letters=self.contents(self.around.dead_letters),
            rows=self.around.rows,
            foreign_rows=[row for i, row in tried.items() if i in found.completed and i not in found.rolled_back],
            foreign_instants=frozenset(tried),
            others=bool(self.hudi_writers),
        )
        assert list(check_end(ended)) == []

    def spawn(self, kind: str, dies_in: int | None, interval: int | None = None) -> object:
        name = f"{kind} {next(self.names)}"
        life: Process | HudiWriter | RollbackCommand
        if kind == "process":
            pause = None if interval is None else timedelta(milliseconds=interval)
            limits = Limits((3, 6), 1, 2, 0, "parquet", 0.0, timedelta(0), pause, locks=False)
            life = Process(name, self.around, self.routes, limits)
        elif kind == "rollback command":
            life = RollbackCommand(name, self.world, self.table)
        else:
            habits = HudiHabits(eager=kind == "eager hudi", commits=True, late_rollbacks=False)
            life = HudiWriter(name, self.world, self.table, habits)
            self.hudi_writers.append(life)
        self.world.spawn(name, life.live).dies_in = dies_in
        return life

    def run_all(self) -> None:
        self.world.run(lambda: None)
        assert self.world.violations == []

    @staticmethod
    def contents(objects: Objects) -> dict[str, bytes]:
        return {path: stored.content for path, stored in objects.objects.items()}


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=8)
