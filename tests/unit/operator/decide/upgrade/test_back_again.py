"""After a spec has given way: the last one that committed runs until a person acts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest_operator.decide.plan import DeleteAttempt, DeleteDriver, StartAttempt
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import (
    Contact,
    JobState,
    PodState,
    RollbackJob,
)
from bucketingest_operator.resource import RESTART_ANNOTATION
from support.operator.observations import (
    NAMES,
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
)
from support.operator.plans import condition, events, kinds
from support.operator.probation import (
    CHANGED,
    GOOD,
    back,
    changed,
    on_trial,
    starts,
    trial_of,
)


# ---------------------------------------------------------------------------------------------- after it has given way
def test_the_last_spec_runs_until_a_person_acts() -> None:
    seen = back()
    plan = reconcile(seen)
    assert "DeleteDriver" not in kinds(plan)
    assert condition(plan, "Degraded").status == "True"
    assert condition(plan, "Ready").status == "True"
    assert plan.status.upgrade is not None
    assert plan.status.upgrade.attempt == 3
    assert reconcile(after(seen, status=plan.status)).actions == ()


def test_only_its_own_failures_count_and_it_is_started_again() -> None:
    over = driver(3, PodState.FAILED, exit_code=9, report=termination(9))
    status = reconcile(back()).status
    long_ago = {"last_transition_time": NOW - timedelta(days=1)}
    conditions = tuple(each.model_copy(update=long_ago) for each in status.conditions or ())
    runs = after(back(), status=status.model_copy(update={"conditions": conditions}))
    failures = (NOW - timedelta(seconds=9),)
    inputs = {**runs.inputs, 3: replace(input_of(GOOD), failures=failures)}
    runs = replace(runs, inputs=inputs, drivers=(over,), contact=Contact(), now=NOW + timedelta(minutes=1))
    plan = reconcile(runs)
    assert condition(plan, "Stalled").status == "False"
    later = after(replace(runs, now=NOW + timedelta(minutes=50)), status=plan.status)
    (start,) = (each for each in reconcile(later).actions if isinstance(each, StartAttempt))
    assert start.wanted == GOOD
    assert start.attempt_input.failures == (NOW + timedelta(minutes=1),)


@pytest.mark.parametrize(
    "edit",
    [
        {"wanted": bucket_ingest({"transform": {"sql": "SELECT 3 AS value"}}), "generation": 3},
        {"annotations": {RESTART_ANNOTATION: "1"}},
    ],
    ids=["another spec", "the restart annotation"],
)
def test_a_person_starts_it_over(edit: dict[str, Any]) -> None:
    seen = after(back(), **edit)
    plan = reconcile(seen)
    assert DeleteDriver(3, NAMES.driver(3)) in plan.actions
    assert trial_of(plan.status) is None
    assert condition(plan, "Degraded").status == "False"
    following = reconcile(after(replace(seen, drivers=(), contact=Contact()), status=plan.status))
    assert starts(following) == [seen.resource.wanted]
    assert trial_of(following.status) is not None


def test_taking_the_edit_back_restarts_nothing() -> None:
    plan = reconcile(after(back(last_good=None), wanted=GOOD, generation=3))
    assert "DeleteDriver" not in kinds(plan)
    assert condition(plan, "Degraded").status == "False"


def test_an_edit_that_no_driver_reads_does_not_try_the_failed_spec_again() -> None:
    other = bucket_ingest({"transform": {"sql": "SELECT value FROM source"}, "slo": {"commitLatency": "5m"}})
    plan = reconcile(after(back(), wanted=other, generation=3))
    assert "DeleteDriver" not in kinds(plan)
    assert condition(plan, "Degraded").observed_generation == 3


def test_a_commit_while_it_is_being_stopped_proves_it_after_all() -> None:
    stopping = reconcile(on_trial())
    said = termination(0).model_copy(update={"commits": 1})
    over = driver(2, PodState.SUCCEEDED, exit_code=0, report=said, created_at=NOW)
    plan = reconcile(after(on_trial(drivers=(over,), contact=Contact()), status=stopping.status))
    assert condition(plan, "Degraded").reason == "SpecProven"
    assert starts(plan) == [CHANGED]
    assert trial_of(plan.status) is None


def test_the_driver_continues_if_its_own_spec_can_no_longer_be_read() -> None:
    assert "DeleteDriver" not in kinds(reconcile(back(last_good=None)))


def test_the_config_map_of_the_last_spec_that_committed_is_kept() -> None:
    found = fallen_back(GOOD, CHANGED)
    attempts = (*(found.resource.status.attempts or ()), attempt(3, started=600, ended=500, outcome="QueryFailed"))
    status = status_with(
        *attempts, attempt(4, started=400, ended=300, outcome="QueryFailed"), upgrade=found.resource.status.upgrade
    )
    inputs = {1: input_of(GOOD), 2: input_of(CHANGED), 3: input_of(GOOD), 4: input_of(GOOD)}
    jobs = (RollbackJob(1, JobState.SUCCEEDED),)
    plan = reconcile(after(replace(found, inputs=inputs, jobs=jobs), status=status))
    assert [each.number for each in plan.actions if isinstance(each, DeleteAttempt)] == [2]


# ------------------------------------------------------------------------------------ a spec that cannot be used at all
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"spark": {"conf": {"spark.kubernetes.namespace": "other"}}}, "SpecInvalid"),
        ({"table": {"path": "s3://lake/other", "recordKey": ["value"]}}, "SpecRefused"),
    ],
)
def test_a_lost_driver_is_replaced_also_if_the_new_spec_cannot_be_used(spec: dict[str, Any], reason: str) -> None:
    seen = replace(changed(bucket_ingest(spec)), drivers=(), contact=Contact())
    lost = reconcile(seen)
    assert starts(lost) == [GOOD]
    assert lost.status.attempts is not None
    runs = replace(after(seen, status=lost.status), drivers=(driver(2),), contact=Contact(report()))
    plan = reconcile(replace(runs, inputs={1: input_of(GOOD), 2: input_of(GOOD)}))
    assert condition(plan, "Ready").status == "True"
    assert condition(plan, "Stalled").reason == reason
    over = driver(2, PodState.FAILED, exit_code=9, report=termination(9))
    failing = reconcile(
        replace(
            after(runs, status=plan.status),
            drivers=(over,),
            contact=Contact(),
            inputs={1: input_of(GOOD), 2: input_of(GOOD)},
        )
    )
    assert starts(failing) == [], "a driver that fails is restarted without a pause"


def test_events_name_both_turns() -> None:
    reasons = [each.reason for each in events(reconcile(on_trial()))]
    assert "SpecNotProven" in reasons
    assert [each.reason for each in events(reconcile(on_trial(contact=Contact(report(commits=1)))))] == ["SpecProven"]
