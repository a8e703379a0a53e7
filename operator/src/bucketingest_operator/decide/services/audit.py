"""The audit of a mirror: once in each window a Job compares the table with its source.

The Job itself says when the last audit was: it stays until the next one, and the condition stays for ever.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.exit_codes import ExitCode
from bucketingest_operator.decide.pass_state import SOON, Pass
from bucketingest_operator.decide.plan import CreateAudit, DeleteAudit
from bucketingest_operator.decide.spec_changes import audit_digest
from bucketingest_operator.decide.status import COMMIT_FRESH, MIRROR_EQUAL, Truth, shortened
from bucketingest_operator.decide.upgrade.maintenance import openings
from bucketingest_operator.observation import CheckJob, JobState, PodReason

EQUAL: Final = "Equal"
ROWS_DIFFER: Final = "RowsDiffer"
NOT_DONE: Final = "AuditNotDone"
"""Reasons of the condition."""
REFUSED_REST: Final = timedelta(minutes=2)


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
        _report(work, job)
        if running:
            return
    if asked is None:
        return
    # A driver that answers is looked at often enough to see the window open.
    opened = next((start for start, end in openings(asked.window, work.now) if start <= work.now < end), None)
    if opened is None or (job is not None and job.created_at >= opened) or not _is_up_to_date(work):
        return
    if job is not None:
        _delete(work, job)
        return
    refusal = work.seen.audit_refusal
    if refusal is not None and timedelta() <= work.seen.now - refusal.at < REFUSED_REST:
        _say(work, "Unknown", NOT_DONE, f"The Job is refused: {refusal.message}")
    elif not work.seen.namespace_terminating:
        work.do(CreateAudit(work.draft.number, digest, work.wanted))
        work.look(SOON)


def _is_up_to_date(work: Pass) -> bool:
    """Whether a driver commits what comes: else every row that it has not read yet would differ."""
    fresh = work.draft.condition(COMMIT_FRESH)
    return work.answered and not work.suspended and fresh is not None and fresh.status == "True"


def _delete(work: Pass, job: CheckJob) -> None:
    if not job.terminating:
        work.do(DeleteAudit(job.name, job.uid))
    work.look(SOON)


def _report(work: Pass, job: CheckJob) -> None:
    at = f"Audit of {job.created_at:%Y-%m-%d %H:%M:%SZ}: "
    before = work.draft.condition(MIRROR_EQUAL)
    if before is not None and before.reason in {EQUAL, ROWS_DIFFER} and before.message.startswith(at):
        return  # its pod may be gone meanwhile, with what it said
    if job.state is JobState.SUCCEEDED:
        _say(work, "True", EQUAL, f"{at}the table and its source are equal.")
    elif job.report is not None and job.report.exit_code == ExitCode.FINDINGS:
        _say(work, "False", ROWS_DIFFER, f"{at}{job.report.message}")
    elif job.state is JobState.FAILED:
        said = job.report.message if job.report is not None else job.message
        _say(work, "Unknown", NOT_DONE, f"{at}{said or 'its pod left no message.'}")
    elif job.waiting is not PodReason.NONE:
        _say(work, "Unknown", NOT_DONE, f"{at}its pod does not start: {job.message}")


def _say(work: Pass, value: Truth, reason: str, message: str) -> None:
    """Set the condition, with an event if it is news and nothing good."""
    before, message = work.draft.condition(MIRROR_EQUAL), shortened(message)
    if value != "True" and (before is None or (before.reason, before.message) != (reason, message)):
        work.event("Warning", reason, message, message)
    work.draft.set(MIRROR_EQUAL, value, reason, message)
