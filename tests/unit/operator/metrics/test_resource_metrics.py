"""Metrics of resources: present from the start, correct, and deleted with the resource."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from bucketingest.spec.job_report import InflightReport, LagReport
from bucketingest.spec.status import Condition, LastCommit, Phase, ServicesStatus
from bucketingest_operator.counts import RESTART_CLASSES, Counts
from bucketingest_operator.metrics.resource_metrics import ResourceMetrics
from bucketingest_operator.observe.inventory import Inventory
from bucketingest_operator.observe.progress_client import Talk
from bucketingest_operator.passes import Memory
from support.operator.observations import UID, attempt, bucket_ingest, commit, report, status_with

NOT_KNOWN = LagReport(offsets=None, seconds=None)
WHO = {"namespace": "ingest", "name": "orders"}


class Shown:
    """The metrics of one resource, as scraped."""

    def __init__(self, status: dict[str, Any] | None = None, memory: Memory | None = None) -> None:
        self.inventory = Inventory(lambda _uid: None, lambda _uid: None)
        self.memory = memory
        self.leads = True
        self.metrics = ResourceMetrics(self.inventory, lambda _uid: self.memory, lambda _namespace: self.leads)
        created = (datetime.now(UTC) - timedelta(seconds=600)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.inventory.take(
            {
                "apiVersion": "bucketingest.dev/v1alpha1",
                "kind": "BucketIngest",
                "metadata": {**WHO, "uid": UID, "creationTimestamp": created, "resourceVersion": "1", "generation": 1},
                "spec": bucket_ingest({"slo": {"commitLatency": "45s"}}).spec.to_document(),
                "status": status or {},
            }
        )

    def value(self, name: str, **labels: str) -> float | None:
        values = [each.value for each in self.samples() if (each.name, each.labels) == (name, {**WHO, **labels})]
        assert len(values) < 2
        return values[0] if values else None

    def count(self) -> int:
        return len(self.samples())

    def samples(self) -> list[Sample]:
        text = self.metrics.text().decode()
        return [each for family in text_string_to_metric_families(text) for each in family.samples]


def talk(**changes: Any) -> Talk:
    return Talk("p", report(**changes), time.monotonic())


def test_counters_are_zero_before_anything_has_happened() -> None:
    shown = Shown()
    for word in RESTART_CLASSES:
        assert shown.value("bucketingest_restarts_total", **{"class": word}) == 0
    assert shown.value("bucketingest_rollback_jobs_total", result="failed") == 0
    assert shown.value("bucketingest_resource_rows_total") == 0
    assert shown.value("bucketingest_observed_commit_latency_seconds_count") == 0
    assert shown.value("bucketingest_attempt") == 0
    assert shown.value("bucketingest_resource_last_commit_timestamp_seconds") == 0


def test_the_last_table_services_of_a_suspended_resource_have_a_time_once_they_have_ended() -> None:
    name, at = "bucketingest_resource_suspended_services_timestamp_seconds", datetime(2026, 11, 21, tzinfo=UTC)
    assert Shown().value(name) is None
    for result, value in (("Running", None), ("Done", at.timestamp()), ("Failed", at.timestamp())):
        services = ServicesStatus.model_validate({"mode": "auto", "suspendedRun": result, "suspendedRunAt": at})
        assert Shown(status_with(attempt(3), services=services).to_document()).value(name) == value


def test_phase_and_conditions_come_from_the_status_and_so_are_right_after_a_restart() -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    conditions = tuple(
        Condition.model_validate({"type": kind, "status": truth, "reason": "Because", "lastTransitionTime": now})
        for kind, truth in (("Ready", "True"), ("Stalled", "False"), ("CommitFresh", "Unknown"))
    )
    status = status_with(attempt(3), phase="Running", conditions=conditions)
    shown = Shown(status.to_document())
    assert shown.value("bucketingest_resource_phase", phase="Running") == 1
    assert shown.value("bucketingest_resource_phase", phase="Stalled") == 0
    assert shown.value("bucketingest_resource_info", phase="Running") == 1
    assert [
        shown.value("bucketingest_resource_condition", condition=each) for each in ("Ready", "Stalled", "CommitFresh")
    ] == [1, 0, -1]
    assert shown.value("bucketingest_attempt") == 3


def test_metrics_disappear_with_the_resource_and_with_the_leadership() -> None:
    shown = Shown()
    assert shown.count() > 0
    shown.leads = False
    assert shown.count() == 0
    shown.leads = True
    shown.inventory.forget(UID)
    assert shown.count() == 0


@pytest.mark.parametrize("phase", ["Suspended", "Completed"])
def test_of_a_resource_at_rest_no_counter_at_zero_is_shown(phase: Phase) -> None:
    now = datetime(2026, 11, 21, tzinfo=UTC)
    ready = Condition.model_validate({"type": "Ready", "status": "False", "reason": phase, "lastTransitionTime": now})
    status = status_with(phase=phase, conditions=(ready,)).to_document()
    assert Shown(status).count() < 25
    assert Shown(status).value("bucketingest_resource_phase", phase="Running") == 0
    assert Shown(status).value("bucketingest_resource_condition", condition="Ready") == 0
    counts = Counts(rows=7)
    counts.restarts["DriverLost"] = 1
    shown = Shown(status, Memory(counts=counts))
    assert shown.value("bucketingest_resource_rows_total") == 7
    assert [shown.value("bucketingest_restarts_total", **{"class": each}) for each in ("DriverLost", "Evicted")] == [
        1,
        0,
    ]


def test_promises_are_those_of_the_spec() -> None:
    shown = Shown()
    assert shown.value("bucketingest_slo_commit_latency_seconds") == 45
    assert shown.value("bucketingest_slo_freshness_seconds") is None


@pytest.mark.parametrize(
    ("changes", "least", "most"),
    [
        ({"last_commit": commit(100), "lag": LagReport(offsets=9, seconds=120)}, 100, 110),
        ({"last_commit": commit(100), "lag": NOT_KNOWN}, 100, 110),
        ({"last_commit": commit(30_000), "lag": LagReport(offsets=9, seconds=5)}, 5, 15),
        ({"last_commit": commit(100), "idle": True}, 0, 0),
        ({"last_commit": commit(100), "lag": LagReport(offsets=0, seconds=0)}, 0, 0),
        ({"last_commit": None, "running_seconds": 50}, 600, 610),  # since the resource was created
        ({"last_commit": None, "phase": "starting", "lag": NOT_KNOWN}, 600, 610),
    ],
)
def test_lag_is_the_time_without_commits_while_input_waits(changes: dict[str, Any], least: int, most: int) -> None:
    value = Shown(memory=Memory(talk(**changes))).value("bucketingest_commit_lag_seconds")
    assert value is not None
    assert least <= value <= most


def test_a_new_driver_takes_over_the_lag_of_those_before_it() -> None:
    document = {
        **status_with(attempt(2), phase="Running").to_document(),
        "lastCommit": commit_before(200).to_document(),
    }
    fresh = talk(last_commit=None, running_seconds=5)
    value = Shown(document, Memory(fresh)).value("bucketingest_commit_lag_seconds")
    assert value is not None
    assert value > 199


@pytest.mark.parametrize("phase", ["starting", "running", "waiting"])
def test_a_lag_that_nobody_knows_grows_from_when_all_was_last_known_to_be_committed(phase: str) -> None:
    """A quiet topic: the last commit is of yesterday, and ten minutes ago the source stopped to answer."""
    lag = {"since": _ago(600)}
    document = {**status_with(attempt(2)).to_document(), "lag": lag, "lastCommit": commit_before(90_000).to_document()}
    memory = Memory(talk(last_commit=None, phase=phase, lag=NOT_KNOWN, inflight=None))
    for shown in (Shown(document, memory), Shown(document)):
        value = shown.value("bucketingest_commit_lag_seconds")
        assert value is not None
        assert 600 <= value < 610
        assert shown.value("bucketingest_resource_lag_offsets") is None


def test_input_that_an_earlier_driver_saw_still_waits_when_the_next_one_sees_it() -> None:
    document = {**status_with(attempt(2)).to_document(), "lag": {"since": _ago(600)}}
    memory = Memory(talk(last_commit=None, lag=LagReport(offsets=9, seconds=3)))
    value = Shown(document, memory).value("bucketingest_commit_lag_seconds")
    assert value is not None
    assert value >= 600


def _ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def commit_before(seconds: float) -> LastCommit:
    return LastCommit(instant="20261121115900000", time=datetime.now(UTC) - timedelta(seconds=seconds), rows=1)


@pytest.mark.parametrize(("phase", "grows"), [("Recovering", True), ("Stalled", True), ("Suspended", False)])
def test_without_a_driver_lag_grows_unless_no_commits_are_expected(phase: str, grows: bool) -> None:
    status = status_with(attempt(1), phase=phase)
    document = {**status.to_document(), "lastCommit": commit_before(200).to_document()}
    value = Shown(document).value("bucketingest_commit_lag_seconds")
    assert value is not None
    assert (value > 199) is grows


def test_a_driver_that_does_not_answer_is_not_believed() -> None:
    silent = replace(talk(idle=True), silent_since=0.0)
    value = Shown(memory=Memory(silent)).value("bucketingest_commit_lag_seconds")
    assert value is not None
    assert value > 500  # since the resource was created: it has no known commit


def test_the_age_of_the_open_instant_grows_between_two_reports() -> None:
    older = Talk(
        "p", report(inflight=InflightReport(instant="20261121115950000", age_seconds=9)), time.monotonic() - 30
    )
    value = Shown(memory=Memory(older)).value("bucketingest_resource_inflight_age_seconds")
    assert value is not None
    assert 39 <= value < 50


def test_the_histogram_is_cumulative() -> None:
    counts = Counts()
    for latency in (0.5, 20, 20, 10_000):
        counts.note_report(
            "p",
            report(
                last_commit=commit(1).model_copy(update={"instant": f"{latency:017.0f}", "latency_seconds": latency})
            ),
            status_with(attempt(1)),
            from_its_start=True,
        )
        counts._instant = None
    shown = Shown(memory=Memory(counts=counts))
    name = "bucketingest_observed_commit_latency_seconds"
    assert shown.value(f"{name}_bucket", le="1.0") == 1
    assert shown.value(f"{name}_bucket", le="30.0") == 3
    assert shown.value(f"{name}_bucket", le="+Inf") == 4
    assert shown.value(f"{name}_count") == 4
    assert shown.value(f"{name}_sum") == 10_040.5
