"""A changed spec is checked by a Job before the driver that runs, and commits, is stopped for it.

The check protects a driver that does well. Where there is none, a changed spec starts at once: a repair must not wait.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.quantity import format_duration
from bucketingest.spec.status import Preflight, Trial
from bucketingest_operator.decide.failures import TREATMENTS, Failure, failure_of
from bucketingest_operator.decide.pass_state import CREATION_REFUSED, RESTART_WAITING, SOON, WATCHING, Pass
from bucketingest_operator.decide.plan import CreateCheck, DeleteJob
from bucketingest_operator.decide.spec_changes import Change, change_since, digest
from bucketingest_operator.decide.status import DEGRADED, READY, RECONCILING, shortened
from bucketingest_operator.decide.upgrade.last_good import FAILED, failed_preflight
from bucketingest_operator.decide.upgrade.probation import PREFLIGHT_FAILED
from bucketingest_operator.observation import CheckJob, JobState, PodReason

PENDING: Final = "Pending"
PASSED: Final = "Passed"
NOT_RUN: Final = "NotRun"
SKIPPED: Final = "Skipped"

PREFLIGHT_RUNNING: Final = "PreflightRunning"
PREFLIGHT_PASSED: Final = "PreflightPassed"
PREFLIGHT_NOT_RUN: Final = "PreflightNotRun"
PREFLIGHT_SKIPPED: Final = "PreflightSkipped"

PATIENCE: Final = timedelta(minutes=1)
"""A pod whose image or Secrets are missing for so long will not start."""
LIMIT: Final = timedelta(minutes=15)
"""A spec that could not be checked for so long is taken over without a check: probation still protects the table."""
SPEC_MAX: Final = 200_000
"""Characters of a spec that a pod's annotation holds, beside all others: Kubernetes allows 256 KiB."""
_BACKOFF: Final = timedelta(minutes=1)
_BACKOFF_CAP: Final = timedelta(minutes=30)

_NOT_STARTING: Final = {PodReason.IMAGE_PULL: Failure.IMAGE_PULL, PodReason.CONFIG: Failure.CONFIG}
"""What keeps a driver of the same spec from starting, too. No room is not among it: the driver that runs has it."""

_FROM_OUTSIDE: Final = frozenset({Failure.DRIVER_LOST, Failure.STOPPED, Failure.EVICTED})
_UNWELL: Final = frozenset(
    {
        CREATION_REFUSED,
        "CommitsLate",
        *(each.value for each in (Failure.CONFIG, Failure.IMAGE_PULL, Failure.NO_EXECUTORS, Failure.UNSCHEDULABLE)),
    }
)
"""Reasons of Ready of a driver that does not do its work, and does not just start."""


def lift(work: Pass) -> bool:
    """Let a spec that has failed its check start if there is nothing left to protect, or the check is switched off.

    Returns whether it did: the next pass starts it, this one has decided for the other.
    """
    upgrade, wanted = work.draft.upgrade, work.resource.wanted
    if upgrade is None or wanted is None or not failed_preflight(upgrade):
        return False
    if wanted.spec.upgrade.preflight and not _is_unwell(work):
        return False
    why = "The driver that runs does not do well." if wanted.spec.upgrade.preflight else "upgrade.preflight is false."
    message = f"The changed spec is taken over although it has not passed its preflight. {why}"
    work.draft.upgrade = upgrade.model_copy(update={"trial": None, "preflight": None})
    work.draft.set(DEGRADED, "False", PREFLIGHT_SKIPPED, message)
    work.event("Warning", PREFLIGHT_SKIPPED, message, work.resource.generation)
    work.look(timedelta(seconds=1))
    return True


def must_pass_first(work: Pass) -> bool:
    """Whether the newest attempt goes on although its spec has changed: the changed one has not passed its check.

    Decides the next step of the check.
    """
    upgrade, wanted = work.draft.upgrade, work.resource.wanted
    if upgrade is None or wanted is None or not _is_due(work, wanted):
        return False
    key = digest(wanted)
    known = upgrade.preflight if upgrade.preflight is not None and upgrade.preflight.digest == key else None
    gave_way = upgrade.trial is not None and upgrade.trial.failed_at is not None and upgrade.trial.digest == key
    if (gave_way and not failed_preflight(upgrade)) or not _is_protected(work, is_known=known is not None):
        return False
    if known is None and work.seen.restarts_full:
        return True  # its time counts from its turn
    work.kept_preflight = work.names.preflight(key)
    found = known or Preflight(
        digest=key, generation=work.resource.generation, since=work.now, result=PENDING, message=None
    )
    if found.result not in {PASSED, SKIPPED}:
        found = _next_step(work, found, wanted)
    _note(work, found)
    return found.result not in {PASSED, SKIPPED}


