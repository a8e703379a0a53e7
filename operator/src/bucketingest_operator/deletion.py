"""The resource is being deleted: stop the driver, wait, leave a clean timeline, then let it go."""

from __future__ import annotations

from bucketingest_operator.between import roll_back
from bucketingest_operator.plan import DeleteExecutors, RemoveFinalizer
from bucketingest_operator.running import DELETED
from bucketingest_operator.status import TIMELINE_CLEAN
from bucketingest_operator.working import ROLLBACK_PENDING, SOON, Pass


def let_go(work: Pass) -> None:
    """Decide the next step of a deletion. What is left when the finalizer is gone, Kubernetes collects by its owner."""
    work.not_stalled()
    work.draft.set("Ready", "False", DELETED, "The resource is being deleted.")
    work.draft.set("Reconciling", "True", DELETED, "The resource is being deleted.")
    _note_end(work)
    for pod in work.alive:
        work.delete(pod)
    if work.alive or not work.seen.live:
        work.look(SOON, live=True)
        return
    current = work.draft.current
    if current is not None and current.ended_at is None:
        work.draft.change(ended_at=work.now)
    if work.seen.executors.running + work.seen.executors.pending:
        work.do(DeleteExecutors(work.draft.number))
    if work.rollback_pending and not roll_back(work):
        return
    work.tell("Normal", "Released", "No driver is left; the resource goes.")
    work.do(RemoveFinalizer())


def _note_end(work: Pass) -> None:
    current = work.draft.current
    if current is None or current.ended_at is not None or current.outcome is not None:
        if current is not None and current.ended_at is None and work.draft.inflight is not None:
            _want_rollback(work)
        return
    work.draft.change(outcome=DELETED, message="The resource was deleted.")
    work.tell("Normal", DELETED, f"Stopping attempt {current.number}: the resource was deleted.")
    if work.draft.inflight is not None:
        _want_rollback(work)


def _want_rollback(work: Pass) -> None:
    """Nobody will come to take up an instant that is left open; it would be in the way of other writers."""
    if not work.rollback_pending:
        work.draft.set(TIMELINE_CLEAN, "False", ROLLBACK_PENDING, "An open instant is to be taken back.")
