"""Rolls back what failed attempts left, without the pipeline's own start: for people, and for the operator's Job.

The fence comes first: the pipeline's next epoch is claimed and the instant is decided to abort before anything of it is
deleted, so a driver that is still alive can neither commit it nor go on. Every step may be repeated after a crash. An
instant keeps its decision and is not marked as done: the pipeline's next start sweeps it again, deals with its dead
letters, and only then counts it as settled.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bucketingest.hudi import heartbeat
from bucketingest.hudi.errors import HudiError, UnsupportedTable
from bucketingest.hudi.history import archived_times
from bucketingest.hudi.markers import delete_markers
from bucketingest.hudi.rollback import Lock, RollbackOptions, roll_back, rollbacks_of
from bucketingest.hudi.rollback_plan import refuse_unless_pending_deltacommit
from bucketingest.hudi.table import HoodieTable
from bucketingest.hudi.table_checks import SUPPORTED_VERSIONS, metadata_table_refusals
from bucketingest.hudi.timeline import Timeline, complete
from bucketingest.storage import Storage
from bucketingest.write.abandon_plan import Choice, Step
from bucketingest.write.coordination import AbortDecision, CommitDecision, Coordination

log = logging.getLogger(__name__)

_MAX_AHEAD: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done about one instant."""

    choice: Choice
    did: Step
    """COMPLETE instead of a rollback: it was decided to commit meanwhile."""
    rollback_time: str | None = None
    """Request time of the rollback on the timeline; None if the instant was not there."""
    deleted: tuple[str, ...] = ()
    """Data files that were deleted, or were gone already."""
    problem: str | None = None
    """Why nothing was done: the table changed since the plan was made."""


def refuse_unsupported(table: HoodieTable) -> None:
    """Raise UnsupportedTable, with every reason, for a table in which rolling back would go wrong."""
    reasons = metadata_table_refusals(table.properties)
    layout = table.properties.get("hoodie.timeline.layout.version")
    if table.version not in SUPPORTED_VERSIONS or layout != "2":
        reasons.append(
            f"hoodie.table.version={table.version}, hoodie.timeline.layout.version={layout or '(missing)'}: only table "
            "versions 8 and 9 can be rolled back; roll back with Hudi"
        )
    if reasons:
        raise UnsupportedTable(table.storage.url, reasons)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Abandoner:
    """Carries out choices on one table."""

    def __init__(self, storage: Storage, lock: Lock = nullcontext) -> None:
        self._storage = storage
        self._lock = lock
        self._epochs: dict[str, int] = {}

    def carry_out(self, choices: Iterable[Choice]) -> Iterator[Outcome]:
        """Do what was chosen, one instant after the other.

        Raises FencedOut if a newer attempt of a pipeline claims the table meanwhile: it then deals with the instants.
        """
        for choice in choices:
            if choice.step is Step.NOTHING:
                continue
            try:
                outcome = self._carry_out(choice)
            except HudiError as error:  # completed meanwhile, or the timeline runs ahead of the clock: the others go on
                outcome = Outcome(choice, Step.NOTHING, problem=str(error))
            _tell(outcome)
            yield outcome

    def _carry_out(self, choice: Choice) -> Outcome:
        found = choice.candidate
        if found.pipeline is None or choice.step is Step.SWEEP:
            return self._roll_back(choice)
        coordination = Coordination(self._storage, found.pipeline)
        decision = coordination.decision(found.request_time)
        if not isinstance(decision, CommitDecision):
            self._fence(found.pipeline, coordination)
            self._refuse_completed(found.request_time)
            abort = AbortDecision(f"rolled back by bucketingest rollback: {choice.reason}")
            decision = coordination.decide(found.request_time, abort)
        if isinstance(decision, CommitDecision) and not self._taken_back(found.request_time):
            return self._complete(choice, decision)
        return self._roll_back(choice)

    def _fence(self, pipeline: str, coordination: Coordination) -> None:
        """Claim the pipeline once; from then on older attempts commit nothing."""
        if pipeline not in self._epochs:
            self._epochs[pipeline] = coordination.claim_epoch(f"rollback on {socket.gethostname()} ({os.getpid()})")
            log.info("claimed", extra={"pipeline": pipeline, "epoch": self._epochs[pipeline]})
        coordination.check_epoch(self._epochs[pipeline])

    def _refuse_completed(self, instant: str) -> None:
        """Raise RollbackError for an instant completed since the plan was made, whose decision may be forgotten."""
        found = Timeline.load(self._storage).find(instant)
        if found is not None:
            refuse_unless_pending_deltacommit(found)

    def _taken_back(self, instant: str) -> bool:
        """Whether another writer rolls it back or has: then its files are not all there, and it must not complete."""
        timeline = Timeline.load(self._storage)
        return timeline.find(instant) is None or bool(rollbacks_of(self._storage, timeline, instant))

    def _complete(self, choice: Choice, decision: CommitDecision) -> Outcome:
        instant = choice.candidate.request_time
        complete(self._storage, instant, decision.completion_time, decision.content)
        heartbeat.stop(self._storage, instant)
        delete_markers(self._storage, instant)
        return Outcome(choice, Step.COMPLETE)

    def _roll_back(self, choice: Choice) -> Outcome:
        options = RollbackOptions(
            known_times=tuple(archived_times(self._storage)), max_ahead=_MAX_AHEAD, lock=self._lock, clock=_utc_now
        )
        result = roll_back(self._storage, choice.candidate.request_time, options)
        did = choice.step
        if did is not Step.SWEEP:
            did = Step.FINISH_ROLLBACK if result.resumed else Step.ROLL_BACK
        return Outcome(choice, did, result.rollback_time, result.deleted)


def _tell(outcome: Outcome) -> None:
    found = outcome.choice.candidate
    extra = {"instant": found.request_time, "pipeline": found.pipeline, "reason": outcome.choice.reason}
    if outcome.problem is not None:
        log.error("not rolled back", extra={**extra, "problem": outcome.problem})
    elif outcome.did is Step.COMPLETE:
        log.warning("completed as decided", extra=extra)
    else:
        did = "swept" if outcome.did is Step.SWEEP else "rolled back"
        log.warning(did, extra={**extra, "rollback": outcome.rollback_time, "deleted_files": len(outcome.deleted)})