def report_check(work: Pass) -> None:
    """Say that the restart waits for the check, after the driver's health was reported."""
    found = None if work.draft.upgrade is None else work.draft.upgrade.preflight
    if work.kept_preflight is None:
        message = "The spec has changed. Its preflight waits until other pipelines have restarted."
        work.draft.set(RECONCILING, "True", RESTART_WAITING, message)
    elif found is not None and found.result in {PENDING, NOT_RUN}:
        reason = PREFLIGHT_RUNNING if found.result == PENDING else PREFLIGHT_NOT_RUN
        work.draft.set(RECONCILING, "True", reason, _progress(work, found))


def tidy(work: Pass) -> None:
    """Delete Jobs of specs that are not being checked, and forget what they said. Call it last."""
    current, upgrade = work.draft.current, work.draft.upgrade
    runs = current is not None and current.ended_at is None and current.outcome is None
    kept = work.kept_preflight if runs else None
    for job in work.seen.preflights:
        if job.name != kept and not job.terminating:
            work.do(DeleteJob(job.name, job.uid))
    if kept is None and upgrade is not None and not failed_preflight(upgrade):
        work.draft.upgrade = upgrade.model_copy(update={"preflight": None})


def _is_due(work: Pass, wanted: BucketIngest) -> bool:
    """Whether the driver that runs has proven its spec, and another one is wanted instead, not just a restart."""
    given, upgrade = work.attempt_input(), work.draft.upgrade
    if given is None or upgrade is None or work.suspended or work.problems:
        return False
    if not wanted.spec.upgrade.preflight:
        return False
    proven = given.spec_digest == upgrade.digest and given.nonce == work.resource.nonce
    return proven and change_since(given, wanted) is Change.RESTART


def _next_step(work: Pass, found: Preflight, wanted: BucketIngest) -> Preflight:
    job = next((each for each in work.seen.preflights if each.name == work.kept_preflight), None)
    work.look(WATCHING)
    if job is None or job.terminating:
        after = _try_when_due(work, found, wanted, gone=job is None)
    elif job.uid == found.job:
        if _rest(work, found) <= timedelta():
            work.do(DeleteJob(job.name, job.uid))
            work.look(SOON)
        after = found
    elif job.state is JobState.RUNNING:
        after = _running(work, found, job)
    else:
        after = _ended(work, found, job)
    if after.result in {PENDING, NOT_RUN} and work.now - found.since >= LIMIT:
        return _skipped(work, after, f"It could not be run for {format_duration(LIMIT)}. {after.message or ''}".strip())
    return after


def _try_when_due(work: Pass, found: Preflight, wanted: BucketIngest, *, gone: bool) -> Preflight:
    rest, refusal = _rest(work, found), work.seen.refusal(work.names.preflight(found.digest))
    if rest > timedelta() or not gone or work.seen.namespace_terminating:
        work.look(max(rest, SOON))
        return found
    if refusal is not None and refusal.at >= found.since:
        if refusal.about_driver and (found.last_end is None or found.last_end < refusal.at.replace(microsecond=0)):
            return _failed(work, found, refusal.message, None)
        if not refusal.about_driver and refusal.is_fresh(work.seen.now):
            result = FAILED if found.result == FAILED else NOT_RUN
            message = found.message if result == FAILED else shortened(f"The Job is refused: {refusal.message}")
            return found.model_copy(update={"result": result, "message": message})
    if work.seen.restarts_full:
        work.look(SOON)
        return found
    if _is_too_large(wanted):
        return _skipped(work, found, "It is too large for a pod's annotation.")
    if found.result == PENDING and found.tries == 0:
        work.event("Normal", PREFLIGHT_RUNNING, _progress(work, found), found.generation)
    work.do(CreateCheck("preflight", work.draft.number, found.digest, wanted))
    work.look(SOON)
    return found


def _is_too_large(wanted: BucketIngest) -> bool:
    metadata = wanted.metadata.model_copy(update={"annotations": {}})
    return len(wanted.model_copy(update={"metadata": metadata}).to_yaml()) > SPEC_MAX


def _running(work: Pass, found: Preflight, job: CheckJob) -> Preflight:
    work.look(SOON)
    failure = _NOT_STARTING.get(job.waiting)
    if failure is not None and work.now - job.created_at >= PATIENCE:
        work.do(DeleteJob(job.name, job.uid))
        return _failed(work, found, f"{failure.value}: {TREATMENTS[failure].sentence} {job.message}".strip(), job)
    if job.waiting is PodReason.NONE or found.result == FAILED:
        return found
    return found.model_copy(update={"message": shortened(f"Its pod does not start: {job.message}")})


