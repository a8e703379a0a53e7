"""A repair never waits for a check: without one, and when it cannot be run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest_operator.decide.plan import DeleteJob, EmitEvent, Plan
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.decide.upgrade.preflight import LIMIT, PATIENCE, SPEC_MAX
from bucketingest_operator.observation import Contact, JobState, PodReason, PodState, Refusal
from bucketingest_operator.resource import RESTART_ANNOTATION
from support.operator.observations import NOW, after, bucket_ingest, driver, report, termination
from support.operator.plans import condition, kinds
from support.operator.preflights import (
    KEY,
    NAME,
    TYPO,
    checking,
    edited,
    failed,
    found,
    job,
    later,
    stops,
)
from support.operator.probation import changed, starts, trial_of


# ----------------------------------------------------------------------------------------------- when there is no check
def late() -> Contact:
    return Contact(report(last_report_age_seconds=1, lag=report().lag.model_copy(update={"seconds": 400.0})))


def test_without_the_field_a_spec_starts_at_once() -> None:
    assert stops(reconcile(changed(bucket_ingest({"transform": {"sql": "SELECT value FROM source"}}))))


def test_with_a_definition_that_drops_the_status_a_spec_starts_at_once_and_is_not_on_trial() -> None:
    seen = replace(edited(), upgrade_kept=False)
    seen = replace(
        seen, resource=replace(seen.resource, status=seen.resource.status.model_copy(update={"upgrade": None}))
    )
    plan = reconcile(seen)
    assert stops(plan)
    assert plan.status.upgrade is None


def test_a_spec_that_no_annotation_holds_starts_at_once() -> None:
    columns = f"value STRING COMMENT '{'x' * SPEC_MAX}'"
    kafka = {"bootstrapServers": "kafka:9092", "topics": ["orders"]}
    format_ = {"type": "json", "schema": columns}
    large = bucket_ingest({"source": {"kafka": kafka}, "format": format_, "upgrade": {"preflight": True}})
    plan = reconcile(changed(large))
    assert stops(plan)
    (event,) = [each for each in plan.actions if isinstance(each, EmitEvent) and each.reason == "PreflightSkipped"]
    assert event.message.endswith("is taken over without a preflight. It is too large for a pod's annotation.")


def test_a_restart_that_is_asked_for_takes_the_spec_over_without_a_check() -> None:
    nonce = {RESTART_ANNOTATION: "now"}
    assert stops(reconcile(after(edited(), annotations=nonce)))
    seen, plan = failed()
    asked = after(later(seen, plan), annotations=nonce)
    stopping = reconcile(asked)
    assert stops(stopping)
    gone = later(asked, stopping, drivers=(), contact=Contact())
    assert [digest(each) for each in starts(reconcile(gone))] == [KEY]


@pytest.mark.parametrize("reason", ["CommitsLate", "NoExecutors", "DriverPending", "JobStarting"])
def test_a_driver_that_is_not_ready_is_replaced_at_once(reason: str) -> None:
    seen = edited()
    status = seen.resource.status
    conditions = tuple(
        each.model_copy(update={"status": "False", "reason": reason}) if each.type == "Ready" else each
        for each in status.conditions or ()
    )
    assert stops(reconcile(after(seen, status=status.model_copy(update={"conditions": conditions}))))


def test_a_driver_that_does_not_answer_for_a_moment_is_still_protected() -> None:
    silent = replace(checking(), contact=Contact(report(), NOW))
    unknown = reconcile(silent)
    assert condition(unknown, "Ready").status == "Unknown"
    assert not stops(reconcile(later(silent, unknown)))


def with_ready(plan: Plan, reason: str) -> Any:
    conditions = tuple(
        each.model_copy(update={"status": "False", "reason": reason}) if each.type == "Ready" else each
        for each in plan.status.conditions or ()
    )
    return plan.status.model_copy(update={"conditions": conditions})


def test_a_spec_that_failed_is_taken_over_once_the_driver_does_not_do_well() -> None:
    seen, plan = failed()
    unwell = after(later(seen, plan), status=with_ready(plan, "CommitsLate"))
    lifted = reconcile(unwell)
    assert trial_of(lifted.status) is None
    assert condition(lifted, "Degraded").reason == "PreflightSkipped"
    assert not stops(lifted)
    assert stops(reconcile(later(unwell, lifted)))


def test_a_driver_that_fails_by_itself_gives_way_to_the_changed_spec() -> None:
    seen, plan = failed()
    over = driver(1, PodState.FAILED, exit_code=15, report=termination(15))
    ended_seen = later(seen, plan, drivers=(over,), contact=Contact())
    ended = reconcile(ended_seen)
    lifted_seen = later(ended_seen, ended, 1, drivers=())
    lifted = reconcile(lifted_seen)
    assert trial_of(lifted.status) is None
    later_on = later(lifted_seen, lifted, 60)
    assert [digest(each) for each in starts(reconcile(later_on))] == [KEY]


def test_switched_off_a_spec_that_failed_is_taken_over() -> None:
    seen, plan = failed()
    off = bucket_ingest({"transform": {"sql": "SELECT value FROM source"}})
    edited_off = after(later(seen, plan), wanted=off, generation=3)
    lifted = reconcile(edited_off)
    assert trial_of(lifted.status) is None
    assert stops(reconcile(later(edited_off, lifted)))


def test_a_spec_that_gave_way_after_its_probation_is_not_checked_again() -> None:
    seen, plan = failed()
    upgrade = plan.status.upgrade
    assert upgrade is not None
    gave_way = plan.status.model_copy(update={"upgrade": upgrade.model_copy(update={"preflight": None})})
    quiet = reconcile(after(later(seen, plan, preflights=()), status=gave_way))
    assert "CreateCheck" not in kinds(quiet)
    assert condition(quiet, "Degraded").reason == "SpecNotProven"


def test_a_suspended_pipeline_and_a_deleted_one_leave_no_job() -> None:
    suspended = bucket_ingest({"suspend": True, "upgrade": {"preflight": True}})
    plan = reconcile(after(checking(), wanted=suspended, generation=3))
    assert DeleteJob(NAME, "job-1") in plan.actions
    assert stops(plan)
    assert DeleteJob(NAME, "job-1") in reconcile(after(checking(), deleting=True)).actions


# ------------------------------------------------------------------------------------------- a check that cannot be run
def test_a_job_that_is_refused_is_reported_and_the_spec_is_taken_over_after_a_limit() -> None:
    first = edited()
    refusal = Refusal(NAME, "exceeded quota: no-jobs", NOW, "preflight")
    refused = later(first, reconcile(first), 5, refusals=(refusal,))
    plan = reconcile(refused)
    assert "CreateCheck" not in kinds(plan)
    assert found(plan).result == "NotRun"
    assert "exceeded quota" in condition(plan, "Reconciling").message
    assert condition(plan, "Degraded").status == "False"
    again = reconcile(later(refused, plan, 130))
    assert "CreateCheck" in kinds(again)
    over = reconcile(later(refused, plan, LIMIT.total_seconds()))
    assert stops(over)
    assert any(isinstance(each, EmitEvent) and each.reason == "PreflightSkipped" for each in over.actions)


def test_an_account_that_is_not_allowed_fails_as_the_driver_would() -> None:
    refusal = Refusal(NAME, "ingest/root is not allowed", NOW, "preflight", about_driver=True)
    first = edited()
    seen = later(first, reconcile(first), 5, refusals=(refusal,))
    plan = reconcile(seen)
    assert found(plan).result == "Failed"
    assert "ingest/root is not allowed" in condition(plan, "Degraded").message
    assert found(reconcile(later(seen, plan))).tries == 1
    assert "CreateCheck" in kinds(reconcile(later(seen, plan, 61)))


def test_a_pod_that_leaves_no_message_proves_nothing_and_is_repeated() -> None:
    seen = replace(checking(), preflights=(job(JobState.FAILED, message="Evicted"),))
    plan = reconcile(seen)
    assert not stops(plan)
    assert (found(plan).result, found(plan).tries, found(plan).message) == ("NotRun", 1, "Evicted")
    assert DeleteJob(NAME, "job-1") in reconcile(later(seen, plan, 61)).actions
    over = later(seen, plan, LIMIT.total_seconds())
    assert stops(reconcile(over))


def test_a_spec_that_has_failed_stays_out_if_its_next_check_cannot_be_run() -> None:
    seen, plan = failed()
    broken = later(seen, plan, 90, preflights=(job(JobState.FAILED, "job-2", message="Evicted"),))
    again = reconcile(broken)
    assert (found(again).result, found(again).tries) == ("Failed", 2)
    assert TYPO in condition(again, "Degraded").message
    assert not stops(reconcile(later(broken, again, 10 * LIMIT.total_seconds())))


def test_an_image_of_an_older_release_is_not_checked() -> None:
    old = termination(2, "No such option: --connect", "BadInput")
    plan = reconcile(replace(checking(), preflights=(job(JobState.FAILED, report=old),)))
    assert stops(plan)


@pytest.mark.parametrize("reason", [PodReason.IMAGE_PULL, PodReason.CONFIG])
def test_an_image_that_cannot_be_pulled_fails_the_check_after_a_while(reason: PodReason) -> None:
    waits = job(waiting=reason, message="ErrImagePull: not found")
    seen = replace(checking(), preflights=(waits,))
    early = reconcile(seen)
    assert found(early).result == "Pending"
    assert "ErrImagePull" in condition(early, "Reconciling").message
    seen = later(seen, early, PATIENCE.total_seconds())
    plan = reconcile(seen)
    assert not stops(plan)
    assert found(plan).result == "Failed"
    assert "ErrImagePull: not found" in condition(plan, "Degraded").message
    assert DeleteJob(NAME, "job-1") in plan.actions


def test_a_pod_that_finds_no_node_is_no_failure_of_the_spec() -> None:
    waits = job(waiting=PodReason.UNSCHEDULABLE, message="0/3 nodes are available")
    seen = replace(checking(), now=NOW + timedelta(minutes=3), preflights=(waits,))
    plan = reconcile(seen)
    assert found(plan).result == "Pending"
    assert not stops(plan)
    assert stops(reconcile(later(seen, plan, LIMIT.total_seconds())))
