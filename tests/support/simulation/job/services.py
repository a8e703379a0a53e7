"""Table services of a process: the real holder's steps between micro-batches; executors, cleaners and archivers beside
it that may outlive it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.timeline import heartbeat
from bucketingest.lease.record import LeaseError, LeaseLost
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, clean
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.clustering.execute import ClusteringExecutor
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.propose import propose_clustering
from bucketingest.services.clustering.records import ClusteringEnded
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.commit import Ready, ready_commit
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import TableNow, propose
from bucketingest.services.compaction.records import CompactionJournal, Task, Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.compaction.sweep import Swept, sweep
from bucketingest.services.errors import CleanRefused, ClusteringInDoubt
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import HEARTBEAT
from bucketingest.write.errors import FencedOut
from support.simulation.job.local_faults import ExecutorView
from support.simulation.job.surroundings import Surroundings
from support.simulation.view import View
from support.simulation.world import Actor

_LAST_STEPS_MAX: Final = 12
_TIDIES: Final = 0.5
"""How often clean and archive run when a step finds no compaction to carry out."""
_MERGES: Final = 0.7
"""How often file groups are merged, if some are small, instead of a compaction."""
_HEARTBEAT_EXPIRES: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class ServiceRules:
    """What the services of every process of a schedule keep."""

    retention: Retention
    archive: ArchiveRules
    aim: float = 0.0
    """How often a change of storage by a service fails, is late or is its last."""


class OwnServices:
    """Table services of one process. A failure is noted, and tried again at the next step."""

    def __init__(
        self,
        name: str,
        around: Surroundings,
        rules: ServiceRules,
        *,
        lock_of: Callable[[Actor], Lock],
        check_lease: Callable[[], None],
        clock: Callable[[], datetime],
    ) -> None:
        """`lock_of`: the table's lock as an actor takes it. `check_lease`: raises what ends the process."""
        self._name = name
        self._around = around
        self._world = around.world
        self._lock_of = lock_of
        self._check_lease_of_job = check_lease
        self._clock = clock
        self._rules = rules
        self._executors = 0
        self._found: Ready | Swept | None = None
        self._merging: int | None = None
        """Number of a clustering whose base files this process has made."""
        around.holder = name

    def settle(self, actor: Actor) -> None:
        """What a start does before anything is written. Raises what ends the process."""
        ended = self._clustering(actor).start()
        if ended is not None:
            self._note_merge(ended)

    def step(self, actor: Actor, *, between: bool = True, to_the_end: bool = False) -> None:
        """One look and what follows from it; `to_the_end`: until no compaction is open, then clean and archive.
        `between`: none of the job's instants is open, so a clustering can be committed.
        """
        if self._merging is not None and not between:
            return
        for _ in range(_LAST_STEPS_MAX if to_the_end else 1):
            try:
                if not self._step(actor, plans=not to_the_end) and to_the_end:
                    break
                if to_the_end:
                    self._world.leap(_HEARTBEAT_EXPIRES)
            except (LeaseError, FencedOut, ClusteringInDoubt):
                raise
            except BucketIngestError as error:
                self._world.note(self._name, "service fails", f"{type(error).__name__}: {error}")
        if to_the_end:
            try:
                self._tidy(actor)
            except (LeaseError, FencedOut):
                raise
            except BucketIngestError as error:
                self._world.note(self._name, "service fails", f"{type(error).__name__}: {error}")

    def clear_up(self, actor: Actor) -> None:
        """All that is due, on a quiet day: every file group is compacted, then clean and archive."""
        for _ in range(_LAST_STEPS_MAX):
            try:
                if not self._step(actor, plans=True, tidies=0):
                    break
            except BucketIngestError as error:
                self._world.note(self._name, "service fails", f"{type(error).__name__}: {error}")
        self.step(actor, to_the_end=True)

    def _step(self, actor: Actor, *, plans: bool, tidies: float = _TIDIES) -> bool:
        """Whether more is to be done at once."""
        view = self._view(actor)
        holder = CompactionHolder(
            view,
            self._lock_of(actor),
            self._check_lease_of_job,
            check_unchanged=lambda _: None,
            clock=self._clock,
        )
        if self._around.definition.state is not None:
            self._end_merge(actor)
        found, self._found = self._found, None
        # At the end all in this process, as the command does it.
        state = holder.advance(found, lists=not plans)
        if isinstance(state, Work):
            self._found = self._execute(self._executor(actor), state, alone=not plans)
            return True
        if state is None and plans and holder.open_compaction() is None:
            if self._world.rng.random() < tidies:
                self._beside("tidy", self._tidy)
                return False
            if self._around.definition.state is not None and self._world.rng.random() < _MERGES and self._begins(actor):
                return True
            triggers = CompactionTriggers(log_files=self._world.rng.choice((1, 2)) if tidies else 1)
            if (proposal := propose(view, triggers, self._clock()).proposal) is not None:
                number = holder.request(proposal)
                self._world.note(self._name, "requests", f"compaction {number} at {proposal.record.compaction}")
        if state is not None:
            self._world.note(self._name, "ends", f"compaction {state.compaction}: {state.end}")
            self._world.counts[f"compactions {state.end}"] += 1
        return holder.open_compaction() is not None

    def _begins(self, actor: Actor) -> bool:
        """Whether a merge is due: in this process, then its commit comes at the next step; or in one of its own, whose
        answer is lost.
        """
        view = self._view(actor)
        found, triggers = TableNow.load(view), ClusteringTriggers(1024**2, min_groups=2)
        if found is None:
            return False
        plan = propose_clustering(view, found, triggers, size_max=1024**2).plan
        if plan is None:
            return False
        number = self._clustering(actor).begin(plan)
        self._world.note(self._name, "begins", f"merge {number} of {len(plan.replaced)} file groups at {plan.instant}")
        self._world.counts["merges started"] += 1
        if self._world.rng.random() < 0.7:
            self._make(actor, number)
            self._merging = number
        else:
            self._beside("merger", lambda its: self._make(its, number))
        return True

    def _make(self, actor: Actor, number: int) -> None:
        ClusteringExecutor(self._executor(actor), number, forward=self._world.forward).run()

    def _end_merge(self, actor: Actor) -> None:
        number, self._merging = self._merging, None
        holder = self._clustering(actor)
        ended = holder.settle() if number is None else holder.commit(number)
        if ended is not None:
            self._note_merge(ended)

    def _note_merge(self, ended: ClusteringEnded) -> None:
        self._world.note(self._name, "ends", f"merge at {ended.instant}: {ended.end}, {ended.why}")
        self._world.counts[f"merges {ended.end}"] += 1

    def _clustering(self, actor: Actor) -> ClusteringHolder:
        return ClusteringHolder(
            self._view(actor),
            self._lock_of(actor),
            self._check_lease_of_job,
            check_unchanged=lambda _: None,
            clock=self._clock,
        )

    def _execute(self, view: View, work: Work, *, alone: bool) -> Ready | Swept | None:
        """In this process; the next step has the answer, and much may come between. Or in one of its own, which may
        stall and continue when the round has long ended: its answer is lost.
        """
        if alone or self._world.rng.random() < (0.4 if work.task is Task.MERGE else 0.7):
            return _answer(view, work)
        self._beside("executor", lambda actor: self._run(actor, work))
        return None

    def _run(self, actor: Actor, work: Work) -> None:
        view = self._executor(actor)
        if work.task is not Task.SWEEP:
            heartbeat.beat(view, work.compaction, HEARTBEAT)
        _answer(view, work)

    def _tidy(self, actor: Actor) -> None:
        """What the process beside the job does now and then."""
        view = self._view(actor)
        table = Guarded(view, self._lock_of(actor), self._check_lease, self._clock, self._around.pipeline)
        CompactionHolder(view, table.lock, table.check, clock=self._clock).sweep_old()
        ClusteringHolder(view, table.lock, table.check, clock=self._clock).sweep()
        retained = ""
        try:
            cleaned = clean(table, self._rules.retention)
        except CleanRefused as error:
            self._world.note(actor.name, "clean refused", str(error))
        else:
            retained = cleaned.choice.retained
            self._world.counts["cleans of its own"] += sum(each.files > 0 for each in cleaned.results)
        for result in archive_old(table, self._rules.archive, retained=retained):
            if result.instants:
                self._world.note(actor.name, "archives", f"up to {result.instants[-1].request_time}")
                self._world.counts["archived by itself"] += len(result.instants)
            if result.removed:
                self._world.note(actor.name, "takes off again", f"{[each.file_name for each in result.removed]}")

    def _check_lease(self) -> None:
        """The table is leased to one process at a time."""
        if self._around.holder != self._name:
            raise LeaseLost(f"the table's lease went from {self._name} to {self._around.holder}")
        self._check_lease_of_job()

    def _beside(self, what: str, body: Callable[[Actor], None]) -> None:
        self._executors += 1

        def live(actor: Actor) -> None:
            try:
                body(actor)
            except BucketIngestError as error:
                self._world.note(actor.name, f"{what} ends", f"{type(error).__name__}: {error}")

        name = f"{self._name} {what} {self._executors}"
        self._world.spawn(name, live, starts_in=self._world.rng.choice((0, 0, 30, 200)))

    def _view(self, actor: Actor) -> ExecutorView:
        around = self._around
        return ExecutorView(
            around.table, self._world, actor, lists_stale=False, aim=self._rules.aim, outlasting=around.outlasting
        )

    def _executor(self, actor: Actor) -> View:
        """The table where base files are made."""
        view = self._view(actor)
        view.local = self._around.local
        return view


def _answer(view: View, work: Work) -> Ready | Swept:
    """What the process beside the job does, and answers."""
    journal = CompactionJournal(view)
    if work.task is Task.SWEEP:
        return sweep(view, journal, work.number)
    if work.task is Task.MERGE:
        RoundExecutor(view, work.number, work.round_number).run()
    return ready_commit(view, journal, work.number, work.round_number)
