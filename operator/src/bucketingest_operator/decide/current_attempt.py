"""An attempt that is not over: is its pod there, is it well, must it end, has it ended."""

from __future__ import annotations

from datetime import timedelta

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Attempt
from bucketingest_operator.decide.claims import holder_before
from bucketingest_operator.decide.failures import TREATMENTS, Diagnosis, Failure, diagnose, failure_of
from bucketingest_operator.decide.health import judge
from bucketingest_operator.decide.pass_state import COMPLETED, SOON, SPEC_INVALID, SPEC_REFUSED, WATCHING, Pass
from bucketingest_operator.decide.spec_changes import Change, change_since
from bucketingest_operator.decide.status import CHECKPOINT_HEALTHY, COMMIT_FRESH, STALLED, TIMELINE_CLEAN, Truth
from bucketingest_operator.observation import Driver, PodReason, PodState

SUSPENDED = "Suspended"
TABLE_TAKEN = "TableTaken"
RESTART_ASKED = "RestartAsked"
SPEC_CHANGED = "SpecChanged"
DELETED = "Deleted"

_NOT_STARTING = {
    PodReason.IMAGE_PULL: Failure.IMAGE_PULL,
    PodReason.CONFIG: Failure.CONFIG,
    PodReason.UNSCHEDULABLE: Failure.UNSCHEDULABLE,
}


def carry_on(work: Pass, current: Attempt) -> None:
    """Decide about the newest attempt, whose end has not been noted yet."""
    pod = work.seen.driver(current.number)
    if current.outcome is not None:
        end(work, current, current.outcome, pod)
    elif pod is None:
        _absent(work, current)
    else:
        if current.started_at is None:
            work.draft.change(started_at=min(pod.created_at, work.now).replace(microsecond=0))
        if not pod.can_run:
            _over(work, pod)
        elif (why := _why_stop(work)) is not None:
            stop(work, why[0], why[1], pod)
        else:
            _watch(work, pod)


def end(work: Pass, current: Attempt, outcome: str, pod: Driver | None) -> None:
    """Go on ending an attempt that the status says must end: until its pod is really gone, or over."""
    if pod is not None and pod.can_run:
        work.delete(pod)
        waiting = "waiting until its node has ended it" if pod.terminating else "asking it to end"
        work.say("Recovering", "False", outcome, f"Stopping attempt {current.number}: {waiting}.", working=True)
        return
    if pod is None and not work.seen.live:
        work.look(SOON, live=True)
        return
    failure = failure_of(outcome)
    message = current.message or ""
    work.close(outcome, message, None if failure is None else Diagnosis(failure, message))


def stop(work: Pass, outcome: str, message: str, pod: Driver | None) -> None:
    """Note that the newest attempt must end, and why, then have its pod deleted."""
    work.draft.change(outcome=outcome, message=message)
    failed = failure_of(outcome) is not None
    number = work.draft.number
    work.tell("Warning" if failed else "Normal", outcome, f"Stopping attempt {number}: {message}")
    work.say("Recovering", "False", outcome, f"Attempt {number} is being stopped. {message}", working=True)
    if pod is not None:
        work.delete(pod)
    work.look(SOON, live=True)


def _absent(work: Pass, current: Attempt) -> None:
    """No pod: it was not created yet, or it is lost."""
    if not work.seen.live:
        work.look(SOON, live=True)
        return
    if current.started_at is not None:
        diagnosis = diagnose(None)
        assert diagnosis is not None
        work.close(diagnosis.failure.value, diagnosis.message, diagnosis)
        return
    why = _why_stop(work)
    if why is not None or work.wanted is None:
        # The pod may be there all the same when this pass is over; its end is noted when it was looked for again.
        outcome, message = why or (SPEC_INVALID, "The spec cannot be used.")
        stop(work, outcome, message, None)
    elif not work.alive and not work.seen.namespace_terminating:
        work.create(work.wanted)
    else:
        work.look(SOON, live=True)


def _over(work: Pass, pod: Driver) -> None:
    diagnosis = diagnose(pod)
    if diagnosis is None and work.wanted is not None and work.wanted.spec.commit.trigger != "once":
        diagnosis = Diagnosis(Failure.UNKNOWN, "The job ended although its input has no end.")
    if diagnosis is None:
        said = "" if pod.report is None else pod.report.message
        work.close(COMPLETED, said, None)
        work.tell("Normal", COMPLETED, f"Attempt {pod.attempt} has taken all input.")
    else:
        work.close(diagnosis.failure.value, diagnosis.message, diagnosis)


