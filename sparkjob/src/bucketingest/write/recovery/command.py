"""Rolls back what failed attempts left, without starting the pipeline: for people, and for the operator's Job.

The fence comes first: the pipeline's next epoch is claimed and the instant is decided to abort before any of its files
is deleted, so a driver that is still alive can neither commit it nor continue. Every step may be repeated after a
crash. An instant keeps its decision and is not marked as done: the pipeline's next start sweeps it again, handles its
dead letters, and only then counts it as settled.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from bucketingest.hudi.errors import HudiError, UnsupportedTable
from bucketingest.hudi.history.archived import archived_times
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.rollback.late_files import delete_late_files
from bucketingest.hudi.rollback.plan import refuse_unless_pending_deltacommit
from bucketingest.hudi.rollback.rollback import Lock, RollbackOptions, RollbackResult, roll_back
from bucketingest.hudi.table.checks import metadata_table_refusals, version_refusals
from bucketingest.hudi.table.table import HoodieTable
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision, CommitDecision
from bucketingest.write.instants.writer_identity import WriterIdentity
from bucketingest.write.recovery.decide import Choice, Step
from bucketingest.write.recovery.execute import InstantExecutor

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstantOutcome:
    """What was done about one instant."""

    choice: Choice
    did: Step
    """COMPLETE instead of a rollback: it was decided to commit meanwhile."""
    rollback_time: str | None = None
    """Request time of the rollback on the timeline; None if the instant was not there."""
    deleted: tuple[str, ...] = ()
    """Data files that were deleted, or were missing already."""
    problem: str | None = None
    """Why nothing was done: the table changed since the plan was made."""


def refuse_unsupported(table: HoodieTable) -> None:
    """Raise UnsupportedTable, with every reason, for a table in which a rollback is unsafe."""
    reasons = [*version_refusals(table.properties), *metadata_table_refusals(table.properties)]
    if (layout := table.properties.get("hoodie.timeline.layout.version")) != "2":
        reasons.append(f"hoodie.timeline.layout.version={layout or '(missing)'}: only layout 2 can be rolled back")
    if reasons:
        raise UnsupportedTable(table.storage.url, reasons)


class RollbackExecutor:
    """Carries out choices on one table."""

    def __init__(self, storage: Storage, lock: Lock = nullcontext, clock: Callable[[], datetime] = utc_now) -> None:
        self._storage = storage
        self._lock = lock
        self._clock = clock
        self._epochs: dict[str, int] = {}

    def carry_out(self, choices: Iterable[Choice]) -> Iterator[InstantOutcome]:
        """Carry out the choices, one instant after the other.

        Raises FencedOut if a newer attempt of a pipeline claims the table meanwhile: that attempt handles the instants.
        """
        for choice in choices:
            if choice.step is Step.NOTHING:
                continue
            try:
                outcome = self._carry_out(choice)
            except HudiError as error:  # completed meanwhile, or the clock is wrong: continue with the others
                outcome = InstantOutcome(choice, Step.NOTHING, problem=str(error))
            _log_outcome(outcome)
            yield outcome

    def _carry_out(self, choice: Choice) -> InstantOutcome:
        found = choice.found
        if choice.step is Step.SWEEP:  # refuses an instant that was put onto the timeline since the plan was made
            return InstantOutcome(choice, Step.SWEEP, deleted=delete_late_files(self._storage, found.request_time))
        if found.pipeline is None:
            known = tuple(archived_times(self._storage))
            options = RollbackOptions(known_times=known, lock=self._lock, clock=self._clock)
            return _rolled_back(choice, roll_back(self._storage, found.request_time, options))
        instant, journal = found.request_time, Journal(self._storage, found.pipeline)
        decision = journal.decision(instant)
        if not isinstance(decision, CommitDecision):
            self._fence(found.pipeline, journal)
            self._refuse_completed(instant)
            abort = AbortDecision(f"rolled back by bucketingest rollback: {choice.reason}")
            decision = journal.decide(instant, abort)
        executor = self._executor(found.pipeline, journal)
        try:
            why = executor.try_complete(instant, decision) if isinstance(decision, CommitDecision) else choice.reason
            if why is not None:
                self._fence(found.pipeline, journal)
                return _rolled_back(choice, self._executor(found.pipeline, journal).undo(instant, why))
            executor.close(instant, found.ledgers)
        except PositionLost as error:  # the pipeline's next start ingests its rows again
            log.warning("overtaken", extra={"instant": instant, "pipeline": found.pipeline, "reason": str(error)})
        return InstantOutcome(choice, Step.COMPLETE)

    def _executor(self, pipeline: str, journal: Journal) -> InstantExecutor:
        epoch = self._epochs.get(pipeline, 0)
        identity = WriterIdentity(pipeline, epoch, None, lock=self._lock, clock=self._clock)
        return InstantExecutor(self._storage, journal, identity, settles=False)

    def _fence(self, pipeline: str, journal: Journal) -> None:
        """Claim the pipeline once; from then on older attempts commit nothing."""
        if pipeline not in self._epochs:
            self._epochs[pipeline] = journal.claim_epoch(f"rollback on {socket.gethostname()} ({os.getpid()})")
            log.info("claimed", extra={"pipeline": pipeline, "epoch": self._epochs[pipeline]})
        journal.check_epoch(self._epochs[pipeline])

    def _refuse_completed(self, instant: str) -> None:
        """Raise RollbackError for an instant completed since the plan was made, whose decision may be forgotten."""
        found = Timeline.load(self._storage).find(instant)
        if found is not None:
            refuse_unless_pending_deltacommit(found)


def _rolled_back(choice: Choice, result: RollbackResult | None) -> InstantOutcome:
    if result is None:
        return InstantOutcome(choice, Step.NOTHING, problem="the instant is now another writer's")
    did = Step.FINISH_ROLLBACK if result.resumed else Step.ROLL_BACK
    return InstantOutcome(choice, did, result.rollback_time, result.deleted)


def _log_outcome(outcome: InstantOutcome) -> None:
    found = outcome.choice.found
    extra = {"instant": found.request_time, "pipeline": found.pipeline, "reason": outcome.choice.reason}
    if outcome.problem is not None:
        log.error("not rolled back", extra={**extra, "problem": outcome.problem})
    elif outcome.did is Step.COMPLETE:
        log.warning("completed as decided", extra=extra)
    else:
        did = "swept" if outcome.did is Step.SWEEP else "rolled back"
        log.warning(did, extra={**extra, "rollback": outcome.rollback_time, "deleted_files": len(outcome.deleted)})
