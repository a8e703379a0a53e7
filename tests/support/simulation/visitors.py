"""The other writers of a schedule: when they visit, and what they do."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

from support.simulation.features import Features
from support.simulation.judge.instants import TIMELINE
from support.simulation.outlasting import Late
from support.simulation.spec import Row
from support.simulation.store import Objects
from support.simulation.world import Actor, World
from support.simulation.writers.configuring import BACKUP, PROPERTIES
from support.simulation.writers.hudi_writer import HudiHabits, HudiWriter
from support.simulation.writers.rollback_command import RollbackCommand
from support.simulation.writers.table_services import Service, TableServices
from support.simulation.writers.visit import Others, Visit

_PLAN: Final = re.compile(r".*/services/compaction/\d+/plan")
_FINISHES: Final = 0.1
_LAST: Final[tuple[Service, ...]] = ("compact", "clean", "clean partition")
"""Scheduled compactions are run at the end, so rows that one left out are no longer visible."""


class Visitors:
    """All actors except the pipeline."""

    def __init__(
        self, world: World, table: Objects, features: Features, rng: random.Random, *, state: bool = False
    ) -> None:
        self.others = Others(state=state)
        self.came = False
        """Whether a writer came that rolls back what it finds."""
        # The rollback of an instant that was archived meanwhile would leave no trace by which its rows are missed.
        self.late_rollbacks = rng.random() < 0.3 and not features.archives
        self.waited_for: Actor | None = None
        """A process that another writer overtakes: nobody takes it for dead."""
        self._visits = rng.choice((0, 0, 1, 2, 4))
        if self.late_rollbacks:
            self._visits = max(self._visits, rng.choice((1, 3)))
        self._services_visits = features.visits
        self._comes: Callable[[], bool] | None = None
        self._world = world
        self._table = table
        self._features = features
        self._names = iter(range(1, 1000))

    def between_turns(self) -> None:
        """Starts the writers that visit now."""
        rng = self._world.rng
        serves = self._features.serves is not None
        chance = 0.4 if self._world.watched else 0.05
        if self._visits and (rng.random() < chance if self._comes is None else self._world.watched and self._comes()):
            self._visits -= 1
            self._visit()
        if self.are_properties_gone() and "configuring" not in self.others.busy and rng.random() < _FINISHES:
            self._serve(["configure"])
        elif self._comes_between():
            self._serve(["schedule"])
        elif self._services_visits and rng.random() < (chance / 2 if serves else chance):
            self._services_visits -= 1
            self._serve(self._choice())

    def come_late(
        self, visits: int, rollbacks: Late | None, plans: Late | None, comes: Callable[[], bool] | None
    ) -> None:
        """Writers come so often whose rollbacks, or plans without a lock, end long after they were begun. `comes`:
        only at such moments.
        """
        self._comes = comes
        self.others.late_rollbacks, self.others.late_plans = rollbacks, plans
        self.late_rollbacks = rollbacks is not None
        self._visits = visits

    def stay_away(self) -> None:
        """No writer comes."""
        self._visits = self._services_visits = 0
        self.late_rollbacks = False

    def come_to_rest(self) -> None:
        """No more visits, but services finish scheduled work."""
        self._visits = self._services_visits = 0
        self.others.late_cleans = None
        if self._features.services:
            last = (*_LAST, *(["configure"] if self.are_properties_gone() else []))
            self._serve([service for service in last if service in self._features.services])
            self._world.run(lambda: None)

    def rows(self) -> dict[str, Row]:
        """Instant -> row of what other writers tried to commit."""
        requested = {time: f".hoodie/timeline/{time}.deltacommit.requested" for time in self.others.rows}
        creators = self._table.creators
        return {
            time: row for time, (name, row) in self.others.rows.items() if creators.get(requested[time], name) == name
        }

    def _choice(self) -> list[Service]:
        services, rng = self._features.services, self._world.rng
        first = rng.choice(services)
        if "undo" in services and rng.random() < 0.5 and self._is_compacting():
            first = "undo"
        match first:
            case "schedule" if rng.random() < 0.5:
                return [first, *(each for each in _LAST if each in services)]
            case "archive" if rng.random() < 0.6:  # something newer must stay on the timeline
                return ["commit", first]
            case "savepoint" if "restore" in services and rng.random() < 0.5:
                return [first, "restore"]
            case "fill partition" if rng.random() < 0.7:
                return [first, "delete partition"]
        return [first]

    def are_properties_gone(self) -> bool:
        """Whether a writer died, or is paused, between two steps of a change of them."""
        if "configure" not in self._features.services:
            return False
        return BACKUP in self._table.objects and PROPERTIES not in self._table.objects

    def _comes_between(self) -> bool:
        """Whether a scheduler without lock comes now, while the pipeline is paused between its plan and its request."""
        if self._world.watched_change is None or not self._features.schedules_without_lock:
            return False
        actor, path = self._world.watched_change
        if "schedule" not in self._features.services or not _PLAN.fullmatch(path) or self._world.rng.random() < 0.3:
            return False
        self._world.stall(actor, 300)
        self.waited_for = actor
        return True

    def _is_compacting(self) -> bool:
        """Whether a compaction is inflight: then it can be taken for dead."""
        names = {path.rpartition("/")[2] for path in self._table.objects if path.startswith(TIMELINE)}
        completed = {name[:17] for name in names if name.endswith(".commit")}
        return any(name[:17] not in completed for name in names if name.endswith(".compaction.inflight"))

    def _serve(self, services: list[Service]) -> None:
        visit = Visit(
            f"services {next(self._names)}",
            self._world,
            self._table,
            self.others,
            locks=not self._features.schedules_without_lock,
            aim=self._features.serves.aim / 2 if self._features.serves and self._world.aims_left else 0,
        )
        self._world.spawn(visit.name, TableServices(visit, services).live)

    def _visit(self) -> None:
        rng = self._world.rng
        if self._comes is None and rng.random() < 0.2:
            command = RollbackCommand(f"rollback command {next(self._names)}", self._world, self._table)
            self._world.spawn(command.name, command.live)
            return
        eager = self._comes is not None or rng.random() < 0.6
        habits = HudiHabits(eager, commits=not eager or rng.random() < 0.5, late_rollbacks=self.late_rollbacks)
        writer = HudiWriter(f"hudi {next(self._names)}", self._world, self._table, habits, self.others)
        self.came = True
        self._world.spawn(writer.name, writer.live)
