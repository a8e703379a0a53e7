"""What the operator does about each thing that it may see."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.spec.errors import Problem
from bucketingest.spec.status import Condition, Inflight
from bucketingest_operator.decide.plan import (
    AddFinalizer,
    CreateRollback,
    DeleteAttempt,
    DeleteDriver,
    EmitEvent,
    Plan,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import (
    FINALIZER,
    PAUSE_ANNOTATION,
    RESTART_ANNOTATION,
    Claim,
    Contact,
    JobState,
    Observation,
    PodReason,
    PodState,
    RollbackJob,
)
from support.observations import (
    NAMES,
    NOW,
    after,
    attempt,
    bucket_ingest,
    driver,
    ended,
    report,
    resource,
    status_with,
    termination,
    told_of,
    well,
)


def kinds(plan: Plan) -> list[str]:
    return [type(each).__name__ for each in plan.actions if not isinstance(each, EmitEvent)]


def condition(plan: Plan, kind: str) -> Condition:
    return next(each for each in plan.status.conditions or () if each.type == kind)


def stalled(generation: int = 1) -> Condition:
    return Condition(
        type="Stalled", status="True", reason="TableRefused", observedGeneration=generation, lastTransitionTime=NOW
    )


def test_a_new_resource_gets_the_finalizer_before_anything_else() -> None:
    assert reconcile(Observation(NOW, resource(finalizers=()))).actions == (AddFinalizer(),)


def test_the_first_attempt_is_in_the_status_before_it_is_made() -> None:
    plan = reconcile(Observation(NOW, resource()))
    assert kinds(plan) == ["WriteStatus", "StartAttempt"]
    assert plan.status.attempt == 1
    assert plan.status.attempts is not None
    assert plan.status.attempts[0].pod == NAMES.driver(1)
    assert plan.status.phase == "Starting"


def test_a_well_pipeline_is_ready_and_once_that_is_written_nothing_is_done() -> None:
    plan = reconcile(well())
    assert kinds(plan) == ["WriteStatus"]
    assert plan.status.phase == "Running"
    assert condition(plan, "Ready").status == "True"
    assert condition(plan, "Stalled").status == "False"
    assert condition(plan, "CheckpointHealthy").reason == "InStep"
    assert plan.status.last_commit is not None
    assert reconcile(after(well(), status=plan.status)).actions == ()


def test_idle_is_a_phase_of_its_own() -> None:
    plan = reconcile(replace(well(), contact=Contact(report(idle=True, phase="idle", inflight=None))))
    assert plan.status.phase == "Idle"
    assert condition(plan, "Ready").status == "True"


def test_stuck_is_fenced_then_rolled_back_then_started_anew() -> None:
    seen = replace(well(), contact=Contact(report(last_report_age_seconds=4000.0)))
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus", "DeleteDriver"]
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "Stuck"

    seen = after(replace(seen, drivers=(driver(terminating=True),)), status=plan.status)
    assert "StartAttempt" not in kinds(reconcile(seen))
    assert "CreateRollback" not in kinds(reconcile(seen))

    seen = replace(seen, drivers=())
    plan = reconcile(seen)
    assert "CreateRollback" in kinds(plan)
    assert kinds(plan)[0] == "WriteStatus"
    assert "StartAttempt" not in kinds(plan)

    running = replace(after(seen, status=plan.status), jobs=(RollbackJob(1, JobState.RUNNING),))
    assert "StartAttempt" not in kinds(reconcile(running))

    done = replace(running, jobs=(RollbackJob(1, JobState.SUCCEEDED),), now=NOW + timedelta(minutes=10))
    plan = reconcile(done)
    assert kinds(plan) == ["WriteStatus", "StartAttempt"]
    assert condition(plan, "TimelineClean").reason == "RolledBack"


def test_a_stall_is_still_told_after_the_rollback_that_followed_it() -> None:
    seen = ended("Stuck", 4000, phase="Recovering", conditions=(_rollback_pending(), stalled()))
    plan = reconcile(replace(seen, jobs=(RollbackJob(1, JobState.SUCCEEDED),)))
    assert "StartAttempt" not in kinds(plan)
    assert plan.status.phase == "Stalled"
    assert condition(plan, "TimelineClean").status == "True"


def test_a_rollback_that_nobody_but_a_person_can_mend_stalls() -> None:
    seen = ended("Stuck", 4000, conditions=(_rollback_pending(),))
    plan = reconcile(replace(seen, jobs=(RollbackJob(1, JobState.FAILED, exit_code=7),)))
    assert "StartAttempt" not in kinds(plan)
    assert condition(plan, "Stalled").reason == "RollbackFailed"


def test_a_rollback_that_failed_otherwise_is_left_to_the_next_start() -> None:
    seen = ended("Stuck", 4000, conditions=(_rollback_pending(),))
    plan = reconcile(replace(seen, jobs=(RollbackJob(1, JobState.FAILED, exit_code=20),)))
    assert "StartAttempt" in kinds(plan)


def _rollback_pending() -> Condition:
    return Condition(type="TimelineClean", status="False", reason="RollbackPending", lastTransitionTime=NOW)


def test_a_failed_attempt_is_followed_after_its_backoff_and_not_before() -> None:
    assert "StartAttempt" not in kinds(reconcile(ended("QueryFailed", 5)))
    assert reconcile(ended("QueryFailed", 5)).status.phase == "Recovering"
    assert "StartAttempt" in kinds(reconcile(ended("QueryFailed", 13)))


def test_nothing_starts_on_the_word_of_a_cache() -> None:
    assert "StartAttempt" not in kinds(reconcile(replace(ended("QueryFailed", 500), live=False)))
    gone = replace(well(), drivers=(), live=False)
    assert reconcile(gone).look_live
    assert reconcile(gone).status.attempts == gone.resource.status.attempts


def test_nothing_starts_while_an_older_driver_is_only_terminating() -> None:
    seen = replace(ended("QueryFailed", 500), drivers=(driver(1, terminating=True),))
    assert "StartAttempt" not in kinds(reconcile(seen))


def test_a_driver_that_vanished_is_replaced() -> None:
    plan = reconcile(replace(well(), drivers=()))
    assert kinds(plan) == ["WriteStatus", "DeleteExecutors", "StartAttempt"]
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


def test_a_completed_pipeline_stays_so_until_its_spec_changes() -> None:
    wanted = bucket_ingest({"commit": {"trigger": "once"}})
    said = termination(0, error_class="Completed")
    over = driver(state=PodState.SUCCEEDED, exit_code=0, report=said)
    seen = replace(after(well(), wanted=wanted), told={1: told_of(wanted)}, drivers=(over,))
    plan = reconcile(seen)
    assert plan.status.phase == "Completed"
    later = after(replace(seen, now=NOW + timedelta(days=9)), status=plan.status, generation=5)
    assert "StartAttempt" not in kinds(reconcile(later))
    changed = bucket_ingest({"commit": {"trigger": "once"}, "transform": {"sql": "SELECT value FROM source"}})
    assert "StartAttempt" in kinds(reconcile(after(later, wanted=changed)))


@pytest.mark.parametrize(
    ("spec", "stops"),
    [
        ({"health": {"maxCommitLag": "7m"}}, False),
        ({"slo": {"commitLatency": "7m"}}, False),
        ({"source": {"rate": {"rowsPerSecond": 11}}}, True),
        ({"suspend": True}, True),
        ({"table": {"path": "s3://lake/other", "recordKey": ["value"]}}, False),
    ],
)
def test_only_a_change_that_the_job_would_notice_restarts_it(spec: dict[str, Any], stops: bool) -> None:
    plan = reconcile(after(well(), wanted=bucket_ingest(spec), generation=2))
    assert ("DeleteDriver" in kinds(plan)) == stops


def test_a_change_of_what_is_immutable_is_told_and_the_driver_goes_on() -> None:
    other = bucket_ingest({"table": {"path": "s3://lake/other", "recordKey": ["value"]}})
    plan = reconcile(after(well(), wanted=other, generation=2))
    assert condition(plan, "Stalled").reason == "SpecRefused"
    assert condition(plan, "Ready").status == "True"


def test_suspended_means_no_driver_and_resumed_means_a_new_attempt() -> None:
    wanted = bucket_ingest({"suspend": True})
    seen = after(ended("Suspended", 100), wanted=wanted)
    plan = reconcile(seen)
    assert plan.status.phase == "Suspended"
    assert "StartAttempt" not in kinds(plan)
    assert "StartAttempt" in kinds(reconcile(after(seen, wanted=bucket_ingest(), status=plan.status)))


def test_a_new_nonce_restarts_the_driver_gracefully() -> None:
    plan = reconcile(after(well(), annotations={RESTART_ANNOTATION: "1"}))
    assert DeleteDriver(1, NAMES.driver(1)) in plan.actions


def test_paused_only_watches() -> None:
    seen = after(replace(well(), drivers=()), annotations={PAUSE_ANNOTATION: "true"})
    assert kinds(reconcile(seen)) == ["WriteStatus"]


def test_paused_it_sees_a_driver_as_often_as_ever() -> None:
    paused = after(well(), annotations={PAUSE_ANNOTATION: "true"})
    assert reconcile(paused).look_again == reconcile(well()).look_again


def test_a_spec_that_cannot_be_used_stalls_a_stopped_pipeline_and_leaves_a_running_one_alone() -> None:
    problems = (Problem("spec.table.path", "is missing"),)
    assert kinds(reconcile(after(well(), wanted=None, problems=problems))) == ["WriteStatus"]
    plan = reconcile(after(ended("QueryFailed", 100), wanted=None, problems=problems))
    assert "StartAttempt" not in kinds(plan)
    assert "spec.table.path" in condition(plan, "Stalled").message


def test_the_older_resource_has_the_table_and_the_other_names_it() -> None:
    older = Claim("ingest", "first", "a", NOW - timedelta(days=2))
    plan = reconcile(replace(Observation(NOW, resource()), claims=(older,)))
    assert "StartAttempt" not in kinds(plan)
    assert "ingest/first" in condition(plan, "Ready").message
    assert "DeleteDriver" in kinds(reconcile(replace(well(), claims=(older,))))
    younger = replace(older, created_at=NOW)
    assert "StartAttempt" in kinds(reconcile(replace(Observation(NOW, resource()), claims=(younger,))))
    writing = replace(younger, has_driver=True)
    assert "StartAttempt" not in kinds(reconcile(replace(Observation(NOW, resource()), claims=(writing,))))


def test_a_deletion_stops_the_driver_waits_rolls_back_and_lets_go() -> None:
    status = status_with(attempt(1), inflight=Inflight(instant="20261121115950000", since=NOW))
    seen = after(well(), deleting=True, status=status)
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus", "DeleteDriver"]
    seen = after(replace(seen, drivers=()), status=plan.status)
    assert "RemoveFinalizer" not in kinds(reconcile(replace(seen, live=False)))
    assert "CreateRollback" in kinds(reconcile(seen))
    failed = replace(seen, jobs=(RollbackJob(1, JobState.FAILED),))
    assert "RemoveFinalizer" in kinds(reconcile(failed))
    assert "RemoveFinalizer" in kinds(reconcile(replace(seen, namespace_terminating=True)))


def test_a_deletion_that_is_not_ours_to_hold_up_is_left_alone() -> None:
    assert reconcile(after(well(), deleting=True, finalizers=("other",))).actions == ()
    assert FINALIZER in well().resource.finalizers


def test_a_driver_that_a_lost_status_does_not_know_is_taken_up() -> None:
    seen = replace(after(well(), status=status_with()), drivers=(driver(7),), told={7: told_of(bucket_ingest())})
    plan = reconcile(seen)
    assert plan.status.attempt == 7
    assert "StartAttempt" not in kinds(plan)
    assert "DeleteDriver" not in kinds(plan)


def test_a_number_is_never_used_again_even_when_the_status_is_lost() -> None:
    seen = Observation(NOW, resource(), told={4: told_of(bucket_ingest())}, jobs=(RollbackJob(6, JobState.SUCCEEDED),))
    assert reconcile(seen).status.attempt == 7


def test_a_driver_of_an_older_attempt_is_removed() -> None:
    seen = replace(after(well(), status=status_with(attempt(2))), drivers=(driver(1), driver(2)))
    assert DeleteDriver(1, NAMES.driver(1)) in reconcile(seen).actions


def test_a_driver_whose_attempt_the_status_says_is_over_is_removed_before_the_next() -> None:
    plan = reconcile(replace(ended("QueryFailed", 500), drivers=(driver(1),)))
    assert DeleteDriver(1, NAMES.driver(1)) in plan.actions
    assert "StartAttempt" not in kinds(plan)


def test_an_image_that_cannot_be_pulled_is_told_and_waited_for() -> None:
    waiting = driver(state=PodState.PENDING, reason=PodReason.IMAGE_PULL, message="manifest unknown")
    plan = reconcile(replace(well(), drivers=(waiting,), contact=Contact()))
    assert kinds(plan) == ["WriteStatus"]
    assert condition(plan, "Ready").reason == "ImagePullFailing"
    assert "manifest unknown" in condition(plan, "Ready").message


def test_what_old_attempts_left_is_swept_but_the_last_one_is_kept_for_its_logs() -> None:
    told = told_of(bucket_ingest())
    over = tuple(driver(number, PodState.FAILED) for number in (1, 2, 3))
    status = status_with(attempt(3, ended=1, outcome="QueryFailed"))
    plan = reconcile(replace(after(well(), status=status), drivers=over, told={1: told, 2: told, 3: told}))
    assert [each for each in plan.actions if isinstance(each, DeleteAttempt)] == [DeleteAttempt(1)]


def test_a_clock_that_was_put_back_makes_nobody_wait_for_it() -> None:
    seen = replace(ended("QueryFailed", 0), now=NOW - timedelta(days=1))
    plan = reconcile(seen)
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].ended_at == NOW - timedelta(days=1)


def test_starts_rollbacks_and_releases_are_guarded_by_a_write_of_the_status() -> None:
    status = reconcile(Observation(NOW, resource())).status
    again = reconcile(Observation(NOW, resource(status=status)))
    assert isinstance(again.actions[0], WriteStatus)
    assert isinstance(again.actions[1], StartAttempt)
    assert not any(isinstance(each, CreateRollback | RemoveFinalizer) for each in again.actions)
