"""An attempt that has not ended: does its pod exist, is it healthy, must it stop, has it ended?"""

from __future__ import annotations

from datetime import timedelta

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Attempt
from bucketingest_operator.decide.claims import holder_before
from bucketingest_operator.decide.failures import TREATMENTS, Diagnosis, Failure, diagnose, failure_of
from bucketingest_operator.decide.health import has_looked, judge
from bucketingest_operator.decide.pass_state import (
    COMPLETED,
    RESTART_WAITING,
    SOON,
    SPEC_INVALID,
    SPEC_REFUSED,
    WATCHING,
    Pass,
)
from bucketingest_operator.decide.spec_changes import Change, change_since
from bucketingest_operator.decide.status import (
    CHECKPOINT_HEALTHY,
    COMMIT_FRESH,
    READY,
    RECONCILING,
    STALLED,
    TABLES_HEALTHY,
    TABLES_PARKED,
    TIMELINE_CLEAN,
    Truth,
)
from bucketingest_operator.decide.upgrade.last_good import is_back
from bucketingest_operator.decide.upgrade.maintenance import report_window, window_to_wait_for
from bucketingest_operator.decide.upgrade.preflight import must_pass_first, report_check
from bucketingest_operator.decide.upgrade.probation import (
    SPEC_CHANGED,
    SPEC_NOT_PROVEN,
    begin,
    fall_back,
    why_unproven,
)
from bucketingest_operator.observation import Driver, PodReason, PodState
from bucketingest_operator.resource import TABLE_TAKEN

SUSPENDED = "Suspended"
RESTART_ASKED = "RestartAsked"
DELETED = "Deleted"
SECRET_GONE = "SecretGone"  # noqa: S105 - a reason
PLANNED_RESTARTS = frozenset({RESTART_ASKED, SECRET_GONE, SPEC_CHANGED})
"""Ends of drivers that could run on: the operator spreads them over time."""

_NOT_STARTING = {
    PodReason.IMAGE_PULL: Failure.IMAGE_PULL,
    PodReason.CONFIG: Failure.CONFIG,
    PodReason.UNSCHEDULABLE: Failure.UNSCHEDULABLE,
}


def decide_current(work: Pass, current: Attempt) -> None:
    """Decide about the newest attempt, whose end is not in the status yet."""
    pod = work.seen.driver(current.number)
    if current.outcome is not None:
        end(work, current, current.outcome, pod)
    elif pod is None:
        _absent(work, current)
    else:
        if current.started_at is None:
            work.draft.change(started_at=min(pod.created_at, work.now).replace(microsecond=0))
        if not pod.can_run:
            _ended(work, pod)
        else:
            _go_on_or_stop(work, pod)


def _go_on_or_stop(work: Pass, pod: Driver) -> None:
    why = _why_stop(work)
    opens = window_to_wait_for(work) if why is not None and why[0] == SPEC_CHANGED else None
    if opens is not None:
        _watch(work, pod)
        report_window(work, opens)
        return
    # Also if there is no reason to stop: the spec that has failed its check is checked again.
    checked = why is None or why[0] == SPEC_CHANGED
    held = checked and not pod.terminating and pod.state is PodState.RUNNING and must_pass_first(work)
    if why is not None and not held and not _must_wait(work, why[0]):
        stop(work, why[0], why[1], pod)
        return
    _watch(work, pod)
    if held:
        report_check(work)
    elif why is not None:
        _report_waiting(work, why[1])


def end(work: Pass, current: Attempt, outcome: str, pod: Driver | None) -> None:
    """Continue to stop an attempt that must end according to the status: until its pod is gone, or has ended."""
    if pod is not None and pod.can_run:
        work.delete(pod)
        _report_stop(work, outcome, current.message or "")
        return
    if pod is None and work.needs_live():
        return
    failure = failure_of(outcome)
    message = current.message or ""
    work.close(outcome, message, None if failure is None else Diagnosis(failure, message))


def stop(work: Pass, outcome: str, message: str, pod: Driver | None) -> None:
    """Write into the status that the newest attempt must end, and why, then delete its pod."""
    work.draft.change(outcome=outcome, message=message)
    if outcome == SPEC_NOT_PROVEN:
        fall_back(work, message)
    failed = failure_of(outcome) is not None
    number = work.draft.number
    work.event("Warning" if failed else "Normal", outcome, f"Stopping attempt {number}: {message}")
    _report_stop(work, outcome, message)
    if pod is not None:
        work.delete(pod)
    work.look(SOON)


