"""A changed spec has to commit; if it does not, the last spec that committed runs again, once for each edit."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import LagReport
from bucketingest.spec.model import BucketIngest
from bucketingest.spec.status import Status, Trial
from bucketingest_operator.decide.plan import DeleteAttempt, DeleteDriver, Plan, StartAttempt
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import (
    Contact,
    CreationRefusal,
    JobState,
    Observation,
    PodReason,
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
    well,
)
from support.operator.plans import condition, events, kinds

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


def back(**changes: Any) -> Observation:
    """The last spec that committed runs again, and commits."""
    found = fallen_back(GOOD, CHANGED)
    upgrade, attempts = found.resource.status.upgrade, found.resource.status.attempts or ()
    status = status_with(*attempts, attempt(3, started=60), upgrade=upgrade)
    runs = replace(found, drivers=(driver(3),), contact=Contact(report()), inputs={**found.inputs, 3: input_of(GOOD)})
    return replace(after(runs, status=status), **changes)


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
