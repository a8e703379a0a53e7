"""Table services: the Job whose pods merge for a compaction, and what status and condition say of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.spec.job_report import CompactionWork, ServicesReport
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import ServicesStatus
from bucketingest_operator.decide.pass_state import COMPLETED, SOON, Pass
from bucketingest_operator.decide.plan import CreateCompaction, DeleteJob
from bucketingest_operator.decide.services.health import judge_services
from bucketingest_operator.decide.services.suspended import serve_suspended
from bucketingest_operator.decide.spec_changes import compaction_digest
from bucketingest_operator.decide.status import SERVICES_HEALTHY, STALLED, shortened
from bucketingest_operator.observation import CompactionJob, JobState
from bucketingest_operator.resource import TABLE_TAKEN

_AGAIN: Final = {JobState.SUCCEEDED: timedelta(minutes=2), JobState.FAILED: timedelta(minutes=10)}
"""When another Job follows one that has ended while its work is still wanted. The driver looks at results each 10 s."""


def decide_services(work: Pass) -> None:
    """Decide about the Job of a compaction, and report table services. Call it last: after what the driver needs."""
    report = _report(work)
    if report is not None:
        _take(work, report)
    elif _answers(work) and work.wanted is not None and not work.wanted.spec.services.run:
        work.draft.services = None
    serve_suspended(work)
    if _rests(work):
        _keep_only(work, None)
        return
    if report is None:  # nobody knows yet what the driver wants, and Jobs stay: one that is not wanted ends by itself
        return
    _keep_only(work, report.job)
    if report.job is not None and work.wanted is not None:
        _ensure(work, report.job, work.wanted)
    if work.resource.wanted is not None:
        _judge(work, report, work.resource.wanted)


def delete_jobs(work: Pass) -> None:
    """Delete every Job that has not ended: what its pods have made is found by the next one."""
    for job in work.seen.compaction_jobs:
        _delete(work, job)


def _answers(work: Pass) -> bool:
    """Whether the driver of the running attempt has just answered."""
    current = work.draft.current
    contact = work.seen.contact
    runs = current is not None and current.ended_at is None and current.outcome is None
    return runs and contact.report is not None and contact.unreachable_since is None


def _report(work: Pass) -> ServicesReport | None:
    report = work.seen.contact.report
    return report.services if report is not None and _answers(work) else None


def _rests(work: Pass) -> bool:
    """Whether no driver will run until a person changes something: then nobody would commit what pods make."""
    if work.suspended:
        return True
    current = work.draft.current
    if current is None or current.ended_at is None:
        return False
    stalled = work.draft.condition(STALLED)
    return current.outcome in {COMPLETED, TABLE_TAKEN} or (stalled is not None and stalled.status == "True")


def _keep_only(work: Pass, wanted: CompactionWork | None) -> None:
    """Delete Jobs of ended rounds, and of other settings. Those that have ended keep their logs until their time."""
    digest = None if work.wanted is None else compaction_digest(work.wanted)
    for job in work.seen.compaction_jobs:
        if job.does_all:
            continue
        if not _is_for(job, wanted):
            _delete(work, job)
        elif digest not in {None, job.digest} or _is_over(work, job):
            _delete(work, job, ended=True)


def _is_over(work: Pass, job: CompactionJob) -> bool:
    """Whether it has ended for so long that another one may try."""
    return job.finished_at is not None and work.now - job.finished_at >= _AGAIN.get(job.state, timedelta.max)


def _delete(work: Pass, job: CompactionJob, *, ended: bool = False) -> None:
    if not job.terminating and (ended or job.state is JobState.RUNNING):
        work.do(DeleteJob(job.name, job.uid))
        work.look(SOON)


def _ensure(work: Pass, wanted: CompactionWork, spec: BucketIngest) -> None:
    """Create the Job, unless it exists, another one runs, or the API server has just refused it."""
    seen = work.seen
    blocks = any(
        _is_for(job, wanted) or job.terminating or job.state is JobState.RUNNING for job in seen.compaction_jobs
    )
    refused = seen.fresh_refusal(work.names.compaction(wanted.number, wanted.round)) is not None
    if blocks or refused or seen.namespace_terminating:
        return
    work.do(CreateCompaction(wanted, compaction_digest(spec), spec))
    work.look(SOON)


def _is_for(job: CompactionJob, wanted: CompactionWork | None) -> bool:
    return wanted is not None and (job.number, job.round) == (wanted.number, wanted.round)


def _take(work: Pass, report: ServicesReport) -> None:
    """Copy the report: only what changes with a compaction, so that looks of the driver cause no write."""
    before = work.draft.services
    oldest = report.oldest_log_at
    if oldest is None and report.compacting is not None and before is not None:
        oldest = before.oldest_log_at  # a driver that has just started has not looked at the table yet
    last, last_at = report.last_compaction, report.last_compaction_at
    if last is None and before is not None:
        last, last_at = before.last_compaction, before.last_compaction_at
    at = report.compacting_at
    work.draft.services = ServicesStatus(
        mode=report.mode or "inline",
        home=report.home or None,
        why=None if report.why is None else shortened(report.why),
        pending=report.compacting or None,
        pending_since=None if at is None else at.replace(microsecond=0),
        oldest_log_at=None if oldest is None else oldest.replace(microsecond=0),
        last_compaction=last,
        last_compaction_at=None if last_at is None else last_at.replace(microsecond=0),
        failures=report.failures,
        last_failure=None if report.last_failure is None else shortened(report.last_failure),
    )


def _judge(work: Pass, report: ServicesReport, spec: BucketIngest) -> None:
    log_age = spec.spec.slo.log_age(spec.spec.services.compaction.log_age)
    value, reason, message = judge_services(work.seen, report, log_age, work.names)
    before = work.draft.condition(SERVICES_HEALTHY)
    if value == "False" and (before is None or before.reason != reason):
        work.event("Warning", reason, message, report.compacting or "")
    work.draft.set(SERVICES_HEALTHY, value, reason, message)