def _report_stop(work: Pass, outcome: str, message: str) -> None:
    """In the same words until the pod has ended: each other one would be a write of the status."""
    said = f"Attempt {work.draft.number} is being stopped. {message}".rstrip()
    work.set_phase("Recovering", "False", outcome, said, working=True)


def _absent(work: Pass, current: Attempt) -> None:
    """No pod: it was not created yet, or it was lost."""
    if work.needs_live():
        return
    if current.started_at is not None:
        diagnosis = diagnose(None)
        assert diagnosis is not None
        work.close(diagnosis.failure.value, diagnosis.message, diagnosis)
        return
    why, spec = _why_stop(work), work.startable
    if why is not None or spec is None:
        # The pod may still appear after this pass; the end is written once a later pass has looked for it again.
        outcome, message = why or (SPEC_INVALID, "The spec cannot be used.")
        stop(work, outcome, message, None)
    elif not work.alive and not work.seen.namespace_terminating:
        if not work.refused():
            work.create(spec)
            begin(work, spec)  # it may be another spec than the one for which the attempt was intended
    else:
        work.look(SOON)


def _ended(work: Pass, pod: Driver) -> None:
    diagnosis = diagnose(pod)
    if diagnosis is None and work.wanted is not None and work.wanted.spec.commit.trigger != "once":
        diagnosis = Diagnosis(Failure.UNKNOWN, "The job ended although commit.trigger is not once.")
    if diagnosis is None:
        said = "" if pod.report is None else pod.report.message
        work.close(COMPLETED, said, None)
        work.event("Normal", COMPLETED, f"Attempt {pod.attempt} has ingested all input.")
    else:
        work.close(diagnosis.failure.value, diagnosis.message, diagnosis)


def _must_wait(work: Pass, outcome: str) -> bool:
    """Whether a driver that works runs on until fewer pipelines restart. One that does not answer may work."""
    ready = work.draft.condition(READY)
    works = ready is not None and ready.status != "False"
    return works and work.seen.restarts_full and outcome in PLANNED_RESTARTS


def _report_waiting(work: Pass, why: str) -> None:
    current = work.draft.current
    if current is not None and current.outcome is None:
        message = f"{why} The restart waits until other pipelines have restarted."
        work.draft.set(RECONCILING, "True", RESTART_WAITING, message)


def _why_stop(work: Pass) -> tuple[str, str] | None:
    """Outcome and sentence if the newest attempt must end although nothing is wrong with it."""
    if work.suspended:
        return SUSPENDED, "spec.suspend is set."
    holder = holder_before(work.resource, work.seen.claims)
    if holder is not None:
        return TABLE_TAKEN, f"The table belongs to {holder.pipeline}."
    unproven = why_unproven(work)
    if unproven is not None:
        return SPEC_NOT_PROVEN, unproven
    given = work.attempt_input()
    if given is None:
        return None
    if given.nonce != work.resource.nonce:
        return RESTART_ASKED, "A restart was requested."
    # Nobody can start the last spec that committed again if its ConfigMap is gone: its driver continues.
    only = work.last_good is None and is_back(work.seen)
    if work.wanted is not None and not only and change_since(given, work.wanted) is Change.RESTART:
        return SPEC_CHANGED, "The spec has changed."
    if work.seen.executors.secret_gone:
        return SECRET_GONE, "The Secret of Spark's ports was deleted; pods wait for it. The next attempt has a new one."
    return None


def _watch(work: Pass, pod: Driver) -> None:
    """A driver pod that should run, and may run."""
    work.look(WATCHING)
    if pod.terminating:
        work.set_phase("Recovering", "False", "DriverTerminating", "The driver pod is being deleted.", working=True)
        work.delete(pod)
    elif pod.state is PodState.PENDING:
        _pending(work, pod)
    else:
        _running(work, pod)
    keep_refusals(work)


def _pending(work: Pass, pod: Driver) -> None:
    failure = _NOT_STARTING.get(pod.reason)
    work.look(SOON)
    work.not_stalled()
    if failure is None:
        work.set_phase("Starting", "False", "DriverPending", pod.message or "The driver pod is starting.", working=True)
        return
    message = f"{TREATMENTS[failure].sentence} {pod.message}".strip()
    before = work.draft.condition("Ready")
    if before is None or before.reason != failure.value:
        work.event("Warning", failure.value, message)
    work.set_phase("Starting", "False", failure.value, message, working=True)


