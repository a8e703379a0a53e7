"""One schedule: the events of a seed, run to their end, and judged."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.write.errors import PositionLost, RangeConflict
from support.simulation.events import Arranged, Event, arrange, event_of
from support.simulation.features import draw_features, of_mirror, with_services
from support.simulation.job.local_faults import LocalFaults
from support.simulation.job.new_topic import NewTopicProcess
from support.simulation.job.releases import Releases, compactions_of_two
from support.simulation.job.surroundings import Surroundings
from support.simulation.job.tasks import installed
from support.simulation.judge.changes.watch import TableWatch
from support.simulation.judge.reader import read
from support.simulation.judge.readers import Readers
from support.simulation.judge.rest import overdue
from support.simulation.judge.table_checks import Ended, check_end, check_moment
from support.simulation.lives import Lives
from support.simulation.outlasting import Outlasting
from support.simulation.source import DEFINITION, GLOBAL_DEFINITION, STATE_DEFINITIONS, draw_events, draw_rows, mirrored
from support.simulation.store import Objects
from support.simulation.topic import Topic
from support.simulation.verdict import COUNTED, PAUSES, Verdict
from support.simulation.visitors import Visitors
from support.simulation.world import Chances, World

_FAULTS_MAX: Final = 24
_LAST_STARTS: Final = 2
"""How often the pipeline starts once more at the end: it sweeps late files."""
_DAY: Final = timedelta(hours=30)
_DAYS_KEPT: Final = 4
"""Days of such a length after which nothing old is left. Two pass until a clean may delete what a compaction took over,
and two more if its file group is replaced just before: then it stays, as with Hudi's clean, as long as its file group.
"""
_HEARTBEATS_EXPIRE: Final = timedelta(minutes=3)
_OBJECTS_EXPIRE: Final = timedelta(hours=25)

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


def run_schedule(
    seed: int,
    *,
    steps_shown: int = 60,
    state: bool = False,
    is_global: bool = False,
    mirror: bool = False,
    event: Event | None = None,
) -> Verdict:
    """Run the schedule of a seed in this process and judge it."""
    return Schedule(seed, state=state, is_global=is_global, mirror=mirror, event=event).run(steps_shown)


class Schedule:
    """Processes of the pipeline run, other writers visit, until the input is in the table; then it is judged."""

    def __init__(
        self,
        seed: int,
        *,
        state: bool = False,
        is_global: bool = False,
        mirror: bool = False,
        event: Event | None = None,
    ) -> None:
        """`state`: the table has an index with a state. Then the deletion of a key that the table does not have is
        forgotten, as by a compaction. `mirror`: its rows are change events of a database.
        """
        self.seed = seed
        self._state, self._is_global, self._mirror, self._event = state, is_global, mirror, event
        rng = random.Random(seed)
        features, self._arranged = arrange(with_services(draw_features(rng), seed), event_of(seed, wanted=event), seed)
        if mirror:  # nobody else writes: what a truncate deletes of theirs is not known
            features, self._arranged = of_mirror(draw_features(random.Random(seed)), seed), Arranged()
        self._features = features
        self._kind = rng.choice(list(_KINDS))
        chances = _KINDS[self._kind]
        if "add column" in features.services:  # our completed file may land after the column came, and hide it
            chances = replace(chances, late=0)
        self._world = World(f"schedule {seed}", chances, faults=rng.randint(1, _FAULTS_MAX))
        rows = draw_rows(
            rng, rng.randint(12, 36) if features.serves else rng.randint(8, 30), growing=features.compacts or state
        )
        if self._arranged.rows:
            rows = draw_rows(rng, self._arranged.rows, growing=True, deletes=self._arranged.deletes)
        if mirror:
            rows = draw_events(rng, rng.randint(12, 40))
        self._table = self._objects("sim://table")
        self._world.aims_left, self._world.outlived = features.service_faults, features.outlived
        self._world.on_turn = Releases(seed).turn
        letters = [self._objects(f"sim://letters-{number}") for number in (1, 2)]
        definition = GLOBAL_DEFINITION if is_global else STATE_DEFINITIONS[seed % 2] if state else DEFINITION
        definition = mirrored(definition) if mirror else definition
        self._around = Surroundings(self._world, self._table, letters, rows, definition)
        self._lives = Lives(rng, self._around, features, self._arranged, is_global=is_global)
        self._kills = features.kills
        self._leaps = rng.choice((0, 0, 0, 2))
        right = not self._features.clocks_are_set
        self._table.watch = TableWatch(
            self._table, self._world, self._retain(), clocks_are_right=right, reads=self._arranged.reads
        )
        self._readers: Readers | None = None
        if self._arranged.reads:
            self._readers = Readers(seed, self._world, self._table, locks=self._lives.locks)
        self._visitors = Visitors(self._world, self._table, features, rng, state=state)
        if mirror:
            self._visitors.stay_away()
        self._set_up_event(rng)
        self._extra_restarts = rng.choice((0, 0, 1, 3))
        services_land_at_once = not features.compacts or (
            self._lives.locks and not self._world.chances.late and (features.serves is None or not features.serves.aim)
        )
        self._looks = (
            not self._visitors.late_rollbacks
            and self._arranged.late_cleans is None
            and features.is_fixed
            and not features.archives
            and features.serves is None
            and not features.schedules_without_lock
            and services_land_at_once
        )

    def _set_up_event(self, rng: random.Random) -> None:
        its, around = self._arranged, self._around
        if its.partitions:
            around.topic = Topic.draw(rng, around.rows)
        if its.late is not None:
            around.outlasting = Outlasting(its.late, rng)
        if its.local is not None:
            around.local = LocalFaults(random.Random(f"local {self.seed}"), its.local)
        self._visitors.others.late_cleans = its.late_cleans
        if its.visits:
            comes = (lambda: around.topic.is_fresh) if its.partitions else None
            self._visitors.come_late(its.visits, its.late_rollbacks, its.late_plans, comes)

    def run(self, steps_shown: int) -> Verdict:
        """Run and judge."""
        world = self._world
        with installed(self._lives.routes, world):
            try:
                world.run(self._between_turns)
                if not world.violations:
                    self._come_to_rest()
                if not world.violations and self._arranged.days:
                    self._live_on(self._arranged.days)
                if not world.violations and self._readers is not None:
                    self._readers.read_all()
                if not world.violations:
                    for found in check_end(self._ended()):
                        world.violation(found)
                if not world.violations and self._features.topic_made_anew:
                    self._recreate_topic()
            finally:
                world.end()
        steps = [f"{step:6} {actor:28} {what:14} {detail}" for step, actor, what, detail in world.log]
        return Verdict(
            self.seed,
            self._kind,
            world.violations,
            steps[-steps_shown:],
            self._counts(),
            self._state,
            self._is_global,
            self._mirror,
            self._event,
        )

    def _counts(self) -> Counter[str]:
        instants = self._table.instants
        counts = Counter({what: self._world.counts[what] for what in COUNTED})
        counts.update({what: count for what, count in self._world.counts.items() if what.startswith(PAUSES)})
        counts.update(
            {
                "processes": len(self._lives.processes),
                "storage calls": self._world.steps,
                "instants completed": len(instants.completed),
                "instants rolled back": len(instants.rolled_back),
                "compactions of two releases": compactions_of_two(self._table),
                "of those after completion": len(instants.rolled_back & instants.completed.keys()),
            }
        )
        return counts

    def _retain(self) -> timedelta | None:
        """How long readers keep their files, as far as wrong clocks let one say that."""
        serves = self._features.serves
        return None if serves is None or self._features.clocks_are_set else serves.retention.retain

    def _objects(self, url: str) -> Objects:
        return Objects(url, lambda: (self._world.steps, self._world.now()), self._world.violation)

    def _between_turns(self) -> None:
        """What happens around the actors: starts the pipeline again, lets other writers visit, checks the table."""
        rng, current = self._world.rng, self._lives.current
        self._visitors.between_turns()
        if self._readers is not None:
            self._readers.between_turns()
        if current is None or current.done:
            if self._lives.is_finished:
                return
            if self._world.is_anybody_awake and self._visitors.are_properties_gone() and rng.random() < 0.9:
                return  # it starts again, and again, until they are back
            self._start_process()
        elif self._kills and rng.random() < (0.4 if self._world.watched else 0.01):
            self._kills -= 1
            current.doomed = True
            self._start_process(edited=1.0)
        elif current.waits_for is not None or (current.wakes_at > self._world.steps and rng.random() < 0.5):
            if current is not self._visitors.waited_for:
                self._start_process()  # it counts as dead, but is alive
        elif self._extra_restarts and rng.random() < 0.01:
            self._extra_restarts -= 1
            self._start_process()
        elif self._leaps and rng.random() < 0.02 and self._world.leap(timedelta(hours=rng.choice((1, 30)))):
            self._leaps -= 1
        if rng.random() < 0.02 and self._looks:
            self._look()

    def _start_process(self, *, edited: float = 0.3) -> None:
        self._lives.start(edited=edited, excused=self._visitors.are_properties_gone())

    def _look(self) -> None:
        for found in check_moment(self._table.contents, self._around.rows, self._around.assigned, self._around.topic):
            self._world.violation(found)

    def _come_to_rest(self) -> None:
        """Every request has taken effect, no actor is left; services finish scheduled work, and one more process sweeps
        late files. The next one sees what was lost by a clean that they finished.
        """
        world = self._world
        if world.outlasting and self._arranged.late_cleans is None:  # whoever cleans goes on within a day, or never
            self._grow_old()
        world.land_late(all_of_them=True)
        world.wake_all()
        world.run(self._visitors.between_turns)
        world.chances = replace(Chances(), switch=1e-9)
        world.faults_left = world.aims_left = 0
        if self._around.outlasting is not None:
            self._around.outlasting.end()
        self._visitors.come_to_rest()
        starts = 0
        while starts < _LAST_STARTS + (self._arranged.late_cleans is not None):
            if self._features.serves is not None:
                world.leap(_HEARTBEATS_EXPIRE if not starts else _OBJECTS_EXPIRE)
            self._start_process()
            world.run(lambda: None)
            last = self._lives.processes[-1]
            if last.ended and not self._lives.was_ahead:
                world.violation(f"a start after all is done fails: {last.ended}")
            if world.violations:
                return
            starts += last.finished  # it may have been asked to stop

    def _live_on(self, days: int) -> None:
        """A few rows each day, and services that do what is due: no old file stays, and the timeline stays short."""
        world = self._world
        quiet = format_time(world.now())
        for day in range(days):
            world.leap(_DAY)
            count = len(self._around.rows)
            self._around.rows += draw_rows(random.Random(f"{self.seed} {day}"), count + 4, growing=True, deletes=False)[
                count:
            ]
            if day < days - _DAYS_KEPT:
                quiet = format_time(world.now())
            finished = False
            while not finished and not world.violations:
                self._start_process()
                world.run(lambda: None)
                finished = self._lives.is_finished
        table = self._table.snapshot
        # What another writer left pending, a rollback too, keeps all that is newer: only Hudi's next start ends it.
        if not world.violations and not table.instants.pending and not table.instants.pending_rollbacks:
            taken = (table.instants.rolled_back | self._table.overtaken) & table.instants.completed.keys()
            names = {table.instants.completed[time].extra.get("bucketingest.pipeline") for time in taken}
            for found in overdue(table, quiet, waits=bool(names - {None, self._lives.spec.pipeline})):
                world.violation(found)

    def _grow_old(self) -> None:
        """Days pass, and the pipeline starts again, while one change is still on its way."""
        for _ in range(_LAST_STARTS):
            self._world.leap(_OBJECTS_EXPIRE)
            self._start_process()
            self._world.run(lambda: None)

    def _recreate_topic(self) -> None:
        world, before = self._world, self._table.contents
        process = NewTopicProcess("new topic", self._around, self._lives.routes, self._lives.limits(), self._lives.spec)
        process.new_end = world.rng.randrange(1, len(self._around.rows))
        self._around.rows = draw_rows(world.rng, process.new_end)
        world.spawn(process.name, process.live)
        world.run(lambda: None)
        done = self._table.instants.completed.keys() - read(before).instants.completed.keys()
        if not isinstance(process.error, RangeConflict | PositionLost) or done:
            world.violation(
                f"the topic was created again with {process.new_end} rows, and they were taken for rows that the table "
                f"has: ended with {process.ended}, committed {sorted(done)}"
            )

    def _started_by_others(self) -> set[str]:
        """Compactions that the pipeline gave up before their requests arrived, and that another writer then began: the
        pipeline leaves them alone.
        """
        void = {
            self._table.objects[path.removesuffix("done") + "plan"].content
            for path, stored in self._table.objects.items()
            if path.startswith(".hoodie/.bucketingest/services/")
            and path.endswith("/done")
            and stored.content == b"void"
        }
        started = {
            path[len(".hoodie/timeline/") :][:17]
            for path in self._table.objects
            if path.endswith(".compaction.inflight") and self._table.creators[path].startswith("services ")
        }
        return {
            time for time in started for plan in void if f'"compaction": "{time}"'.encode() in plan.partition(b"\n")[0]
        }

    def _ended(self) -> Ended:
        visitors, features = self._visitors, self._features
        rows = visitors.rows()
        return Ended(
            objects=self._table.contents,
            letters=[place.contents for place in self._around.letters],
            rows=self._around.rows,
            assigned=self._around.assigned,
            foreign_rows=rows,
            foreign_instants=rows.keys() | visitors.others.requested | self._started_by_others(),
            others=visitors.came or not {"undo", "compact"}.isdisjoint(features.services),
            overtaken=self._table.overtaken,
            unharmed=self._table.unharmed,
            topic=self._around.topic,
            pipeline=self._lives.spec.pipeline,
            letters_place=self._lives.spec.dead_letters,
            state=self._state,
            foreign_rows_may_hide=features.schedules_without_lock or "clean partition" in features.services,
            serves=features.serves is not None,
            refuses_cleans=bool({"savepoint", "restore"} & set(features.services)),
            doubles_allowed=features.archives and features.compacts,
        )
