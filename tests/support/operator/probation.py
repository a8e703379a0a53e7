"""Pipelines whose spec was changed: proven before, on probation, or back at the spec before."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from bucketingest.spec.job_report import LagReport
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status, Trial
from bucketingest_operator.decide.plan import Plan, StartAttempt
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import (
    Contact,
    Observation,
    PodState,
)
from support.operator.observations import (
    NOW,
    after,
    attempt,
    bucket_ingest,
    driver,
    fallen_back,
    input_of,
    report,
    status_with,
    termination,
    well,
)

GOOD = bucket_ingest()


CHANGED = bucket_ingest({"transform": {"sql": "SELECT value FROM source"}})


WAITS = LagReport(offsets=100, seconds=5000)


NOTHING = LagReport(offsets=0, seconds=None)


UNTIL = NOW + timedelta(minutes=10, seconds=32)
"""The default probation, and the default interval and trigger."""


def proven() -> Observation:
    """A healthy pipeline whose commit is in the status."""
    return after(well(), status=reconcile(well()).status)


def on_trial(wanted: BucketIngest = CHANGED, **changes: Any) -> Observation:
    """The driver of a changed spec has run for a while, and its probation is over unless the test says otherwise."""
    status = started(wanted).status
    assert status.attempts is not None
    attempts = (*status.attempts[:-1], status.attempts[-1].model_copy(update={"started_at": NOW}))
    seen = Observation(
        now=UNTIL,
        resource=replace(changed(wanted).resource, status=status.model_copy(update={"attempts": attempts})),
        drivers=(driver(2, created_at=NOW),),
        inputs={1: input_of(GOOD), 2: input_of(wanted)},
        contact=Contact(report(commits=0, last_commit=None, running_seconds=400, lag=WAITS, inflight=None)),
        last_good=GOOD,
    )
    return replace(seen, **changes)


def changed(wanted: BucketIngest) -> Observation:
    return replace(after(proven(), wanted=wanted, generation=2), last_good=GOOD)


def started(wanted: BucketIngest) -> Plan:
    """The plan that starts a changed spec after the driver has stopped."""
    stopping = reconcile(changed(wanted))
    closed = replace(after(changed(wanted), status=stopping.status), drivers=(), contact=Contact())
    return reconcile(closed)


def starts(plan: Plan) -> list[BucketIngest]:
    return [each.wanted for each in plan.actions if isinstance(each, StartAttempt)]


def trial_of(status: Status) -> Trial | None:
    return None if status.upgrade is None else status.upgrade.trial


def failed(outcome_code: int, now: Any = UNTIL - timedelta(minutes=5), **changes: Any) -> Observation:
    """The driver of the changed spec has ended."""
    over = driver(2, PodState.FAILED, exit_code=outcome_code, report=termination(outcome_code), created_at=NOW)
    return on_trial(now=now, drivers=(over,), contact=Contact(), **changes)


def back(**changes: Any) -> Observation:
    """The last spec that committed runs again, and commits."""
    found = fallen_back(GOOD, CHANGED)
    upgrade, attempts = found.resource.status.upgrade, found.resource.status.attempts or ()
    status = status_with(*attempts, attempt(3, started=60), upgrade=upgrade)
    runs = replace(found, drivers=(driver(3),), contact=Contact(report()), inputs={**found.inputs, 3: input_of(GOOD)})
    return replace(after(runs, status=status), **changes)
