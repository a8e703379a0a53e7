"""What the operator decides when something is wrong: stuck, failed, lost, refused, rolled back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from bucketingest.spec.errors import Problem
from bucketingest.spec.job_report import LagReport, SourceReport
from bucketingest.spec.status import Condition
from bucketingest_operator.decide.plan import (
    DeleteDriver,
    StartAttempt,
)
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import (
    Contact,
    Executors,
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
    ended,
    input_of,
    report,
    resource,
    status_with,
    termination,
    well,
)
from support.operator.plans import condition, events, kinds


def stalled(generation: int = 1) -> Condition:
    return Condition(
        type="Stalled", status="True", reason="TableRefused", observed_generation=generation, last_transition_time=NOW
    )


def test_stuck_is_fenced_then_started_again_which_rolls_back_too() -> None:
    seen = replace(well(), contact=Contact(report(last_report_age_seconds=4000.0)))
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus", "DeleteDriver"]
    assert isinstance(plan.actions[1], DeleteDriver)
    assert plan.actions[1].stuck, "it cannot commit in its grace period"
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "Stuck"

    seen = after(replace(seen, drivers=(driver(terminating=True),)), status=plan.status)
    assert "StartAttempt" not in kinds(reconcile(seen))
    assert "CreateRollback" not in kinds(reconcile(seen))

    seen = replace(seen, drivers=())
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus", "StartAttempt"]
    assert condition(plan, "TimelineClean").status == "False", "until the driver has reported"


def test_a_start_names_the_drivers_whose_nodes_have_reported_their_end() -> None:
    lost = driver(1, PodState.FAILED, exit_code=137, finished_at=NOW)
    seen = replace(ended("DriverLost", 3), drivers=(lost,), ended_drivers=("an-earlier-one",))
    (start,) = [each for each in reconcile(seen).actions if isinstance(each, StartAttempt)]
    assert start.ended == ("an-earlier-one", lost.name)
    for unsure in (replace(lost, finished_at=None), replace(lost, node_gone=True, state=PodState.RUNNING)):
        plan = reconcile(replace(seen, drivers=(unsure,), ended_drivers=()))
        assert [each.ended for each in plan.actions if isinstance(each, StartAttempt)] in ([], [()])


@pytest.mark.parametrize("why", ["backoff", "suspended", "stalled"])
def test_a_job_rolls_back_where_no_start_follows_at_once(why: str) -> None:
    attempts = attempt(1, started=300, ended=200, outcome="Stuck"), attempt(2, started=60, ended=2, outcome="Stuck")
    conditions = [_rollback_pending(), *([stalled()] if why == "stalled" else [])]
    status = status_with(*attempts, conditions=tuple(conditions))
    wanted = bucket_ingest({"suspend": why == "suspended"})
    seen = Observation(NOW, resource(wanted, status=status), inputs={2: input_of(wanted)})
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus", "CreateRollback"]

    # What has begun ends first, also if a start is due meanwhile.
    running = replace(after(seen, status=plan.status), jobs=(RollbackJob(2, JobState.RUNNING),))
    running = replace(running, now=NOW + timedelta(hours=1))
    assert "StartAttempt" not in kinds(reconcile(running))

    plan = reconcile(replace(running, jobs=(RollbackJob(2, JobState.SUCCEEDED),)))
    assert condition(plan, "TimelineClean").reason == "RolledBack"
    assert ("StartAttempt" in kinds(plan)) == (why == "backoff")


def test_a_stall_is_still_reported_after_the_rollback_that_followed_it() -> None:
    seen = ended("Stuck", 4000, phase="Recovering", conditions=(_rollback_pending(), stalled()))
    plan = reconcile(replace(seen, jobs=(RollbackJob(1, JobState.SUCCEEDED),)))
    assert "StartAttempt" not in kinds(plan)
    assert plan.status.phase == "Stalled"
    assert condition(plan, "TimelineClean").status == "True"


def test_a_rollback_that_only_a_person_can_repair_stalls() -> None:
    seen = ended("Stuck", 4000, conditions=(_rollback_pending(),))
    plan = reconcile(replace(seen, jobs=(RollbackJob(1, JobState.FAILED, exit_code=3),)))
    assert "StartAttempt" not in kinds(plan)
    assert condition(plan, "Stalled").reason == "RollbackFailed"


def test_a_rollback_that_failed_otherwise_is_repeated_by_the_next_start() -> None:
    seen = ended("Stuck", 4000, conditions=(_rollback_pending(),))
    for code in (20, 7):
        plan = reconcile(replace(seen, jobs=(RollbackJob(1, JobState.FAILED, exit_code=code),)))
        assert "StartAttempt" in kinds(plan)


def _rollback_pending() -> Condition:
    return Condition(type="TimelineClean", status="False", reason="RollbackPending", last_transition_time=NOW)


def test_after_a_failed_attempt_the_next_starts_after_the_backoff_and_not_before() -> None:
    assert "StartAttempt" not in kinds(reconcile(ended("QueryFailed", 5)))
    assert reconcile(ended("QueryFailed", 5)).status.phase == "Recovering"
    assert "StartAttempt" in kinds(reconcile(ended("QueryFailed", 13)))


def test_a_driver_that_vanished_is_replaced() -> None:
    plan = reconcile(replace(well(), drivers=()))
    assert kinds(plan) == ["WriteStatus", "StartAttempt"]
    assert plan.status.attempts is not None
    assert [each.outcome for each in plan.status.attempts] == ["DriverLost", None]


def test_a_pod_on_a_lost_node_is_forced_away_only_when_the_node_is_gone() -> None:
    seen = after(well(), status=status_with(attempt(1, outcome="Stuck")))
    stays = replace(seen, drivers=(driver(terminating=True),))
    assert "DeleteDriver" not in kinds(reconcile(stays))
    gone = replace(seen, drivers=(driver(terminating=True, node_gone=True),))
    assert DeleteDriver(1, NAMES.driver(1), force=True) in reconcile(gone).actions


def test_a_table_that_is_refused_stalls_until_the_spec_changes() -> None:
    said = termination(3, "buckets differ")
    plan = reconcile(replace(well(), drivers=(driver(state=PodState.FAILED, exit_code=3, report=said),)))
    assert plan.status.phase == "Stalled"
    assert "buckets differ" in condition(plan, "Stalled").message
    later = after(replace(well(), drivers=(), now=NOW + timedelta(days=1)), status=plan.status)
    assert kinds(reconcile(later)) == []
    assert "StartAttempt" in kinds(reconcile(after(later, generation=2)))
    assert "StartAttempt" in kinds(reconcile(after(later, annotations={RESTART_ANNOTATION: "1"})))


def test_too_many_failures_within_the_window_stall() -> None:
    attempts = [attempt(n, started=200 - 10 * n, ended=195 - 10 * n, outcome="QueryFailed") for n in range(1, 10)]
    status = status_with(*attempts, attempt(10, started=20))
    seen = after(well(), status=status)
    failed = replace(seen, drivers=(driver(10, PodState.FAILED, exit_code=9),))
    plan = reconcile(failed)
    assert condition(plan, "Stalled").reason == "TooManyFailures"
    outage = replace(seen, drivers=(driver(10, PodState.FAILED, exit_code=6),))
    assert condition(reconcile(outage), "Stalled").status == "False"


def test_a_spec_that_cannot_be_used_suspends_all_the_same() -> None:
    problems = (Problem("spec.table.path", "is missing"),)
    plan = reconcile(after(well(), wanted=None, problems=problems, suspends=True))
    assert "DeleteDriver" in kinds(plan)
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "Suspended"
    plan = reconcile(after(ended("Suspended", 100), wanted=None, problems=problems, suspends=True))
    assert "StartAttempt" not in kinds(plan)
    assert condition(plan, "Stalled").reason == "SpecInvalid"


def test_a_spec_that_cannot_be_used_stalls_a_stopped_pipeline_and_leaves_a_running_one_alone() -> None:
    problems = (Problem("spec.table.path", "is missing"),)
    assert kinds(reconcile(after(well(), wanted=None, problems=problems))) == ["WriteStatus"]
    plan = reconcile(after(ended("QueryFailed", 100), wanted=None, problems=problems))
    assert "StartAttempt" not in kinds(plan)
    assert "spec.table.path" in condition(plan, "Stalled").message


def test_a_driver_that_a_lost_status_does_not_know_is_adopted() -> None:
    seen = replace(after(well(), status=status_with()), drivers=(driver(7),), inputs={7: input_of(bucket_ingest())})
    plan = reconcile(seen)
    assert plan.status.attempt == 7
    assert "StartAttempt" not in kinds(plan)
    assert "DeleteDriver" not in kinds(plan)


def test_a_number_is_never_used_again_even_when_the_status_is_lost() -> None:
    seen = Observation(
        NOW, resource(), inputs={4: input_of(bucket_ingest())}, jobs=(RollbackJob(6, JobState.SUCCEEDED),)
    )
    assert reconcile(seen).status.attempt == 7


def test_an_image_that_cannot_be_pulled_is_reported_and_the_pod_waits() -> None:
    waiting = driver(state=PodState.PENDING, reason=PodReason.IMAGE_PULL, message="manifest unknown")
    plan = reconcile(replace(well(), drivers=(waiting,), contact=Contact()))
    assert kinds(plan) == ["WriteStatus"]
    assert condition(plan, "Ready").reason == "ImagePullFailing"
    assert "manifest unknown" in condition(plan, "Ready").message


def test_a_clock_that_was_set_back_causes_no_wait() -> None:
    seen = replace(ended("QueryFailed", 0), now=NOW - timedelta(days=1))
    plan = reconcile(seen)
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].ended_at == NOW - timedelta(days=1)


def test_a_driver_without_executors_is_reported_once_and_never_restarted() -> None:
    seen = replace(well(), executors=Executors(refused="exceeded quota: small"))
    seen = replace(seen, contact=Contact(report(last_commit=None, running_seconds=90_000.0)))
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus"]
    assert (condition(plan, "Ready").reason, condition(plan, "CommitFresh").status) == ("NoExecutors", "False")
    assert "exceeded quota: small" in condition(plan, "Ready").message
    assert [each.reason for each in events(plan)] == ["NoExecutors"]
    assert reconcile(after(seen, status=plan.status)).actions == ()


def test_no_attempt_of_an_outage_makes_the_resource_ready_so_that_it_is_not_hidden() -> None:
    """Each attempt starts, runs, waits for its source, and ends; the last commit was before all of them."""
    nothing = LagReport(offsets=None, seconds=None)
    silent = SourceReport(
        bootstrap_servers="kafka:9092",
        answers=False,
        answered_at=None,
        answering_seconds=0,
        unanswered_seconds=20,
        problem="kafka:9092 does not answer.",
        open_transaction_seconds=0,
        open_transaction=None,
    )
    new = report(last_commit=None, inflight=None, lag=nothing, commits=0, batches=0, running_seconds=30.0)
    looks = [
        Contact(),
        *(Contact(new.model_copy(update={"phase": phase})) for phase in ("starting", "running")),
        Contact(new.model_copy(update={"phase": "waiting", "source": silent})),
    ]
    seen = reconcile(well()).status
    for number, contact in enumerate(looks, 1):
        running = replace(well(), contact=contact, now=NOW + timedelta(minutes=number))
        plan = reconcile(after(running, status=seen))
        seen = plan.status
        assert condition(plan, "Ready").status != "True"
        assert seen.lag is not None
        assert seen.lag.offsets is None
    assert condition(plan, "Ready").reason == "SourceUnavailable"
    assert "kafka:9092 does not answer" in condition(plan, "Ready").message
    assert [each.reason for each in events(plan)] == ["SourceUnavailable"]
    said = termination(15, "kafka:9092 does not answer.")
    plan = reconcile(
        after(replace(well(), drivers=(driver(1, PodState.FAILED, exit_code=15, report=said),)), status=seen)
    )
    assert (condition(plan, "Ready").status, condition(plan, "Stalled").status) == ("False", "False")
    assert plan.status.lag is not None
    assert seen.lag is not None
    assert plan.status.lag.since == seen.lag.since


def denied(*minutes: float, stall_ended: float | None = None) -> Observation:
    """Attempts that were denied access and ended so many minutes ago, and a last one that is denied now."""
    before = [
        attempt(number, started=60 * ago + 5, ended=60 * ago, outcome="AccessDenied")
        for number, ago in enumerate(minutes, 1)
    ]
    at = NOW - timedelta(minutes=100 if stall_ended is None else stall_ended)
    went_on = Condition(type="Stalled", status="False", reason="Progressing", last_transition_time=at)
    last = len(before) + 1
    seen = after(well(), status=status_with(*before, attempt(last), conditions=(went_on,)))
    said = termination(7, "The token has expired.")
    return replace(seen, drivers=(driver(last, PodState.FAILED, exit_code=7, report=said),))


def test_denied_access_is_tried_again_with_what_others_may_have_renewed() -> None:
    plan = reconcile(denied())
    assert (condition(plan, "Ready").reason, condition(plan, "Stalled").status) == ("AccessDenied", "False")
    assert plan.look_again > timedelta(0)
    patient = reconcile(denied(39, 30, 21, 16, 11, 6))
    assert condition(patient, "Stalled").status == "False"
    wanted = bucket_ingest({"restart": {"maxFailures": 2}})
    strict = after(denied(20, 10), wanted=wanted)
    assert condition(reconcile(replace(strict, inputs={3: input_of(wanted)})), "Stalled").status == "False"


def test_access_that_stays_denied_stalls_and_a_person_gets_as_many_tries_again() -> None:
    plan = reconcile(denied(41, 30, 21, 16, 11, 6))
    assert condition(plan, "Stalled").reason == "AccessDenied"
    assert "The token has expired." in condition(plan, "Stalled").message
    again = reconcile(denied(41, 30, 21, 16, 11, 6, stall_ended=10))
    assert condition(again, "Stalled").status == "False"


def test_access_that_was_denied_for_long_is_tried_again_and_the_stall_ends_once_a_driver_works() -> None:
    seen = denied(41, 30, 21, 16, 11, 6)
    seen = replace(seen, inputs={7: input_of(bucket_ingest())})
    stalled = reconcile(seen).status
    rests = after(replace(seen, now=NOW + timedelta(minutes=9)), status=stalled)
    assert condition(reconcile(rests), "Stalled").status == "True"
    assert kinds(reconcile(rests)) == []
    assert reconcile(rests).look_again <= timedelta(minutes=1)
    again = reconcile(replace(rests, now=NOW + timedelta(minutes=10)))
    assert "StartAttempt" in kinds(again)
    assert condition(again, "Stalled").status == "True", "an alert must not come and go with each try"
    inputs = {8: input_of(bucket_ingest())}
    later = NOW + timedelta(minutes=11)
    tried = replace(after(rests, status=again.status), now=later, drivers=(driver(8, created_at=later),), inputs=inputs)
    denied_again = replace(tried, drivers=(driver(8, PodState.FAILED, exit_code=7, created_at=later),))
    assert condition(reconcile(denied_again), "Stalled").status == "True"
    works = reconcile(replace(tried, contact=Contact(report())))
    assert condition(works, "Stalled").status == "False"
    assert condition(works, "Ready").status == "True"


def test_a_person_ends_such_a_stall_at_once() -> None:
    seen = denied(41, 30, 21, 16, 11, 6)
    seen = replace(seen, inputs={7: input_of(bucket_ingest())})
    stalled = after(seen, status=reconcile(seen).status)
    for changes in ({"annotations": {RESTART_ANNOTATION: "1"}}, {"generation": 2}):
        plan = reconcile(after(stalled, **changes))
        assert "StartAttempt" in kinds(plan)
        assert condition(plan, "Stalled").status == "False"
    suspended = reconcile(after(stalled, wanted=bucket_ingest({"suspend": True})))
    assert condition(suspended, "Stalled").status == "False"
