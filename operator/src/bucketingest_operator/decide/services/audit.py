"""The audit of a mirror: once in each window a Job compares the table with its source, and again if it did not come to
an end.

The Job itself says when the last audit was: it stays until the next one, and the condition stays for ever. What differs
counts only if the pipeline kept up for all of that time: else it may be on its way.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.fields.runtime import Audit
from bucketingest.spec.quantity import format_duration
from bucketingest_operator.decide.pass_state import SOON, Pass
from bucketingest_operator.decide.plan import CreateCheck, DeleteJob
from bucketingest_operator.decide.spec_changes import audit_digest
from bucketingest_operator.decide.status import COMMIT_FRESH, MIRROR_EQUAL, Truth, shortened
from bucketingest_operator.decide.upgrade.maintenance import openings
from bucketingest_operator.observation import CheckJob, JobState, PodReason

EQUAL: Final = "Equal"
ROWS_DIFFER: Final = "RowsDiffer"
NOT_DONE: Final = "AuditNotDone"
PIPELINE_LATE: Final = "PipelineLate"
"""Reasons of the condition."""
TRIES_MAX: Final = 4
"""In a window, evenly apart."""


def decide_audit(work: Pass) -> None:
    """Decide about the Job, and report what it found. Call it after what the driver needs."""
    if work.wanted is None:
        return
    asked, digest = work.wanted.spec.audit, audit_digest(work.wanted)
    job = next(iter(work.seen.audits), None)
    if job is not None and not job.terminating:
        running = job.state is JobState.RUNNING
        if asked is None or job.digest != digest or (running and work.suspended):
            _delete(work, job)
            return
        _report(work, asked, job)
        if running:
            return
    if asked is None:
        return
    # A driver that answers is looked at often enough to see the window open.
    opened = next((start for start, end in openings(asked.window, work.now) if start <= work.now < end), None)
    if opened is None or work.suspended or not _is_due(work, asked, job, opened):
        return
    if why := _lateness(work, asked):
        before = work.draft.condition(MIRROR_EQUAL)
        if (job is None or job.created_at < opened) and (before is None or before.reason != ROWS_DIFFER):
            work.draft.set(MIRROR_EQUAL, "Unknown", PIPELINE_LATE, f"The audit waits for the pipeline: {why}.")
        return
    if job is not None:
        _delete(work, job)
        return
    if (refusal := work.seen.fresh_refusal(work.names.audit)) is not None:
        _say(work, "Unknown", NOT_DONE, f"The Job is refused: {refusal.message}")
    elif not work.seen.namespace_terminating:
        work.do(CreateCheck("audit", work.draft.number, digest, work.wanted))
        work.look(SOON)


def _is_due(work: Pass, asked: Audit, job: CheckJob | None, opened: datetime) -> bool:
    """Whether the window has had none yet, or one long enough ago of which nothing is known."""
    if job is None or job.created_at < opened:
        return True
    return not _is_known(work, job) and work.now - job.created_at >= asked.window.duration / TRIES_MAX


def _is_known(work: Pass, job: CheckJob) -> bool:
    """Whether the condition already says what this one has found."""
    before = work.draft.condition(MIRROR_EQUAL)
    return before is not None and before.reason in {EQUAL, ROWS_DIFFER} and before.message.startswith(_at(job))


def _lateness(work: Pass, asked: Audit, since: datetime | None = None) -> str:
    """Why rows may be missing that came longer than `settle` ago; "" if none is. `since`: by the same driver."""
    contact, fresh = work.seen.contact, work.draft.condition(COMMIT_FRESH)
    report = contact.report
    if report is None or fresh is None or fresh.status != "True":
        return "the driver does not commit in time"
    if report.lag.seconds is None or report.lag.seconds > asked.settle.total_seconds():
        return f"input waits for longer than audit.settle, {format_duration(asked.settle)}"
    read_at = contact.read_at or work.now
    if since is not None and timedelta(seconds=report.running_seconds) < read_at - since:
        return "the driver was restarted"
    return ""


def _at(job: CheckJob) -> str:
    return f"Audit of {job.created_at:%Y-%m-%d %H:%M:%SZ}: "


def _delete(work: Pass, job: CheckJob) -> None:
    if not job.terminating:
        work.do(DeleteJob(job.name, job.uid))
    work.look(SOON)


def _report(work: Pass, asked: Audit, job: CheckJob) -> None:
    if _is_known(work, job):
        return  # its pod may be gone meanwhile, with what it said
    at, before = _at(job), work.draft.condition(MIRROR_EQUAL)
    was_late = before is not None and before.reason == PIPELINE_LATE and before.message.startswith(at)
    found = job.report is not None and job.report.exit_code == ExitCode.FINDINGS
    if job.state is JobState.SUCCEEDED:
        _say(work, "True", EQUAL, f"{at}the table and its source are equal.")
    elif job.state is JobState.FAILED and not found:
        said = job.report.message if job.report is not None else job.message
        _say(work, "Unknown", NOT_DONE, f"{at}{said or 'its pod left no message.'}")
    elif job.waiting is not PodReason.NONE:
        _say(work, "Unknown", NOT_DONE, f"{at}its pod does not start: {job.message}")
    elif was_late:
        return
    elif why := _lateness(work, asked, job.created_at):
        _say(work, "Unknown", PIPELINE_LATE, f"{at}{why}. What differs may be on its way.")
    elif found and job.report is not None:
        _say(work, "False", ROWS_DIFFER, f"{at}{job.report.message}")


def _say(work: Pass, value: Truth, reason: str, message: str) -> None:
    """Set the condition, with an event if it is news and nothing good. What differs does so until the next result."""
    before, message = work.draft.condition(MIRROR_EQUAL), shortened(message)
    if value == "Unknown" and before is not None and before.reason == ROWS_DIFFER:
        return
    if value != "True" and (before is None or (before.reason, before.message) != (reason, message)):
        work.event("Warning", reason, message, message)
    work.draft.set(MIRROR_EQUAL, value, reason, message)
