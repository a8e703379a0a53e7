"""Table services of a suspended resource: once a day a Job does what is due.

The Job itself says when the last run was: it stays until the next one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import ServicesStatus
from bucketingest_operator.decide.pass_state import SOON, WATCHING, Pass
from bucketingest_operator.decide.plan import CreateServices, DeleteJob
from bucketingest_operator.decide.status import SERVICES_HEALTHY, Truth, shortened
from bucketingest_operator.observation import CompactionJob, JobState

EVERY: Final = timedelta(days=1)
"""Superseded files stay for a day by default: the run after a compaction deletes what it superseded."""
DONE: Final = "Done"
AFTER_FAILURE: Final = timedelta(hours=1)
_HELD: Final = f"exit code {int(ExitCode.TABLE_LOCKED)} "
"""In Kubernetes' message about a pod failure policy: another process held the table."""


def serve_suspended(work: Pass) -> None:
    """Decide about the Job. Call it after what the driver needs, as a driver that starts has the table first."""
    job = next((each for each in work.seen.compaction_jobs if each.does_all), None)
    spec = _spec(work)
    if spec is None:
        if job is not None and not job.terminating:
            work.do(DeleteJob(job.name, job.uid))
        return
    if job is None:
        _create_when_due(work, spec)
        return
    job = _as_known(work, job)
    _report(work, spec, job)
    if job.terminating or job.finished_at is None:
        work.look(WATCHING)
        return
    rest = job.finished_at + (EVERY if job.state is JobState.SUCCEEDED else AFTER_FAILURE) - work.seen.now
    if rest <= timedelta():
        work.do(DeleteJob(job.name, job.uid))
        rest = SOON
    work.look(rest)


def _as_known(work: Pass, job: CompactionJob) -> CompactionJob:
    """The Job, done if it was once: at its deadline Kubernetes ends a pod that only a mesh keeps, as a failure."""
    said = work.draft.services
    if said is None or said.suspended_run != DONE or said.suspended_run_at is None:
        return job
    if job.state is not JobState.FAILED or said.suspended_run_at < job.created_at:
        return job
    return replace(job, state=JobState.SUCCEEDED, finished_at=said.suspended_run_at)


def _spec(work: Pass) -> BucketIngest | None:
    """The spec, if the resource asks for table services now: no driver runs or will."""
    spec, current = work.wanted, work.draft.current
    if spec is None or not work.suspended or not (spec.spec.services.run and spec.spec.services.while_suspended):
        return None
    if current is None or current.ended_at is None or work.resource.status.last_commit is None:
        return None  # there may be no table yet
    return spec


def _create_when_due(work: Pass, spec: BucketIngest) -> None:
    """The first run comes when all log files of the last driver are old enough to be merged."""
    current, seen = work.draft.current, work.seen
    assert current is not None
    assert current.ended_at is not None
    log_age = spec.spec.slo.log_age(spec.spec.services.compaction.log_age)
    rest = current.ended_at + min(log_age, EVERY) - seen.now
    if rest > timedelta():
        work.look(rest)
        return
    rivals = any(each.has_driver or each.holds for each in seen.claims)
    if work.alive or work.rollback_pending or rivals or seen.namespace_terminating:
        return
    if (refusal := seen.fresh_refusal(work.names.services)) is not None:
        work.draft.set(SERVICES_HEALTHY, "False", "JobRefused", refusal.message)
        return
    work.do(CreateServices(spec))
    work.look(SOON)


def _report(work: Pass, spec: BucketIngest, job: CompactionJob) -> None:
    at = job.finished_at or job.created_at
    result, (value, reason, message) = _judged(job)
    before = work.draft.services or ServicesStatus(mode=spec.spec.services.chosen_mode)
    work.draft.services = before.model_copy(update={"suspended_run": result, "suspended_run_at": at})
    work.draft.set(SERVICES_HEALTHY, value, reason, shortened(message))
    if value == "False":
        work.event("Warning", reason, shortened(message), f"{job.name}/{at.isoformat()}")


def _judged(job: CompactionJob) -> tuple[str, tuple[Truth, str, str]]:
    if job.state is JobState.RUNNING:
        return "Running", ("True", "RunsSuspended", f"Job {job.name} does what is due while the pipeline is suspended.")
    if job.state is JobState.SUCCEEDED:
        return DONE, ("True", "DoneSuspended", f"Job {job.name} did what was due while the pipeline is suspended.")
    if _HELD in job.message:
        return "Skipped", ("Unknown", "TableHeld", f"Job {job.name} found the table held by another process.")
    return "Failed", ("False", "SuspendedRunFailed", f"Job {job.name} failed: {job.message} Another one follows.")
