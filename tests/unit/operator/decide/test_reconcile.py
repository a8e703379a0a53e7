"""The operator's decision for each observation."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.spec.status import Inflight
from bucketingest_operator.decide.plan import (
    AddFinalizer,
    CreateRollback,
    DeleteAttempt,
    DeleteDriver,
    RemoveFinalizer,
    StartAttempt,
    WriteStatus,
)
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import Claim, Contact, Executors, JobState, Observation, PodState, RollbackJob
from bucketingest_operator.resource import FINALIZER, PAUSE_ANNOTATION, RESTART_ANNOTATION
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


def test_a_new_resource_gets_the_finalizer_before_anything_else() -> None:
    assert reconcile(Observation(NOW, resource(finalizers=()))).actions == (AddFinalizer(),)


def test_the_first_attempt_is_in_the_status_before_it_is_made() -> None:
    plan = reconcile(Observation(NOW, resource()))
    assert kinds(plan) == ["WriteStatus", "StartAttempt"]
    assert plan.status.attempt == 1
    assert plan.status.attempts is not None
    assert plan.status.attempts[0].pod == NAMES.driver(1)
    assert plan.status.phase == "Starting"


def test_a_healthy_pipeline_is_ready_and_once_that_is_written_nothing_is_done() -> None:
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


def test_nothing_starts_from_cached_objects() -> None:
    assert "StartAttempt" not in kinds(reconcile(replace(ended("QueryFailed", 500), live=False)))
    gone = replace(well(), drivers=(), live=False)
    assert reconcile(gone).look_live
    assert reconcile(gone).status.attempts == gone.resource.status.attempts


def test_nothing_starts_while_an_older_driver_is_only_terminating() -> None:
    seen = replace(ended("QueryFailed", 500), drivers=(driver(1, terminating=True),))
    assert "StartAttempt" not in kinds(reconcile(seen))


def test_a_completed_pipeline_stays_so_until_its_spec_changes() -> None:
    wanted = bucket_ingest({"commit": {"trigger": "once"}})
    said = termination(0, error_class="Completed")
    over = driver(state=PodState.SUCCEEDED, exit_code=0, report=said)
    seen = replace(after(well(), wanted=wanted), inputs={1: input_of(wanted)}, drivers=(over,))
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


def test_a_change_of_an_immutable_field_is_reported_and_the_driver_continues() -> None:
    other = bucket_ingest({"table": {"path": "s3://lake/other", "recordKey": ["value"]}})
    plan = reconcile(after(well(), wanted=other, generation=2))
    assert condition(plan, "Stalled").reason == "SpecRefused"
    assert condition(plan, "Ready").status == "True"


def test_suspended_means_no_driver_and_resumed_means_a_new_attempt() -> None:
    wanted = bucket_ingest({"suspend": True})
    seen = after(ended("Suspended", 100), wanted=wanted)
    plan = reconcile(seen)
    assert plan.status.phase == "Suspended"
    # So Flux and `helm --wait` take it for done.
    said = {kind: condition(plan, kind).status for kind in ("Ready", "Reconciling", "Stalled")}
    assert said == {"Ready": "True", "Reconciling": "False", "Stalled": "False"}
    assert plan.status.observed_generation == seen.resource.generation
    assert "StartAttempt" not in kinds(plan)
    assert "StartAttempt" in kinds(reconcile(after(seen, wanted=bucket_ingest(), status=plan.status)))


def test_a_new_nonce_restarts_the_driver_gracefully() -> None:
    plan = reconcile(after(well(), annotations={RESTART_ANNOTATION: "1"}))
    assert DeleteDriver(1, NAMES.driver(1)) in plan.actions


def test_a_driver_whose_pods_wait_for_a_deleted_secret_restarts_when_it_is_its_turn() -> None:
    ready = after(well(), status=reconcile(well()).status)
    lost = replace(ready, executors=Executors(pending=1, secret_gone=True))
    plan = reconcile(lost)
    assert DeleteDriver(1, NAMES.driver(1)) in plan.actions
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "SecretGone"
    assert "DeleteDriver" not in kinds(reconcile(replace(lost, restarts_full=True)))
    following = reconcile(after(replace(lost, drivers=(), executors=Executors()), status=plan.status))
    assert "StartAttempt" in kinds(following)


def test_paused_only_watches() -> None:
    seen = after(replace(well(), drivers=()), annotations={PAUSE_ANNOTATION: "true"})
    assert kinds(reconcile(seen)) == ["WriteStatus"]


def test_paused_it_sees_a_driver_as_often_as_ever() -> None:
    paused = after(well(), annotations={PAUSE_ANNOTATION: "true"})
    assert reconcile(paused).look_again == reconcile(well()).look_again


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
    plan = reconcile(seen)
    assert "CreateRollback" in kinds(plan)
    # Else an operator that dies after each write would write two statuses in turns, and nothing else.
    assert kinds(reconcile(replace(after(seen, status=plan.status), live=False))) == []
    failed = replace(seen, jobs=(RollbackJob(1, JobState.FAILED),))
    assert "RemoveFinalizer" in kinds(reconcile(failed))
    assert "RemoveFinalizer" in kinds(reconcile(replace(seen, namespace_terminating=True)))


def test_a_deletion_without_our_finalizer_is_left_alone() -> None:
    assert reconcile(after(well(), deleting=True, finalizers=("other",))).actions == ()
    assert FINALIZER in well().resource.finalizers


def test_a_driver_of_an_older_attempt_is_removed() -> None:
    seen = replace(after(well(), status=status_with(attempt(2))), drivers=(driver(1), driver(2)))
    assert DeleteDriver(1, NAMES.driver(1)) in reconcile(seen).actions


def test_a_driver_whose_attempt_has_ended_in_the_status_is_removed_before_the_next() -> None:
    plan = reconcile(replace(ended("QueryFailed", 500), drivers=(driver(1),)))
    assert DeleteDriver(1, NAMES.driver(1)) in plan.actions
    assert "StartAttempt" not in kinds(plan)


def test_old_attempts_are_cleaned_up_but_the_last_one_is_kept_for_its_logs() -> None:
    attempt_input = input_of(bucket_ingest())
    over = tuple(driver(number, PodState.FAILED) for number in (1, 2, 3))
    status = status_with(attempt(3, ended=1, outcome="QueryFailed"))
    plan = reconcile(
        replace(
            after(well(), status=status), drivers=over, inputs={1: attempt_input, 2: attempt_input, 3: attempt_input}
        )
    )
    assert [each for each in plan.actions if isinstance(each, DeleteAttempt)] == [DeleteAttempt(1, has_driver=True)]


def test_starts_rollbacks_and_releases_are_guarded_by_a_write_of_the_status() -> None:
    status = reconcile(Observation(NOW, resource())).status
    again = reconcile(Observation(NOW, resource(status=status)))
    assert isinstance(again.actions[0], WriteStatus)
    assert isinstance(again.actions[1], StartAttempt)
    assert not any(isinstance(each, CreateRollback | RemoveFinalizer) for each in again.actions)


def test_fields_that_the_operator_does_not_know_are_reported_once_for_each_edit() -> None:
    known = after(well(), status=reconcile(well()).status)
    assert events(reconcile(after(known, unknown=("spec.later",)))) == []
    (said,) = events(reconcile(after(known, unknown=("spec.later",), generation=2)))
    assert said.reason == "UnknownFields"
    assert "spec.later" in said.message
