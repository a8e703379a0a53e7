"""The operator's one decision, as a function: what was observed in, what is to be done out. It touches nothing."""

from __future__ import annotations

from datetime import timedelta

from bucketingest_operator.between import decide_next
from bucketingest_operator.deletion import let_go
from bucketingest_operator.observation import FINALIZER, Observation
from bucketingest_operator.plan import AddFinalizer, Plan
from bucketingest_operator.running import carry_on
from bucketingest_operator.working import QUIET, WATCHING, Pass


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
        let_go(work)
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
