"""`bucketingest rollback --force`, as a person or the operator runs it, at whatever moment."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.write.recovery.command import RollbackExecutor
from bucketingest.write.recovery.decide import choose
from bucketingest.write.recovery.survey import survey
from support.simulation.store import Objects
from support.simulation.view import View
from support.simulation.world import Actor, World


class RollbackCommand:
    """One run of the command, which may die or stall at any step."""

    def __init__(self, name: str, world: World, table: Objects) -> None:
        self.name = name
        self._world = world
        self._table = table

    def live(self, actor: Actor) -> None:
        """Everything that was started is rolled back, or completed if it was decided so."""
        storage = View(self._table, self._world, actor)
        try:
            found = survey(storage, (), self._world.now())
            for outcome in RollbackExecutor(storage, clock=self._world.now).carry_out(
                choose(found.instants, found.wanted, force=True)
            ):
                self._world.note(self.name, outcome.did, outcome.choice.found.request_time)
        except BucketIngestError as error:
            self._world.note(self.name, "ends with", f"{type(error).__name__}: {error}")
