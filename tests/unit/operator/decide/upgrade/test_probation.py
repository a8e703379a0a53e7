"""A changed spec has to commit; if it does not, the last spec that committed runs again, once for each edit."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import LagReport
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status
from bucketingest_operator.decide.plan import DeleteDriver
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import (
    Contact,
    CreationRefusal,
    Executors,
    Observation,
    PodReason,
    PodState,
)
from support.operator.observations import (
    NAMES,
    NOW,
    after,
    bucket_ingest,
    driver,
    fallen_back,
    report,
    termination,
    well,
)
from support.operator.plans import condition, kinds
from support.operator.probation import (
    CHANGED,
    GOOD,
    NOTHING,
    UNTIL,
    WAITS,
    failed,
    on_trial,
    proven,
    started,
    starts,
    trial_of,
)


# ------------------------------------------------------------------------------------------------ what counts as proven
def test_the_first_commit_of_an_attempt_proves_its_spec() -> None:
    upgrade = proven().resource.status.upgrade
    assert upgrade is not None
    assert (upgrade.attempt, upgrade.digest, upgrade.trial) == (1, digest(GOOD), None)
    without = replace(well(), contact=Contact(report(commits=0, last_commit=None)))
    assert reconcile(without).status.upgrade is None


def test_a_first_spec_has_no_probation_as_there_is_nothing_to_go_back_to() -> None:
    plan = reconcile(after(replace(Observation(NOW, well().resource)), status=Status()))
    assert len(starts(plan)) == 1
    assert plan.status.upgrade is None
    assert "Degraded" not in {each.type for each in plan.status.conditions or ()}


def test_a_changed_spec_starts_on_probation() -> None:
    plan = started(CHANGED)
    trial = trial_of(plan.status)
    assert starts(plan) == [CHANGED]
    assert trial is not None
    assert (trial.digest, trial.generation, trial.attempt, trial.until) == (digest(CHANGED), 2, 2, UNTIL)
    assert condition(plan, "Degraded").reason == "OnProbation"
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].generation == 2


def test_a_long_commit_interval_makes_the_probation_longer() -> None:
    slow = bucket_ingest(
        {
            "commit": {"interval": "1h"},
            "health": {"maxCommitLag": "2h", "maxInflightAge": "2h"},
            "slo": {"commitLatency": "2h"},
        }
    )
    trial = trial_of(started(slow).status)
    assert trial is not None
    assert trial.until == NOW + timedelta(hours=1, minutes=10, seconds=2)


def test_no_probation_if_it_is_switched_off() -> None:
    off = bucket_ingest({"transform": {"sql": "SELECT 1 AS value"}, "upgrade": {"probation": "0s"}})
    assert trial_of(started(off).status) is None


def test_a_commit_ends_the_probation_also_at_its_last_moment() -> None:
    plan = reconcile(on_trial(contact=Contact(report(commits=1))))
    assert plan.status.upgrade is not None
    assert (plan.status.upgrade.attempt, plan.status.upgrade.generation) == (2, 2)
    assert plan.status.upgrade.trial is None
    assert condition(plan, "Degraded").reason == "SpecProven"
    assert "DeleteDriver" not in kinds(plan)


def test_a_commit_of_a_driver_that_ended_between_two_looks_counts() -> None:
    said = termination(9).model_copy(update={"commits": 1})
    over = driver(2, PodState.FAILED, exit_code=9, report=said, created_at=NOW)
    plan = reconcile(on_trial(drivers=(over,), contact=Contact()))
    assert trial_of(plan.status) is None
    assert condition(plan, "Degraded").status == "False"


# ---------------------------------------------------------------------------------------------------- when it gives way
def test_executors_that_no_node_has_room_for_are_the_reason_also_in_a_short_probation() -> None:
    waiting = Executors(pending=1, message="0/3 nodes are available: 3 Insufficient memory.")
    plan = reconcile(on_trial(executors=waiting))
    assert condition(plan, "Degraded").message.endswith(f"NoExecutors: Executors do not start. {waiting.message}")


def test_without_a_commit_the_driver_is_stopped_and_the_last_spec_that_committed_runs_again() -> None:
    plan = reconcile(on_trial())
    assert DeleteDriver(2, NAMES.driver(2)) in plan.actions
    degraded = condition(plan, "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "SpecNotProven")
    assert "generation 2" in degraded.message.lower()
    gone = replace(after(on_trial(drivers=(), contact=Contact()), status=plan.status))
    again = reconcile(gone)
    assert starts(again) == [GOOD]
    assert again.status.attempts is not None
    assert [each.outcome for each in again.status.attempts] == ["SpecChanged", "SpecNotProven", None]


def test_before_the_end_of_the_probation_nothing_happens() -> None:
    early = on_trial(now=UNTIL - timedelta(seconds=20))
    assert "DeleteDriver" not in kinds(reconcile(early))
    assert reconcile(early).look_again <= timedelta(seconds=20)


@pytest.mark.parametrize("code", [ExitCode.BAD_INPUT, ExitCode.TABLE_REFUSED, ExitCode.MISSING_DEPENDENCY])
def test_a_failure_that_would_stall_is_not_waited_for(code: ExitCode) -> None:
    plan = reconcile(failed(code))
    trial = trial_of(plan.status)
    assert trial is not None
    assert trial.failed_at is not None
    assert condition(plan, "Stalled").status == "False"
    assert plan.look_again <= timedelta(seconds=5)
    gone = after(failed(code), status=plan.status)
    assert starts(reconcile(gone)) == [GOOD]


def test_a_failure_that_others_may_have_caused_is_tried_again_until_the_probation_ends() -> None:
    plan = reconcile(failed(9))
    trial = trial_of(plan.status)
    assert trial is not None
    assert trial.failed_at is None
    later = after(failed(9, now=UNTIL - timedelta(minutes=4)), status=plan.status)
    assert starts(reconcile(later)) == [CHANGED]
    assert trial_of(reconcile(later).status) == trial
    late = reconcile(replace(later, now=UNTIL))
    assert "QueryFailed" in condition(late, "Degraded").message


def test_a_driver_that_never_started_gives_way_with_the_reason() -> None:
    pending = driver(2, PodState.PENDING, reason=PodReason.IMAGE_PULL, message="no such image", created_at=NOW)
    before = on_trial(drivers=(pending,), contact=Contact(), now=UNTIL - timedelta(minutes=1))
    waiting = after(before, status=reconcile(before).status)
    plan = reconcile(replace(waiting, now=UNTIL))
    assert DeleteDriver(2, NAMES.driver(2)) in plan.actions
    assert "no such image" in condition(plan, "Degraded").message


def test_a_driver_that_the_api_server_refuses_gives_way() -> None:
    refused = CreationRefusal("exceeded quota", 3, timedelta(minutes=1))
    status = started(CHANGED).status
    seen = on_trial(drivers=(), contact=Contact(), creation_refusal=refused)
    plan = reconcile(after(seen, status=status))
    trial = trial_of(plan.status)
    assert trial is not None
    assert trial.failed_at is not None


# --------------------------------------------------------------------------------------------------- when it does not
@pytest.mark.parametrize(
    "answer",
    [
        report(commits=0, last_commit=None, running_seconds=400, idle=True, lag=NOTHING, inflight=None),
        report(commits=0, last_commit=None, running_seconds=400, lag=LagReport(offsets=1, seconds=9), inflight=None),
    ],
    ids=["no input", "input that has just come"],
)
def test_a_driver_without_input_goes_on_with_its_probation(answer: Any) -> None:
    plan = reconcile(on_trial(contact=Contact(answer)))
    trial = trial_of(plan.status)
    assert "DeleteDriver" not in kinds(plan)
    assert trial is not None
    assert trial.failed_at is None
    assert trial.until > UNTIL


def test_an_answer_from_before_the_end_of_the_probation_does_not_end_it() -> None:
    answer = report(commits=0, last_commit=None, running_seconds=400, lag=WAITS, inflight=None)
    old = Contact(answer, read_at=UNTIL - timedelta(seconds=5))
    assert "DeleteDriver" not in kinds(reconcile(on_trial(contact=old)))
    assert "DeleteDriver" in kinds(reconcile(on_trial(contact=replace(old, read_at=UNTIL))))


def test_a_driver_whose_answer_is_missing_once_may_have_committed() -> None:
    silent = Contact(report(commits=0, lag=WAITS), unreachable_since=UNTIL - timedelta(seconds=5))
    assert "DeleteDriver" not in kinds(reconcile(on_trial(contact=silent)))
    lost = Contact(report(commits=0, lag=WAITS), unreachable_since=UNTIL - timedelta(minutes=3))
    assert "DeleteDriver" in kinds(reconcile(on_trial(contact=lost)))


@pytest.mark.parametrize(
    "last_good",
    [None, bucket_ingest({"transform": {"sql": "SELECT 2 AS value"}})],
    ids=["its ConfigMap is gone", "another one was put there"],
)
def test_nothing_gives_way_to_a_spec_that_is_not_the_one_that_committed(last_good: BucketIngest | None) -> None:
    assert "DeleteDriver" not in kinds(reconcile(on_trial(last_good=last_good)))
    assert starts(reconcile(replace(fallen_back(GOOD, CHANGED), last_good=last_good))) == [CHANGED]


def test_suspended_it_does_not_give_way_and_resumed_it_has_all_its_time() -> None:
    asleep = bucket_ingest({"transform": {"sql": "SELECT value FROM source"}, "suspend": True})
    plan = reconcile(after(on_trial(), wanted=asleep, generation=3))
    assert trial_of(plan.status) is None
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "Suspended"
    awake = after(on_trial(drivers=(), contact=Contact()), status=plan.status, generation=4)
    trial = trial_of(reconcile(awake).status)
    assert trial is not None
    assert trial.until > UNTIL
