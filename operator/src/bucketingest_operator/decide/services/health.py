"""Whether table services keep their promise, and if not, what keeps them from it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from bucketingest.spec.job_report import CompactionWork, Pin, ServicesReport
from bucketingest_operator.decide.status import Truth
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.observation import CompactionJob, JobState, Observation

NO_PODS_AFTER: Final = timedelta(minutes=1)
"""A Job without any pod for so long gets none: a quota, Pod Security or another admission controller refuses them."""
NOT_READY_AFTER: Final = timedelta(minutes=5)
"""Pods that do not run for so long find no node or no image."""
PINNED_AFTER: Final = timedelta(hours=6)
"""What holds a clean or the archive for so long does not end by itself. The alert has the same limit."""
FAILS_AGAIN: Final = 2
"""A step that fails once is tried again after a minute: that mends most."""
_LATE_MIN: Final = timedelta(minutes=10)

Verdict = tuple[Truth, str, str]


def judge_services(seen: Observation, report: ServicesReport, log_age: timedelta, names: Names) -> Verdict:
    """Value, reason and message of the condition. `log_age`: how old log files may get.

    The message changes only with the reason: each change is a write.
    """
    if report.damaged_files:
        return "False", "DataFilesDamaged", _damage(report)
    if report.job is not None:
        trouble = _job_trouble(seen, report.job, names)
        if trouble is not None:
            return "False", *trouble
    if report.failing >= FAILS_AGAIN:
        return "False", "StepsFail", f"Steps of table services fail one after the other: {report.last_failure}"
    limit = max(log_age * 3 / 2, _LATE_MIN)
    if _is_before(report.compacting_at, seen.now - limit):
        return (
            "False",
            "CompactionLate",
            f"Compaction {report.compacting} is pending since {report.compacting_at:%Y-%m-%d %H:%M:%SZ}.",
        )
    if report.too_large is not None:
        why = "The storage takes no object as large as the base file of file group"
        return "False", "FileGroupTooLarge", f"{why} {report.too_large}: its partition needs more buckets."
    pin = _lasting_pin(report)
    if pin is not None:
        return "False", f"{pin.service.title()}Pinned", f"The table's {pin.service} cannot go on: {pin.by}"
    if report.compacting is not None:
        return "True", "Compacting", f"Compaction {report.compacting} is pending. {_where(report)}".rstrip()
    if report.home is None and report.why is not None:
        return "Unknown", "LeftToHudi", f"{report.why}."
    if _is_before(report.oldest_log_at, seen.now - limit):
        return (
            "False",
            "CompactionLate",
            f"The oldest log file is from {report.oldest_log_at:%Y-%m-%d %H:%M:%SZ}: see services.compaction.",
        )
    return "True", "InTime", "Nothing is due, or the next look finds it."


def _damage(report: ServicesReport) -> str:
    first = [f"{each.file} of instant {each.instant}: {each.problem}." for each in report.damage[:1]]
    files = "data file is" if report.damaged_files == 1 else "data files are"
    return " ".join([f"{report.damaged_files} {files} gone or too short.", *first, "Run bucketingest inspect."])


def _lasting_pin(report: ServicesReport) -> Pin | None:
    """What has held clean or archive for the longest time, if that is long."""
    longest = max(report.pins, key=lambda pin: pin.seconds, default=None)
    return longest if longest is not None and longest.seconds > PINNED_AFTER.total_seconds() else None


def _job_trouble(seen: Observation, wanted: CompactionWork, names: Names) -> tuple[str, str] | None:
    name = names.compaction(wanted.number, wanted.round)
    job = next((each for each in seen.compaction_jobs if each.name == name), None)
    if job is None:
        refusal = seen.refusal(name)
        return None if refusal is None else ("JobRefused", refusal.message)
    if job.state is JobState.FAILED:
        return "JobFailed", f"Job {name} failed: {job.message} Another one follows."
    return _pods_trouble(seen.now, job)


def _pods_trouble(now: datetime, job: CompactionJob) -> tuple[str, str] | None:
    age = now - job.created_at
    if job.state is not JobState.RUNNING or job.ready:
        return None
    if not job.active and age > NO_PODS_AFTER:
        return "JobWithoutPods", f"Job {job.name} gets no pods: a quota, Pod Security? kubectl describe job {job.name}"
    if age > NOT_READY_AFTER:
        return "JobPodsWait", f"No pod of Job {job.name} runs: no node, no image? kubectl describe job {job.name}"
    return None


def _is_before(at: datetime | None, limit: datetime) -> bool:
    return at is not None and at < limit


def _where(report: ServicesReport) -> str:
    if report.home is None:
        return ""
    return f"{'Pods merge' if report.home == 'job' else 'The driver merges'}: {report.why}."
