"""No attempt runs: should one start, and when? Nothing starts before the last driver is really gone."""

from __future__ import annotations

from typing import Final

from bucketingest.exit_codes import ENDINGS, ExitCode, Remedy
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Attempt
from bucketingest_operator.decide.backoff import DENIED_AGAIN, wait_after
from bucketingest_operator.decide.claims import holder_before, still_writing
from bucketingest_operator.decide.current_attempt import keep_refusals
from bucketingest_operator.decide.pass_state import COMPLETED, SOON, SPEC_INVALID, SPEC_REFUSED, Pass
from bucketingest_operator.decide.plan import CreateRollback, DeleteAttempt, DeleteExecutors
from bucketingest_operator.decide.spec_changes import Change, change_since
from bucketingest_operator.decide.status import COMMIT_FRESH, STALLED, TIMELINE_CLEAN
from bucketingest_operator.decide.upgrade.probation import begin
from bucketingest_operator.observation import JobState
from bucketingest_operator.resource import TABLE_TAKEN

_ONLY_A_PERSON: Final = {
    code for code, ending in ENDINGS.items() if ending.remedy is Remedy.PERSON and code is not ExitCode.ACCESS_DENIED
}
"""Exit codes of a rollback after which no start can help. Credentials may be renewed."""
ROLLING_BACK: Final = "RollingBack"
_SWEPT_MAX: Final = 4
"""Old attempts that a pass deletes at the same time."""
ROLLBACK_TRIES: Final = 3
"""How often a rollback Job is created anew that the API server refuses. The next start rolls back too."""


def decide_next(work: Pass) -> None:
    """Decide what follows the newest attempt, which has ended, or starts the first."""
    sweep(work)
    spec = work.startable
    if spec is None or (work.wanted is None and work.suspended):
        words = "; ".join(f"{each.field} {each.wrong}".strip() for each in work.problems)
        work.stall(SPEC_INVALID, words or "The spec cannot be used.")
        return
    if _table_taken(work):
        return
    current = work.draft.current
    # A start rolls back too, and first of all: a Job before it would only make the outage longer.
    starts = not work.suspended and (current is None or not _must_rest(work, spec, current))
    has_job = work.seen.job(work.draft.number) is not None
    if work.rollback_pending and (has_job or not starts) and not roll_back(work):
        return
    if work.suspended:
        work.not_stalled()
        # As asked: tools that wait for Ready, such as Flux and Helm, would never end.
        work.set_phase("Suspended", "True", "Suspended", "spec.suspend is set.", working=False)
        work.draft.set(COMMIT_FRESH, "Unknown", "Suspended", "spec.suspend is set.")
        return
    if current is None or not _must_rest(work, spec, current):  # again: the rollback may have stalled it
        _start(work, spec)
    if work.wanted is None:
        keep_refusals(work)


def sweep(work: Pass) -> None:
    """Delete the objects of old attempts; the newest two keep their pods for the logs."""
    seen = work.seen
    if seen.executors.running + seen.executors.pending and work.draft.current is not None:
        work.do(DeleteExecutors(work.draft.number))
    ended, with_job = {pod.attempt for pod in seen.drivers if not pod.can_run}, {job.attempt for job in seen.jobs}
    old = {number for number in ended | with_job | set(seen.inputs) if number < work.draft.number - 1}
    # The ConfigMap of the last attempt that committed holds the spec that may have to run again.
    kept = set() if work.draft.upgrade is None else {work.draft.upgrade.attempt}
    for number in sorted(old - kept - {pod.attempt for pod in work.alive})[:_SWEPT_MAX]:
        work.do(DeleteAttempt(number, number in ended, number in with_job))


def roll_back(work: Pass) -> bool:
    """A Job rolls back the open instant. Returns whether it has ended, successful or not: a start would also do it."""
    number = work.draft.number
    job = work.seen.job(number)
    if job is None:
        return not _create_rollback(work)
    if job.state is JobState.RUNNING:
        work.set_phase("Recovering", "False", ROLLING_BACK, f"Rolling back after attempt {number}.", working=True)
        work.look(SOON)
        return False
    if job.state is JobState.SUCCEEDED:
        work.draft.nothing_inflight()
        work.draft.set(TIMELINE_CLEAN, "True", "RolledBack", f"Rolled back after attempt {number}.")
        work.event("Normal", "RolledBack", f"The open instant of attempt {number} was rolled back.")
        return True
    message = f"The rollback after attempt {number} failed. {job.message}".strip()
    work.draft.set(TIMELINE_CLEAN, "False", "RollbackFailed", message)
    work.event("Warning", "RollbackFailed", message)
    if job.exit_code in _ONLY_A_PERSON:
        work.stall("RollbackFailed", message)
    return True


