"""Lives of the pipeline, of other writers and of the rollback command in any order, each dying at any storage call, two
of them at the same time: hypothesis searches for the shortest sequence that fails.
"""

from __future__ import annotations

import random
from contextlib import ExitStack
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.simulation.job.process import Limits, Process
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import Routes, installed
from support.simulation.judge.table_checks import Ended, check_end, check_moment
from support.simulation.source import draw_rows
from support.simulation.store import Objects
from support.simulation.world import Chances, World
from support.simulation.writers.hudi_writer import HudiHabits, HudiWriter
from support.simulation.writers.rollback_command import RollbackCommand
from support.simulation.writers.visit import Others

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
        self.around = Surroundings(self.world, self.table, [letters], draw_rows(random.Random(1), 12))
        self.routes = Routes()
        self.names = iter(range(10**6))
        self.others = Others()
        self.came = False
        self.installed = ExitStack()
        self.installed.enter_context(installed(self.routes, self.world))

    @rule(interval=INTERVALS, dies_in=DEATHS)
    def the_pipeline_runs(self, interval: int | None, dies_in: int | None) -> None:
        self.spawn("process", dies_in, interval)
        self.run_all()

    @rule(kind=KINDS, dies_in=DEATHS)
    def another_writer_comes(self, kind: str, dies_in: int | None) -> None:
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
        assert list(check_moment(self.table.contents, self.around.rows, self.around.assigned, self.around.topic)) == []

    def teardown(self) -> None:
        finished = 0
        while finished < 2:  # a process may get a stop request
            process = self.spawn("process", None)
            self.run_all()
            assert isinstance(process, Process)
            assert process.ended is None
            finished += process.finished
        self.installed.close()
        rows = {instant: row for instant, (_, row) in self.others.rows.items()}
        ended = Ended(
            objects=self.table.contents,
            letters=[place.contents for place in self.around.letters],
            rows=self.around.rows,
            assigned=self.around.assigned,
            foreign_rows=rows,
            foreign_instants=rows.keys(),
            others=self.came,
            overtaken=self.table.overtaken,
        )
        assert list(check_end(ended)) == []

    def spawn(self, kind: str, dies_in: int | None, interval: int | None = None) -> object:
        name = f"{kind} {next(self.names)}"
        life: Process | HudiWriter | RollbackCommand
        if kind == "process":
            pause = None if interval is None else timedelta(milliseconds=interval)
            limits = Limits((3, 6), 1, 2, 0, 0.0, timedelta(0), pause, locks=False)
            life = Process(name, self.around, self.routes, limits)
        elif kind == "rollback command":
            life = RollbackCommand(name, self.world, self.table)
        else:
            habits = HudiHabits(eager=kind == "eager hudi", commits=True, late_rollbacks=False)
            life = HudiWriter(name, self.world, self.table, habits, self.others)
            self.came = True
        self.world.spawn(name, life.live).dies_in = dies_in
        return life

    def run_all(self) -> None:
        self.world.run(lambda: None)
        assert self.world.violations == []


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=25, stateful_step_count=8)
