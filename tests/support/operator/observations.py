"""Observations of the operator for tests: a healthy pipeline, in which each test changes a part."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bucketingest.exit_codes import ENDINGS, ExitCode, Remedy
from bucketingest.spec.job_report import (
    CommitReport,
    InflightReport,
    LagReport,
    ProgressReport,
    ServicesReport,
    TerminationReport,
)
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.reading.load import parse_object
from bucketingest.spec.status import Attempt, Status, Trial, UpgradeStatus
from bucketingest_operator.decide.spec_changes import digest, fixed_digest
from bucketingest_operator.manifests.names import Names
from bucketingest_operator.observation import AttemptInput, Contact, Driver, Observation, PodState
from bucketingest_operator.resource import FINALIZER, Resource

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
UID = "0b7c3f5e-6a51-4a4e-9f0e-0f6c2e9f1a11"
NAMES = Names("orders", UID)


def bucket_ingest(spec: dict[str, Any] | None = None) -> BucketIngest:
    """A BucketIngest with parts of its spec changed. It has no preflight, unless the test asks for it."""
    document: dict[str, Any] = {
        "source": {"rate": {"rowsPerSecond": 10}},
        "table": {"path": "s3://lake/orders", "recordKey": ["value"]},
        **(spec or {}),
        "upgrade": {"preflight": False, **((spec or {}).get("upgrade") or {})},
    }
    return parse_object(
        {
            "apiVersion": "bucketingest.dev/v1alpha1",
            "kind": "BucketIngest",
            "metadata": {"name": "orders", "namespace": "ingest"},
            "spec": document,
        }
    )


def input_of(wanted: BucketIngest, nonce: str = "") -> AttemptInput:
    """What an attempt of this spec is started with."""
    return AttemptInput(digest(wanted), fixed_digest(wanted), nonce)


def resource(wanted: BucketIngest | None = None, **changes: Any) -> Resource:
    """A resource with our finalizer."""
    found = Resource(
        namespace="ingest",
        name="orders",
        uid=UID,
        generation=1,
        created_at=NOW - timedelta(days=1),
        version="1",
        wanted=wanted or bucket_ingest(),
        finalizers=(FINALIZER,),
    )
    return replace(found, **changes)


def attempt(
    number: int, *, started: float | None = 60, ended: float | None = None, outcome: str | None = None
) -> Attempt:
    """An attempt that started and ended so many seconds ago."""
    return Attempt(
        number=number,
        pod=NAMES.driver(number),
        started_at=None if started is None else NOW - timedelta(seconds=started),
        ended_at=None if ended is None else NOW - timedelta(seconds=ended),
        outcome=outcome,
    )


def status_with(*attempts: Attempt, **fields: Any) -> Status:
    """A status with these attempts."""
    return Status(attempt=attempts[-1].number if attempts else 0, attempts=attempts, **fields)


def driver(number: int = 1, state: PodState = PodState.RUNNING, **changes: Any) -> Driver:
    """A driver pod that was created a minute ago."""
    return replace(Driver(number, NAMES.driver(number), state, NOW - timedelta(seconds=60)), **changes)


def report(**changes: Any) -> ProgressReport:
    """The answer of a healthy driver: running for an hour, last commit ten seconds ago, little lag."""
    found = ProgressReport(
        pipeline="ingest/orders",
        namespace="ingest",
        name="orders",
        phase="running",
        epoch=1,
        verdict="in step",
        verdict_reason="nothing was left",
        running_seconds=3600,
        last_commit=commit(10),
        inflight=InflightReport(instant="20261121115950000", age_seconds=9),
        lag=LagReport(offsets=100, seconds=9),
        idle=False,
        batch=7,
        batches=8,
        commits=3,
        rows=1000,
        deletes=0,
        dead_letters=0,
        bytes=10_000,
        rows_per_second=10,
        skew=1,
        rollbacks=0,
        position_losses=0,
        last_report_at=NOW,
        last_report_age_seconds=1,
    )
    return found.model_copy(update=changes)


def commit(age_seconds: float) -> CommitReport:
    """An instant that was completed so long ago."""
    return CommitReport(
        instant="20261121115900000",
        completion_time="20261121115930000",
        at=NOW - timedelta(seconds=age_seconds),
        rows=100,
        micro_batches=2,
        latency_seconds=20,
        age_seconds=age_seconds,
    )


def services(**changes: Any) -> ServicesReport:
    """Table services that do well: the last compaction was ten minutes ago."""
    found = ServicesReport(
        log_files=4,
        log_bytes=4000,
        oldest_log_seconds=500,
        compacting=None,
        compacting_seconds=None,
        compactions=1,
        failures=0,
        mode="job",
        home="job",
        why="services.mode is job",
        oldest_log_at=NOW - timedelta(seconds=500),
        last_compaction="20261121114000000",
        last_compaction_at=NOW - timedelta(seconds=600),
    )
    return found.model_copy(update=changes)


def termination(code: int, message: str = "It ended.", error_class: str | None = None) -> TerminationReport:
    """A termination message."""
    known = code in set(ExitCode)
    return TerminationReport(
        error_class=error_class or (ExitCode(code).word if known else "New"),
        exit_code=code,
        message=message,
        remedy=ENDINGS[ExitCode(code)].remedy if known else Remedy.RESTART,
        at=NOW,
    )


def well() -> Observation:
    """A healthy pipeline whose first attempt has run for an hour."""
    wanted = bucket_ingest()
    return Observation(
        now=NOW,
        resource=resource(wanted, status=status_with(attempt(1, started=3600))),
        drivers=(driver(),),
        inputs={1: input_of(wanted)},
        contact=Contact(report()),
    )


def after(observation: Observation, **changes: Any) -> Observation:
    """The observation with parts of the resource changed, as after an edit."""
    return replace(observation, resource=replace(observation.resource, **changes))


def fallen_back(good: BucketIngest, wanted: BucketIngest) -> Observation:
    """A pipeline whose changed spec has not committed in its probation, and whose driver is gone."""
    trial = Trial(
        digest=digest(wanted), generation=2, attempt=2, until=NOW, failed_at=NOW, message="It made no commit."
    )
    upgrade = UpgradeStatus(attempt=1, generation=1, digest=digest(good), trial=trial)
    attempts = (
        attempt(1, started=9000, ended=700, outcome="SpecChanged"),
        attempt(2, started=699, ended=1, outcome="SpecNotProven"),
    )
    return Observation(
        now=NOW,
        resource=resource(wanted, generation=2, status=status_with(*attempts, upgrade=upgrade)),
        inputs={1: input_of(good), 2: input_of(wanted)},
        last_good=good,
    )


def ended(outcome: str, seconds_ago: float, **fields: Any) -> Observation:
    """A pipeline whose only attempt ended so long ago, and left only its input."""
    wanted = bucket_ingest()
    status = status_with(attempt(1, started=seconds_ago + 10, ended=seconds_ago, outcome=outcome), **fields)
    return Observation(NOW, resource(wanted, status=status), inputs={1: input_of(wanted)})
