"""The operator's decision as a pure function: from an observation to a plan."""

from __future__ import annotations

from datetime import timedelta

from bucketingest_operator.decide.current_attempt import DELETED, decide_current
from bucketingest_operator.decide.next_attempt import ROLLING_BACK, decide_next, roll_back
from bucketingest_operator.decide.pass_state import QUIET, ROLLBACK_PENDING, WATCHING, Pass
from bucketingest_operator.decide.plan import AddFinalizer, DeleteExecutors, Plan, RemoveFinalizer
from bucketingest_operator.decide.services.audit import decide_audit
from bucketingest_operator.decide.services.compaction_job import decide_services, delete_jobs
from bucketingest_operator.decide.status import TIMELINE_CLEAN
from bucketingest_operator.decide.upgrade.preflight import lift, tidy
from bucketingest_operator.decide.upgrade.probation import SPEC_NOT_PROVEN, fall_back, follow, why_unproven
from bucketingest_operator.observation import Observation
from bucketingest_operator.resource import FINALIZER

UNKNOWN_FIELDS = "UnknownFields"


def reconcile(seen: Observation) -> Plan:
    """The next steps for one resource.

    The next pass repairs what was done twice, or not at all because the operator died: the status records an intent
    before it is carried out, names make each creation happen once, and nothing starts while a driver can run.
    """
    resource = seen.resource
    work = Pass(seen)
    if resource.deleting:
        if FINALIZER not in resource.finalizers:
            return Plan((), resource.status, QUIET)
        _finish_deletion(work)
        return work.plan()
    if FINALIZER not in resource.finalizers:
        return Plan((AddFinalizer(),), resource.status, timedelta(seconds=1))
    _report_unknown(work)
    _adopt(work)
    if resource.paused:
        return _only_watch(work)
    _remove_strays(work)
    if lift(work):
        tidy(work)
        return work.plan()
    follow(work)
    current = work.draft.current
    if current is not None and current.ended_at is None:
        decide_current(work, current)
        current = work.draft.current
        if current is not None and current.ended_at is None:
            decide_services(work)
            decide_audit(work)
            tidy(work)
            return work.plan()
    why = why_unproven(work)
    if why is not None:
        # The next pass starts the last spec that committed: this one has decided for the other.
        fall_back(work, why)
        work.set_phase("Recovering", "False", SPEC_NOT_PROVEN, why, working=True)
        tidy(work)
        return work.plan()
    decide_next(work)
    decide_services(work)
    decide_audit(work)
    tidy(work)
    return work.plan()


def _report_unknown(work: Pass) -> None:
    """Tell the author of a spec which of its fields have no effect."""
    resource = work.resource
    if resource.unknown and resource.status.observed_generation != resource.generation:
        message = f"This operator is too old for these fields, and ignores them: {', '.join(resource.unknown)}."
        work.event("Warning", UNKNOWN_FIELDS, message, resource.generation)


def _adopt(work: Pass) -> None:
    """Adopt a driver that the status does not know: the status was lost, or restored from a backup."""
    newest = max(work.alive, key=lambda pod: pod.attempt, default=None)
    if newest is not None and newest.attempt > work.draft.number:
        work.draft.adopt(newest.attempt, newest.name, newest.created_at)
        work.event("Warning", "DriverAdopted", f"The status did not know of attempt {newest.attempt}, which runs.")


def _remove_strays(work: Pass) -> None:
    """Delete drivers that do not belong to the running attempt: of older attempts, or of one that has ended."""
    current = work.draft.current
    running = current.number if current is not None and current.ended_at is None else None
    for pod in work.alive:
        if pod.attempt != running:
            work.delete(pod)
            work.event("Warning", "StrayDriver", f"Deleting {pod.name}: its attempt should not run.", pod.name)


def _only_watch(work: Pass) -> Plan:
    """Paused: report it in the status, and do nothing."""
    report = work.seen.contact.report
    if report is not None and work.seen.contact.unreachable_since is None:
        work.take_report(report)
    message = "The operator only watches: the annotation bucketingest.dev/pause is true."
    work.draft.set("Reconciling", "False", "Paused", message)
    if work.alive:
        # Metrics and alerts depend on observations: a paused operator must observe as often as ever.
        work.look(WATCHING)
    return work.plan()


def _finish_deletion(work: Pass) -> None:
    """Decide the next step of a deletion. After the finalizer is removed, Kubernetes deletes the owned objects."""
    work.not_stalled()
    ready = work.draft.condition("Ready")
    # A process that starts while a rollback is on its way would else write another status than the next pass does.
    if work.alive or ready is None or ready.reason != ROLLING_BACK:
        work.draft.set("Ready", "False", DELETED, "The resource is being deleted.")
        work.draft.set("Reconciling", "True", DELETED, "The resource is being deleted.")
    _note_end(work)
    delete_jobs(work)
    tidy(work)
    for pod in work.alive:
        work.delete(pod)
    if work.alive or work.needs_live():
        return
    current = work.draft.current
    if current is not None and current.ended_at is None:
        work.draft.change(ended_at=work.now)
    if work.seen.executors.running + work.seen.executors.pending:
        work.do(DeleteExecutors(work.draft.number))
    if work.rollback_pending and not roll_back(work):
        return
    work.event("Normal", "Released", "No driver is left; the resource can be deleted.")
    work.do(RemoveFinalizer())


def _note_end(work: Pass) -> None:
    current = work.draft.current
    if current is None or current.ended_at is not None or current.outcome is not None:
        if current is not None and current.ended_at is None and work.draft.inflight is not None:
            _want_rollback(work)
        return
    work.draft.change(outcome=DELETED, message="The resource was deleted.")
    work.event("Normal", DELETED, f"Stopping attempt {current.number}: the resource was deleted.")
    if work.draft.inflight is not None:
        _want_rollback(work)


def _want_rollback(work: Pass) -> None:
    """No later attempt will roll back an open instant, and it would block other writers."""
    if not work.rollback_pending:
        work.draft.set(TIMELINE_CLEAN, "False", ROLLBACK_PENDING, "The open instant must be rolled back.")
