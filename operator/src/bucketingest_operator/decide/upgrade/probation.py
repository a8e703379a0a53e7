"""A changed spec is on probation until it commits. If it does not, the last spec that committed runs again."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Trial, UpgradeStatus
from bucketingest_operator.decide.failures import failure_of
from bucketingest_operator.decide.pass_state import SOON, SPEC_INVALID, SPEC_REFUSED, Pass
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.decide.status import DEGRADED, READY, STALLED, shortened
from bucketingest_operator.decide.upgrade.last_good import asked_again, failed_preflight, has_committed, newest
from bucketingest_operator.observation import PodState

SPEC_NOT_PROVEN: Final = "SpecNotProven"
SPEC_PROVEN: Final = "SpecProven"
PREFLIGHT_FAILED: Final = "PreflightFailed"
"""Also the error class of what the job says about a check that has failed."""
ON_PROBATION: Final = "OnProbation"
SPEC_CHANGED: Final = "SpecChanged"
SILENT: Final = timedelta(minutes=2)
"""A driver that has not answered for so long is not waited for: it may have committed, but another look failed."""


def follow(work: Pass) -> None:
    """Note a commit of the newest attempt, and whether the spec on trial is still the wanted one. Call it first."""
    _note_commit(work)
    upgrade = work.draft.upgrade
    trial = None if upgrade is None else upgrade.trial
    if trial is None:
        return
    if _is_over(work, trial):
        _set_trial(work, None)
        work.draft.set(DEGRADED, "False", SPEC_CHANGED, "The spec that was on trial is no longer wanted.")
    elif trial.failed_at is None:
        work.look(max(trial.until - work.now, timedelta(seconds=1)))
        _report_probation(work, trial)
    else:
        # Again in each pass: the edit of a field that no driver reads is another generation.
        reason = PREFLIGHT_FAILED if failed_preflight(upgrade) else SPEC_NOT_PROVEN
        work.draft.set(DEGRADED, "True", reason, trial.message or "")


def _note_commit(work: Pass) -> None:
    """An attempt that has committed has proven its spec, also if it is being stopped because it had not."""
    current, given, before = work.draft.current, work.attempt_input(), work.draft.upgrade
    seen = newest(work.seen)
    if not work.seen.upgrade_kept or current is None or seen is None or current.number != seen.number:
        return
    if given is None or not has_committed(work.seen):
        return
    trial = None if before is None else before.trial
    if trial is not None and trial.digest == given.spec_digest:
        trial = None
        message = f"Attempt {current.number} has committed with it."
        work.draft.set(DEGRADED, "False", SPEC_PROVEN, message)
        work.event("Normal", SPEC_PROVEN, f"The changed spec is proven. {message}")
    if before is None or before.attempt != current.number or before.trial != trial:
        work.draft.upgrade = UpgradeStatus(
            attempt=current.number,
            generation=current.generation,
            digest=given.spec_digest,
            trial=trial,
            preflight=None if before is None else before.preflight,
        )


def _is_over(work: Pass, trial: Trial) -> bool:
    """Whether something else is wanted now than the spec on trial, or the same once more."""
    wanted = work.resource.wanted
    if wanted is None:
        return False  # nobody knows what is wanted: the driver continues
    suspended = work.suspended and trial.failed_at is None
    return suspended or trial.digest != digest(wanted) or asked_again(work.seen)


def begin(work: Pass, wanted: BucketIngest) -> None:
    """A spec starts, in the newest attempt: on probation if it is not the last one that committed."""
    upgrade = work.draft.upgrade
    if upgrade is None or work.last_good is None or work.is_back:
        return
    key, trial = digest(wanted), upgrade.trial
    if key == upgrade.digest or not wanted.spec.upgrade.probation:
        _set_trial(work, None)
        return
    runs = trial is not None and trial.digest == key and work.now < trial.until
    if trial is None or not runs:
        until = work.now + window(wanted)
        trial = Trial(digest=key, generation=work.resource.generation, attempt=work.draft.number, until=until)
        _set_trial(work, trial)
        _report_probation(work, trial)


def window(wanted: BucketIngest) -> timedelta:
    """Time for a first commit: none can come before an interval has passed."""
    commit = wanted.spec.commit
    interval = commit.interval if commit.mode == "interval" else timedelta()
    trigger = commit.trigger if isinstance(commit.trigger, timedelta) else timedelta()
    return wanted.spec.upgrade.probation + interval + trigger


def why_unproven(work: Pass) -> str | None:
    """Why the spec on trial must give way to the last one that committed; None if it must not, or not yet."""
    upgrade, wanted, current = work.draft.upgrade, work.wanted, work.draft.current
    trial = None if upgrade is None else upgrade.trial
    if trial is None or wanted is None or current is None or trial.failed_at is not None:
        return None
    given = work.attempt_input()
    other = given is not None and given.spec_digest != trial.digest
    if work.last_good is None or other or current.number < trial.attempt:
        return None
    if current.ended_at is not None:
        if _stalls(work):
            return _last_trouble(work, trial)
        late = work.now >= trial.until and failure_of(current.outcome) is not None
        return _last_trouble(work, trial) if late else None
    if work.now < trial.until or _waits_for_input(work, trial, wanted):
        return None
    return _last_trouble(work, trial)


def _stalls(work: Pass) -> bool:
    """Whether no further attempt would be made: more time proves nothing."""
    stalled = work.draft.condition(STALLED)
    return stalled is not None and stalled.status == "True" and stalled.reason not in {SPEC_INVALID, SPEC_REFUSED}


def _waits_for_input(work: Pass, trial: Trial, wanted: BucketIngest) -> bool:
    """Whether the driver could not commit yet: there was no input, or not for as long. Then the probation goes on."""
    pod, contact = work.seen.driver(work.draft.number), work.seen.contact
    if pod is None or pod.state is not PodState.RUNNING:
        return False
    report = contact.report
    if contact.read_at is not None and contact.read_at < trial.until:
        work.look(SOON)  # it may have committed since
        return True
    if contact.unreachable_since is not None:
        work.look(SOON)
        return work.now - contact.unreachable_since < SILENT
    if report is None:
        return False
    whole = window(wanted)
    waited = whole
    if report.idle:
        waited = timedelta()
    elif work.draft.number == trial.attempt and report.lag.seconds is not None:
        # After a failure the next driver sees the same input anew.
        waited = timedelta(seconds=report.lag.seconds)
    if waited >= whole:
        return False
    _set_trial(work, trial.model_copy(update={"until": work.now + whole - waited}))
    return True


def _last_trouble(work: Pass, trial: Trial) -> str:
    """What is known of the reason."""
    stalled = work.draft.condition(STALLED)
    if stalled is not None and _stalls(work):
        return f"{stalled.reason}: {stalled.message}"
    for each in reversed(work.draft.attempts):
        if each.number >= trial.attempt and failure_of(each.outcome) is not None:
            return f"{each.outcome}: {each.message or ''}".strip()
    executors = work.seen.executors
    if executors.pending and not executors.running:  # a probation may be shorter than what health allows a start
        return f"NoExecutors: Executors do not start. {executors.message}".rstrip()
    ready = work.draft.condition(READY)
    if ready is not None and ready.status != "True":
        return f"{ready.reason}: {ready.message}"
    return "It made no commit while input waited."


def fall_back(work: Pass, why: str) -> None:
    """Write into the status that the last spec that committed runs again."""
    upgrade = work.draft.upgrade
    assert upgrade is not None
    assert upgrade.trial is not None
    trial = upgrade.trial
    runs = "the last spec that committed runs again"
    if upgrade.generation is not None:
        runs += f" (generation {upgrade.generation})"
    advice = "Correct the spec, or set a new value of the annotation bucketingest.dev/restart to try it again."
    message = shortened(f"Generation {trial.generation} made no commit in its probation, and {runs}. {advice} {why}")
    _set_trial(work, trial.model_copy(update={"failed_at": work.now, "message": message}))
    work.draft.set(DEGRADED, "True", SPEC_NOT_PROVEN, message)
    work.event("Warning", SPEC_NOT_PROVEN, message, trial.generation)
    work.not_stalled()
    work.look(SOON)


def _set_trial(work: Pass, trial: Trial | None) -> None:
    if work.draft.upgrade is not None:
        work.draft.upgrade = work.draft.upgrade.model_copy(update={"trial": trial})


def _report_probation(work: Pass, trial: Trial) -> None:
    message = f"Generation {trial.generation} has to commit until {trial.until:%Y-%m-%d %H:%M:%SZ}."
    work.draft.set(DEGRADED, "False", ON_PROBATION, message)
