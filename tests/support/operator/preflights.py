"""Pipelines whose changed spec is being checked before the driver is stopped for it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from bucketingest.spec.status import Preflight
from bucketingest_operator.decide.plan import DeleteDriver, Plan
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import CheckJob, JobState, Observation
from support.operator.observations import NAMES, NOW, after, bucket_ingest, termination
from support.operator.probation import changed

CHECKED = bucket_ingest({"transform": {"sql": "SELECT value FROM source"}, "upgrade": {"preflight": True}})
OTHER = bucket_ingest({"transform": {"sql": "SELECT 1 AS value FROM source"}, "upgrade": {"preflight": True}})
KEY = digest(CHECKED)
NAME = NAMES.preflight(KEY)
TYPO = "source: Kafka at kafak:9092 has no known address"


def job(state: JobState = JobState.RUNNING, uid: str = "job-1", **changes: Any) -> CheckJob:
    return replace(CheckJob(NAME, uid, KEY, state, NOW), **changes)


def said_failed() -> CheckJob:
    return job(JobState.FAILED, report=termination(15, TYPO, "PreflightFailed"))


def edited() -> Observation:
    """The spec of a driver that has committed and is ready was just changed."""
    return changed(CHECKED)


def later(seen: Observation, plan: Plan, seconds: float = 5, **changes: Any) -> Observation:
    """The next observation, after a plan was carried out."""
    return replace(after(seen, status=plan.status), now=seen.now + timedelta(seconds=seconds), **changes)


def checking() -> Observation:
    return later(edited(), reconcile(edited()), preflights=(job(),))


def failed() -> tuple[Observation, Plan]:
    seen = replace(checking(), preflights=(said_failed(),))
    return seen, reconcile(seen)


def found(plan: Plan) -> Preflight:
    assert plan.status.upgrade is not None
    assert plan.status.upgrade.preflight is not None
    return plan.status.upgrade.preflight


def stops(plan: Plan) -> bool:
    return any(isinstance(each, DeleteDriver) for each in plan.actions)


def ended_check(check: CheckJob, *, passes: bool, speaks: bool = True) -> CheckJob:
    """The same Job after its end. Without `speaks` its pod was lost."""
    if passes:
        return replace(check, state=JobState.SUCCEEDED)
    said = termination(15, TYPO, "PreflightFailed") if speaks else None
    return replace(check, state=JobState.FAILED, report=said)