def _running(work: Pass, pod: Driver) -> None:
    resource = work.wanted or work.resource.wanted
    report = work.seen.contact.report
    if report is not None and work.seen.contact.unreachable_since is None:
        work.take_report(report)
        _take_verdict(work)
    work.not_stalled()
    if resource is None:
        work.set_phase(
            "Running",
            "Unknown",
            SPEC_INVALID,
            "The spec cannot be used; the driver continues with the previous one.",
            working=False,
        )
        return
    health = judge(resource.spec, pod, work.seen.contact, work.seen.executors, work.now)
    if health.stuck is not None:
        stop(work, Failure.STUCK.value, health.stuck, pod)
        return
    if health.limit_in is not None:
        work.look(health.limit_in + timedelta(seconds=1))
    if health.waits_for is not None:
        _report_waiting_for(work, health.waits_for, health.fresh, health.fresh_message)
    else:
        _report_health(work, resource, health.fresh, health.fresh_message)


def _report_waiting_for(work: Pass, missing: Failure, fresh: Truth, why: str) -> None:
    reason = missing.value
    message = f"{TREATMENTS[missing].sentence} {why}"
    before = work.draft.condition(READY)
    if before is None or before.reason != reason:
        work.event("Warning", reason, message)
    work.set_phase("Running", "False", reason, message, working=False)
    work.draft.set(COMMIT_FRESH, fresh, reason, message)


def _report_health(work: Pass, resource: BucketIngest, fresh: Truth, message: str) -> None:
    contact = work.seen.contact
    report, ready = contact.report, work.draft.condition(READY)
    # A new leader has had no answer of a driver that has worked before.
    has_worked = report is not None or (ready is not None and ready.status != "False")
    if contact.unreachable_since is not None and has_worked and (report is None or report.phase != "starting"):
        work.set_phase("Running", "Unknown", "DriverUnreachable", message, working=False)
    elif report is None or report.phase == "starting" or not has_looked(report):
        work.look(SOON)
        work.set_phase("Starting", "False", "JobStarting", message, working=True)
    elif fresh == "False":
        work.set_phase("Running", "False", "CommitsLate", message, working=False)
    elif (tables := report.tables) is not None and tables.parked and tables.parked + tables.gone >= tables.known:
        parked = work.draft.condition(TABLES_HEALTHY)
        fresh, message = "Unknown", "" if parked is None else parked.message
        work.set_phase("Running", "False", TABLES_PARKED, message, working=False)
    elif report.phase in {"stopping", "stopped", "failed"}:
        work.set_phase("Recovering", "False", "JobEnding", message, working=True)
    else:
        phase = "Idle" if report.idle else "Running"
        work.set_phase("Idle" if report.idle else "Running", "True", phase, message, working=False)
        latency = resource.spec.slo.commit_latency.total_seconds()
        slow = report.last_commit is not None and report.last_commit.latency_seconds > latency
        note = f"{message} The last commit took longer than slo.commitLatency." if slow else message
        work.draft.set(COMMIT_FRESH, "True", phase, note)
        return
    work.draft.set(COMMIT_FRESH, fresh, "CommitsLate" if fresh == "False" else "NotKnown", message)


def _take_verdict(work: Pass) -> None:
    report = work.seen.contact.report
    if report is None or report.verdict is None:
        return
    word = "".join(part.title() for part in report.verdict.split())
    work.draft.set(CHECKPOINT_HEALTHY, "True", word or "Known", report.verdict_reason or "")
    parked = 0 if report.tables is None else report.tables.parked
    if (report.commits or report.idle) and not parked:
        work.draft.set(TIMELINE_CLEAN, "True", "InStep", "No instant of an earlier attempt is open.")


def keep_refusals(work: Pass) -> None:
    """Report that a spec is refused while the driver continues with the previous one."""
    given = work.attempt_input()
    if work.problems:
        words = "; ".join(f"{each.field} {each.wrong}".strip() for each in work.problems)
        _refuse(work, SPEC_INVALID, f"The driver continues with the previous spec. {words}")
    elif given is not None and work.wanted is not None and change_since(given, work.wanted) is Change.REFUSED:
        _refuse(work, SPEC_REFUSED, "Immutable fields have changed; the driver continues with the previous spec.")


def _refuse(work: Pass, reason: str, message: str) -> None:
    before = work.seen.resource.status.conditions or ()
    if not any(each.type == STALLED and each.reason == reason for each in before):
        work.event("Warning", reason, message)
    work.draft.set(STALLED, "True", reason, message)
