"""The operator's one decision, as a function: what was observed in, what is to be done out. It touches nothing."""

from __future__ import annotations

from datetime import timedelta

from bucketingest_operator.decide.current_attempt import DELETED, carry_on
from bucketingest_operator.decide.next_attempt import decide_next, roll_back
from bucketingest_operator.decide.pass_state import QUIET, ROLLBACK_PENDING, SOON, WATCHING, Pass
from bucketingest_operator.decide.plan import AddFinalizer, DeleteExecutors, Plan, RemoveFinalizer
from bucketingest_operator.decide.status import TIMELINE_CLEAN
from bucketingest_operator.observation import FINALIZER, Observation


def reconcile(seen: Observation) -> Plan:
    """The next steps for one resource.

    Whatever is done twice, or not at all because the operator died, is put right by the next pass: the status says what
    was meant before it is done, names make creations happen once, and nothing starts while a driver can run.
    """
    resource = seen.resource
    work = Pass(seen)
    if resource.deleting:
        if FINALIZER not in resource.finalizers:
            return Plan((), resource.status, QUIET)
        _let_go(work)
        return work.plan()
    if FINALIZER not in resource.finalizers:
        return Plan((AddFinalizer(),), resource.status, timedelta(seconds=1))
    _adopt(work)
    if resource.paused:
        return _only_watch(work)
    _remove_strays(work)
    current = work.draft.current
    if current is not None and current.ended_at is None:
        carry_on(work, current)
        current = work.draft.current
        if current is not None and current.ended_at is None:
            return work.plan()
    decide_next(work)
    return work.plan()


def _adopt(work: Pass) -> None:
    """Take up a driver that the status does not know: the status was lost, or put back."""
    newest = max(work.alive, key=lambda pod: pod.attempt, default=None)
    if newest is not None and newest.attempt > work.draft.number:
        work.draft.adopt(newest.attempt, newest.name, newest.created_at)
        work.tell("Warning", "DriverAdopted", f"The status did not know of attempt {newest.attempt}, which runs.")


def _remove_strays(work: Pass) -> None:
    """End drivers that no attempt which is under way has: of older ones, or of one that the status says is over."""
    current = work.draft.current
    under_way = current.number if current is not None and current.ended_at is None else None
    for pod in work.alive:
        if pod.attempt != under_way:
            work.delete(pod)
            work.tell("Warning", "StrayDriver", f"Deleting {pod.name}: its attempt is not under way.", pod.name)


def _only_watch(work: Pass) -> Plan:
    """Paused: the status says so, and nothing is done."""
    report = work.seen.contact.report
    if report is not None and work.seen.contact.unreachable_since is None:
        work.draft.take_report(report)
    message = "The operator only watches, by the annotation bucketingest.dev/pause."
    work.draft.set("Reconciling", "False", "Paused", message)
    if work.alive:
        # Metrics and alerts are made from what is seen: who does nothing must see as much as ever.
        work.look(WATCHING)
    return work.plan()


def _let_go(work: Pass) -> None:
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
