"""Which rollbacks are pending on the timeline, and what they roll back."""

from __future__ import annotations

from dataclasses import dataclass

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.rollback.plan import RollbackPlan
from bucketingest.hudi.timeline.instant import ROLLBACK, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage.errors import NotFound, StorageError
from bucketingest.storage.interface import Storage


@dataclass(frozen=True, slots=True)
class PendingRollback:
    """A rollback that was requested and has not completed, our own or another writer's."""

    rollback_time: str
    state: State
    plan: RollbackPlan | None
    """None if no plan can be read; Hudi 1.2.0 skips such a rollback."""
    problem: str = ""
    """Why there is no plan."""

    @property
    def target(self) -> str | None:
        """Request time of the instant that it rolls back."""
        return None if self.plan is None else self.plan.instant_time


def pending_rollbacks(
    storage: Storage, timeline: Timeline, instant_time: str | None = None
) -> tuple[PendingRollback, ...]:
    """All pending rollbacks by ascending time; with `instant_time` those whose plan names it.

    Opens one file per pending rollback (with `instant_time` per later one). Usually there is none.
    """
    found = (
        read_rollback(storage, instant)
        for instant in timeline.pending
        if instant.action == ROLLBACK and (instant_time is None or instant.request_time > instant_time)
    )
    return tuple(rollback for rollback in found if instant_time is None or rollback.target == instant_time)


def read_rollback(storage: Storage, rollback: Instant) -> PendingRollback:
    """A pending rollback with its plan."""
    path = path_of(Instant(rollback.request_time, ROLLBACK, State.REQUESTED))
    try:
        data = storage.get(path)
        if not data:
            return PendingRollback(rollback.request_time, rollback.state, None, f"{path} is empty")
        plan = RollbackPlan.decode(data, path)
    except NotFound:
        return PendingRollback(rollback.request_time, rollback.state, None, f"{path} is missing")
    except StorageError:
        raise
    except BucketIngestError as error:  # not a plan, or a plan that cannot be carried out here
        return PendingRollback(rollback.request_time, rollback.state, None, str(error))
    return PendingRollback(rollback.request_time, rollback.state, plan)