def _create_rollback(work: Pass) -> bool:
    """Create the Job, once no driver can run. Returns whether to wait for it."""
    if work.startable is None or work.seen.namespace_terminating:
        work.draft.set(
            TIMELINE_CLEAN, "Unknown", "RollbackImpossible", "No Job can be created; the next start rolls it back."
        )
        return False
    if work.startable.spec.tables is not None:
        message = "The next start rolls back what is open in each table, or `bucketingest rollback` with its path."
        work.draft.set(TIMELINE_CLEAN, "Unknown", "RolledBackAtStart", message)
        return False
    refusal = work.seen.creation_refusal
    if refusal is not None and refusal.times >= ROLLBACK_TRIES:
        # Neither a deletion nor the next start may wait for ever for a Job that the cluster does not want.
        message = f"No Job rolled back after attempt {work.draft.number}: {refusal.message}"
        work.draft.set(TIMELINE_CLEAN, "False", "RollbackFailed", message)
        work.event("Warning", "RollbackFailed", message)
        return False
    if work.refused():
        return True
    work.look(SOON)
    work.set_phase("Recovering", "False", ROLLING_BACK, "The open instant will be rolled back.", working=True)
    if not work.alive and not work.needs_live():
        work.do(CreateRollback(work.draft.number, work.startable))
        work.event("Normal", ROLLING_BACK, f"Rolling back after attempt {work.draft.number}.")
    return True


def _table_taken(work: Pass) -> bool:
    holder = holder_before(work.resource, work.seen.claims)
    if holder is None:
        return False
    work.not_stalled()
    message = f"The table belongs to {holder.pipeline}."
    before = work.draft.condition("Ready")
    if before is None or before.reason != TABLE_TAKEN:
        work.event("Warning", TABLE_TAKEN, message, holder.uid)
    work.set_phase("Pending", "False", TABLE_TAKEN, message, working=True)
    return True


def _must_rest(work: Pass, wanted: BucketIngest, current: Attempt) -> bool:
    """Whether nothing may start after this attempt, now or ever."""
    given = work.attempt_input()
    change = Change.NONE if given is None else change_since(given, wanted)
    if change is Change.REFUSED:
        work.stall(SPEC_REFUSED, "Immutable fields have changed: undo the change.")
        return True
    asked = given is not None and (change is Change.RESTART or given.nonce != work.resource.nonce)
    if asked:
        return False
    if current.outcome == COMPLETED:
        work.not_stalled()
        work.set_phase("Completed", "True", COMPLETED, "All input has been ingested.", working=False)
        return True
    stalled = work.draft.condition(STALLED)
    # The last spec that committed runs on although the wanted one cannot be used.
    other = stalled is not None and stalled.reason in {SPEC_INVALID, SPEC_REFUSED} and wanted == work.last_good
    if stalled is not None and stalled.status == "True" and not other:
        if not work.stalled:
            return False  # another generation of the spec
        if work.tries_again and current.ended_at is not None:
            rest = current.ended_at + DENIED_AGAIN - work.now
            if rest.total_seconds() <= 0:
                return False
            work.look(rest)
        # A rollback in between has set another message.
        work.stall(stalled.reason, stalled.message)
        return True
    assert current.ended_at is not None
    rest = current.ended_at + wait_after(work.resource.uid, work.draft.attempts) - work.now
    if rest.total_seconds() <= 0:
        return False
    work.not_stalled()
    work.set_phase(
        "Recovering", "False", current.outcome or "Failed", f"{current.message or ''} Next attempt soon.", working=True
    )
    work.look(rest)
    return True


def _start(work: Pass, wanted: BucketIngest) -> None:
    other = still_writing(work.seen.claims)
    work.not_stalled()
    if other is not None:
        message = f"The driver of {other.pipeline} is being stopped: the table belongs to this pipeline."
        work.set_phase("Pending", "False", TABLE_TAKEN, message, working=True)
        work.look(SOON)
    elif work.alive or work.seen.namespace_terminating:
        work.set_phase("Pending", "False", "WaitingForDriver", "Waiting for an earlier driver to end.", working=True)
        work.look(SOON)
    elif not work.needs_live():
        work.start(wanted)
        begin(work, wanted)