def _ended(work: Pass, found: Preflight, job: CheckJob) -> Preflight:
    report = job.report
    if job.state is JobState.SUCCEEDED:
        message = f"Generation {found.generation} has passed its preflight."
        work.event("Normal", PREFLIGHT_PASSED, message, found.generation)
        work.draft.set(DEGRADED, "False", PREFLIGHT_PASSED, message)
        work.look(timedelta(seconds=1))
        return found.model_copy(update={"result": PASSED, "message": None})
    if report is not None and report.error_class == PREFLIGHT_FAILED:
        return _failed(work, found, report.message, job)
    if report is not None and report.exit_code == ExitCode.BAD_INPUT:
        return _skipped(work, found, "Its image is of a release that has no preflight.")
    update = {
        "tries": found.tries + 1,
        "last_end": work.now,
        "job": job.uid,
        # What a check has found stays true until one passes.
        **({} if found.result == FAILED else {"result": NOT_RUN, "message": shortened(_said(job))}),
    }
    after = found.model_copy(update=update)
    work.look(_rest(work, after))
    if after.result == NOT_RUN:
        work.event("Warning", PREFLIGHT_NOT_RUN, _progress(work, after), f"{found.generation}/{after.tries}")
    return after


def _said(job: CheckJob) -> str:
    return job.report.message if job.report is not None else job.message or "Its pod left no message."


def _failed(work: Pass, found: Preflight, why: str, job: CheckJob | None) -> Preflight:
    after = found.model_copy(
        update={
            "result": FAILED,
            "tries": found.tries + 1,
            "last_end": work.now,
            "job": None if job is None else job.uid,
            "message": shortened(why),
        }
    )
    work.look(_rest(work, after))
    return after


def _skipped(work: Pass, found: Preflight, why: str) -> Preflight:
    message = f"Generation {found.generation} is taken over without a preflight. {why}"
    work.event("Warning", PREFLIGHT_SKIPPED, message, found.generation)
    work.draft.set(DEGRADED, "False", PREFLIGHT_SKIPPED, message)
    work.look(timedelta(seconds=1))
    return found.model_copy(update={"result": SKIPPED, "message": shortened(why)})


def _rest(work: Pass, found: Preflight) -> timedelta:
    """Time to the next try."""
    if found.last_end is None:
        return timedelta()
    wait = min(_BACKOFF * 2 ** min(max(found.tries - 1, 0), 10), _BACKOFF_CAP)
    return min(found.last_end, work.now) + wait - work.now


def _note(work: Pass, found: Preflight) -> None:
    """Write it into the status. A spec that fails counts as one that did not commit: the last that did runs."""
    upgrade = work.draft.upgrade
    assert upgrade is not None
    trial = upgrade.trial
    if found.result == FAILED:
        message = _advice(work, found)
        same = trial is not None and trial.digest == found.digest and trial.message == message
        if not same:
            at = trial.failed_at if trial is not None and trial.digest == found.digest else None
            trial = Trial(
                digest=found.digest,
                generation=found.generation,
                attempt=work.draft.number,
                until=at or work.now,
                failed_at=at or work.now,
                message=message,
            )
            work.event("Warning", PREFLIGHT_FAILED, message, found.generation)
        work.draft.set(DEGRADED, "True", PREFLIGHT_FAILED, message)
    elif trial is not None and trial.digest == found.digest and trial.failed_at is not None:
        trial = None
    elif found.result in {PENDING, NOT_RUN}:
        reason = PREFLIGHT_RUNNING if found.result == PENDING else PREFLIGHT_NOT_RUN
        work.draft.set(DEGRADED, "False", reason, _progress(work, found))
    work.draft.upgrade = upgrade.model_copy(update={"trial": trial, "preflight": found})


def _progress(work: Pass, found: Preflight) -> str:
    if found.result == NOT_RUN:
        until = found.since + LIMIT
        return shortened(
            f"Generation {found.generation} cannot be checked: this is tried again, and at {until:%H:%M:%SZ} the spec "
            f"is taken over without a preflight. {found.message or ''}"
        ).strip()
    return (
        f"Generation {found.generation} is checked; attempt {work.draft.number} runs on. {found.message or ''}".strip()
    )


def _advice(work: Pass, found: Preflight) -> str:
    return shortened(
        f"Generation {found.generation} has not passed its preflight: attempt {work.draft.number} runs on with the "
        "previous spec. Correct the spec; the check is also repeated. A new value of the annotation "
        f"bucketingest.dev/restart takes the spec over without it. {found.message or ''}"
    ).strip()


def _is_protected(work: Pass, *, is_known: bool) -> bool:
    """Whether the driver does well. During a check it may restart: that alone does not let a wrong spec in."""
    ready = work.draft.condition(READY)
    if ready is None:
        return False
    return ready.status != "False" or (is_known and ready.reason not in _UNWELL)


def _is_unwell(work: Pass) -> bool:
    """Whether the last spec that committed does not do its work any more, by its own fault or by what it needs."""
    current, ready = work.draft.current, work.draft.condition(READY)
    if current is not None and current.outcome is not None:
        failure = failure_of(current.outcome)
        return failure is not None and failure not in _FROM_OUTSIDE
    return ready is not None and ready.status == "False" and ready.reason in _UNWELL
