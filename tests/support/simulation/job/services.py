"""Table services of a process: the real holder's steps between micro-batches, and executors that may outlive it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.lease.record import LeaseError
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import propose
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.compaction.work import Work
from bucketingest.write.errors import FencedOut
from support.simulation.job.surroundings import Surroundings
from support.simulation.view import View
from support.simulation.world import Actor

_LAST_STEPS_MAX: Final = 12


class OwnServices:
    """Compacts the table of one process. A failure is noted, and tried again at the next step."""

    def __init__(
        self, name: str, around: Surroundings, lock: Lock, pipeline: str, clock: Callable[[], datetime]
    ) -> None:
        self._name = name
        self._around = around
        self._world = around.world
        self._lock = lock
        self._pipeline = pipeline
        self._clock = clock
        self._swept = False
        self._executors = 0

    def step(self, actor: Actor, *, to_the_end: bool = False) -> None:
        """One look and what follows from it; `to_the_end`: until no compaction is open."""
        for _ in range(_LAST_STEPS_MAX if to_the_end else 1):
            try:
                if not self._step(actor, plans=not to_the_end) and to_the_end:
                    return
            except (LeaseError, FencedOut):
                raise
            except BucketIngestError as error:
                self._world.note(self._name, "service fails", f"{type(error).__name__}: {error}")

    def _step(self, actor: Actor, *, plans: bool) -> bool:
        """Whether more is to be done at once."""
        view = self._view(actor)
        holder = CompactionHolder(
            view,
            self._lock,
            lambda: self._around.check_lease(self._pipeline),
            check_metadata_table=lambda _: None,
            clock=self._clock,
        )
        if not self._swept:
            holder.sweep_old()
            self._swept = True
        state = holder.advance()
        if isinstance(state, Work):
            self._execute(view, state, alone=not plans)
            return True
        if state is None and plans and holder.open_compaction() is None:
            triggers = CompactionTriggers(log_files=self._world.rng.choice((1, 2)))
            if (proposal := propose(view, triggers, self._clock()).proposal) is not None:
                number = holder.request(proposal)
                self._world.note(self._name, "requests", f"compaction {number} at {proposal.record.compaction}")
        if state is not None:
            self._world.note(self._name, "ends", f"compaction {state.compaction}: {state.end}")
        return holder.open_compaction() is not None

    def _execute(self, view: View, work: Work, *, alone: bool) -> None:
        """In this process, or in one of its own, which may stall and continue when the round has long ended."""
        if alone or self._world.rng.random() < 0.5:
            RoundExecutor(view, work.number, work.round_number).run()
            return
        self._executors += 1
        self._world.spawn(
            f"{self._name} executor {self._executors}",
            lambda actor: self._live(actor, work),
            starts_in=self._world.rng.choice((0, 0, 30, 200)),
        )

    def _live(self, actor: Actor, work: Work) -> None:
        try:
            RoundExecutor(self._view(actor), work.number, work.round_number).run()
        except BucketIngestError as error:
            self._world.note(actor.name, "executor ends", f"{type(error).__name__}: {error}")

    def _view(self, actor: Actor) -> View:
        return View(self._around.table, self._world, actor, lists_stale=False)