def _why_stop(work: Pass) -> tuple[str, str] | None:
    """Outcome and sentence when the newest attempt must end although nothing is wrong with it."""
    if work.suspended:
        return SUSPENDED, "spec.suspend is set."
    holder = holder_before(work.resource, work.seen.claims)
    if holder is not None:
        return TABLE_TAKEN, f"The table belongs to {holder.pipeline}."
    told = work.told()
    if told is None:
        return None
    if told.nonce != work.resource.nonce:
        return RESTART_ASKED, "A restart was asked for."
    if work.wanted is not None and change_since(told, work.wanted) is Change.RESTART:
        return SPEC_CHANGED, "The spec has changed."
    return None


def _watch(work: Pass, pod: Driver) -> None:
    """A driver pod that is wanted, and may run."""
    work.look(WATCHING)
    if pod.terminating:
        work.say("Recovering", "False", "DriverTerminating", "The driver pod is being deleted.", working=True)
        work.delete(pod)
    elif pod.state is PodState.PENDING:
        _pending(work, pod)
    else:
        _running(work, pod)
    _keep_refusals(work)


def _pending(work: Pass, pod: Driver) -> None:
    failure = _NOT_STARTING.get(pod.reason)
    work.look(SOON)
    work.not_stalled()
    if failure is None:
        work.say("Starting", "False", "DriverPending", pod.message or "The driver pod is starting.", working=True)
        return
    message = f"{TREATMENTS[failure].sentence} {pod.message}".strip()
    before = work.draft.condition("Ready")
    if before is None or before.reason != failure.value:
        work.tell("Warning", failure.value, message)
    work.say("Starting", "False", failure.value, message, working=True)


def _running(work: Pass, pod: Driver) -> None:
    resource = work.resource.wanted
    report = work.seen.contact.report
    if report is not None and work.seen.contact.unreachable_since is None:
        work.draft.take_report(report)
        _take_verdict(work)
    work.not_stalled()
    if resource is None:
        work.say(
            "Running",
            "Unknown",
            SPEC_INVALID,
            "The spec cannot be used; the driver goes on with its own.",
            working=False,
        )
        return
    health = judge(resource.spec, pod, work.seen.contact, work.seen.executors, work.now)
    if health.stuck is not None:
        stop(work, Failure.STUCK.value, health.stuck, pod)
        return
    if health.limit_in is not None:
        work.look(health.limit_in + timedelta(seconds=1))
    _tell_health(work, resource, health.fresh, health.fresh_message)


def _tell_health(work: Pass, resource: BucketIngest, fresh: Truth, message: str) -> None:
    contact = work.seen.contact
    report = contact.report
    if report is None or report.phase == "starting":
        work.look(SOON)
        work.say("Starting", "False", "JobStarting", message, working=True)
    elif contact.unreachable_since is not None:
        work.say("Running", "Unknown", "DriverUnreachable", message, working=False)
    elif fresh == "False":
        work.say("Running", "False", "CommitsLate", message, working=False)
    elif report.phase in {"stopping", "stopped", "failed"}:
        work.say("Recovering", "False", "JobEnding", message, working=True)
    else:
        phase = "Idle" if report.idle else "Running"
        work.say("Idle" if report.idle else "Running", "True", phase, message, working=False)
        latency = resource.spec.slo.commit_latency.total_seconds()
        slow = report.last_commit is not None and report.last_commit.latency_seconds > latency
        note = f"{message} The last one took longer than slo.commitLatency." if slow else message
        work.draft.set(COMMIT_FRESH, "True", phase, note)
        return
    work.draft.set(COMMIT_FRESH, fresh, "CommitsLate" if fresh == "False" else "NotKnown", message)


def _take_verdict(work: Pass) -> None:
    report = work.seen.contact.report
    if report is None or report.verdict is None:
        return
    word = "".join(part.title() for part in report.verdict.split())
    work.draft.set(CHECKPOINT_HEALTHY, "True", word or "Known", report.verdict_reason or "")
    if report.commits or report.idle:
        work.draft.set(TIMELINE_CLEAN, "True", "InStep", "No instant of an earlier attempt is open.")


def _keep_refusals(work: Pass) -> None:
    """Say that a spec is refused while the driver goes on with the one before it."""
    told = work.told()
    if work.problems:
        words = "; ".join(f"{each.field} {each.wrong}".strip() for each in work.problems)
        _refuse(work, SPEC_INVALID, f"The driver goes on with the spec before. {words}")
    elif told is not None and work.wanted is not None and change_since(told, work.wanted) is Change.REFUSED:
        _refuse(work, SPEC_REFUSED, "Fields that are immutable have changed; the driver goes on with the spec before.")


def _refuse(work: Pass, reason: str, message: str) -> None:
    before = work.seen.resource.status.conditions or ()
    if not any(each.type == STALLED and each.reason == reason for each in before):
        work.tell("Warning", reason, message)
    work.draft.set(STALLED, "True", reason, message)
