"""Judges a running driver by its commits and reports: idle is not stuck, and a running pod proves nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bucketingest.spec.job_report import ProgressReport
from bucketingest.spec.model import BucketIngestSpec
from bucketingest.spec.quantity import format_duration
from bucketingest_operator.decide.failures import Failure
from bucketingest_operator.decide.status import Truth, knows_lag
from bucketingest_operator.observation import Contact, Driver, Executors

START_ALLOWANCE: Final = timedelta(minutes=5)
"""Extra time until a driver's first commit: Spark and executors start, buckets are looked up."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a driver.

    Attributes:
        stuck: Why it must be stopped; None if it must not.
        fresh: Whether commits come in time; Unknown if that is not known.
        fresh_message: The reason in words.
        limit_in: Time until a limit is exceeded, if nothing changes; None if no limit applies.
        waits_for: Executors, or its source: another driver would wait for the same.
    """

    stuck: str | None
    fresh: Truth
    fresh_message: str
    limit_in: timedelta | None = None
    waits_for: Failure | None = None


def judge(spec: BucketIngestSpec, driver: Driver, contact: Contact, executors: Executors, now: datetime) -> Health:
    """The health of the driver of a running pod. Ages come from the job's own clock if it reports them."""
    limit = spec.health.max_commit_lag
    report = contact.report
    if contact.unreachable_since is not None or report is None:
        since = contact.unreachable_since or driver.created_at
        silence = now - since
        allowed = limit if report is not None else limit + START_ALLOWANCE
        stuck = f"/progress has not answered for {_words(silence)}." if silence > allowed else None
        # Without the age: a text that changes would write the status at each pass.
        message = "The driver is starting Spark." if report is None else "The driver does not answer."
        return Health(stuck, "Unknown", message, allowed - silence)
    if executors.running == 0 and executors.refused and not report.idle:
        message = f"The API server refuses executors: {executors.refused}"
        return Health(None, "False", message, waits_for=Failure.NO_EXECUTORS)
    late = _late(spec, report)
    if late is None:
        limit_in = _limit_in(spec, report)
        if report.source is not None and not report.source.answers:
            message = report.source.problem or f"{report.source.bootstrap_servers} does not answer."
            return Health(None, "Unknown", message, limit_in, Failure.SOURCE_UNAVAILABLE)
        return Health(None, *_freshness(report), limit_in)
    if executors.running == 0 and executors.pending > 0:
        message = f"Executors do not start. {executors.message}".rstrip()
        return Health(None, "False", message, waits_for=Failure.NO_EXECUTORS)
    return Health(late, "False", late)


def _freshness(report: ProgressReport) -> tuple[Truth, str]:
    if report.phase in {"starting", "failed", "stopped"}:
        return "Unknown", f"The job is {report.phase}."
    if not has_looked(report):
        return "Unknown", "The job has not had an answer of its source yet."
    if report.idle:
        return "True", "All input is committed."
    return "True", "Commits come within health.maxCommitLag."


def has_looked(report: ProgressReport) -> bool:
    """Whether the job's source has answered it: what only runs may be waiting, and fail, for as long as others did."""
    return knows_lag(report) or report.batches > 0 or report.commits > 0


def _may_work(report: ProgressReport) -> timedelta:
    """For how long the driver has been able to work: before, it was not there, or its source did not answer."""
    running = report.running_seconds
    return timedelta(seconds=running if report.source is None else min(running, report.source.answering_seconds))


def _late(spec: BucketIngestSpec, report: ProgressReport) -> str | None:
    """Which limit a driver that answers exceeds, in words."""
    running = _may_work(report)
    limit = spec.health.max_commit_lag
    allowance = timedelta(0) if report.commits else START_ALLOWANCE
    if report.inflight is not None:
        # An earlier attempt may have started it, and this one needs time too.
        age = min(timedelta(seconds=report.inflight.age_seconds), running)
        if age > spec.health.max_inflight_age + allowance:
            return f"Instant {report.inflight.instant} has been inflight for {_words(age)}."
    trigger = spec.commit.trigger if isinstance(spec.commit.trigger, timedelta) else timedelta(0)
    seen = report.last_report_age_seconds
    silence = running if seen is None else min(running, timedelta(seconds=seen))
    if silence > limit + trigger + allowance:
        return f"The query has made no progress for {_words(silence)}."
    if report.idle or not _has_lag(report, limit):
        return None
    commit = report.last_commit
    without = running if commit is None else min(running, timedelta(seconds=commit.age_seconds))
    if without > limit + allowance:
        return f"There was no commit for {_words(without)}, and input waits."
    return None


def _limit_in(spec: BucketIngestSpec, report: ProgressReport) -> timedelta | None:
    """The shortest time until a driver that reports nothing more exceeds a limit of `_late`."""
    running = _may_work(report)
    limit = spec.health.max_commit_lag
    allowance = timedelta(0) if report.commits else START_ALLOWANCE
    trigger = spec.commit.trigger if isinstance(spec.commit.trigger, timedelta) else timedelta(0)
    left = [limit + trigger + allowance - min(running, timedelta(seconds=report.last_report_age_seconds or 0))]
    if report.inflight is not None:
        age = min(timedelta(seconds=report.inflight.age_seconds), running)
        left.append(spec.health.max_inflight_age + allowance - age)
    if not report.idle and report.lag.seconds is not None:
        commit = report.last_commit
        without = running if commit is None else min(running, timedelta(seconds=commit.age_seconds))
        left.append(max(limit - timedelta(seconds=report.lag.seconds), limit + allowance - without))
    return min((each for each in left if each > timedelta(0)), default=None)


def _has_lag(report: ProgressReport, limit: timedelta) -> bool:
    """Whether input has waited too long. Input that just came after a quiet night has not."""
    if report.lag.seconds is not None:
        return timedelta(seconds=report.lag.seconds) > limit
    return bool(report.lag.offsets)


def _words(age: timedelta) -> str:
    return format_duration(timedelta(seconds=max(0, int(age.total_seconds()))))
