"""What the API server refuses to create is reported, tried again later, and hangs nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from bucketingest.spec.status import Condition
from bucketingest_operator.decide.next_attempt import ROLLBACK_TRIES
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import CreationRefusal, Observation
from support.operator.observations import NOW, after, attempt, bucket_ingest, ended, status_with, well
from support.operator.plans import condition, events, kinds

SENTENCE = "exceeded quota: small"
WAIT = timedelta(seconds=7)
PENDING = Condition(type="TimelineClean", status="False", reason="RollbackPending", last_transition_time=NOW)


def refused(seen: Observation, times: int = 1, retry_in: timedelta = WAIT) -> Observation:
    return replace(seen, creation_refusal=CreationRefusal(SENTENCE, times, retry_in))


def intended() -> Observation:
    """An attempt whose pod was refused."""
    return replace(after(well(), status=status_with(attempt(1, started=None))), drivers=(), inputs={})


def test_a_refused_driver_is_reported_and_tried_again_after_a_wait() -> None:
    seen = refused(intended())
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus"]
    said = condition(plan, "Ready")
    assert (said.status, said.reason, said.message) == ("False", "CreationRefused", SENTENCE)
    assert plan.status.phase == "Pending"
    assert [(each.kind, each.reason) for each in events(plan)] == [("Warning", "CreationRefused")]
    assert plan.look_again == WAIT
    waiting = after(seen, status=plan.status)
    assert kinds(reconcile(waiting)) == []
    due = reconcile(refused(waiting, retry_in=timedelta(0)))
    assert kinds(due) == ["WriteStatus", "StartAttempt"]
    assert condition(due, "Ready").reason == "CreationRefused", "until it is accepted"
    assert events(due) == []


def test_a_suspension_ends_the_tries() -> None:
    plan = reconcile(refused(intended()))
    suspended = well().resource.wanted
    assert suspended is not None
    spec = suspended.spec.model_copy(update={"suspend": True})
    seen = after(refused(intended()), status=plan.status, wanted=suspended.model_copy(update={"spec": spec}))
    assert "StartAttempt" not in kinds(reconcile(seen))
    assert reconcile(seen).status.attempts[-1].outcome == "Suspended"  # type: ignore[index]


def test_a_refused_rollback_is_tried_again_and_then_left_to_the_next_start() -> None:
    seen = after(ended("Stuck", 4000, conditions=(PENDING,)), wanted=bucket_ingest({"suspend": True}))
    assert "CreateRollback" in kinds(reconcile(seen))
    waits = reconcile(refused(seen))
    assert kinds(waits) == ["WriteStatus"]
    assert condition(waits, "Ready").reason == "CreationRefused"
    assert "CreateRollback" in kinds(reconcile(refused(seen, 2, timedelta(0))))
    plan = reconcile(refused(seen, ROLLBACK_TRIES))
    assert plan.status.phase == "Suspended"
    clean = condition(plan, "TimelineClean")
    assert (clean.status, clean.reason) == ("False", "RollbackFailed")
    assert SENTENCE in clean.message


def test_a_deletion_does_not_wait_for_ever_for_a_refused_rollback() -> None:
    seen = after(ended("Stuck", 4000, conditions=(PENDING,)), deleting=True)
    assert kinds(reconcile(refused(seen))) == ["WriteStatus"]
    plan = reconcile(refused(seen, ROLLBACK_TRIES))
    assert kinds(plan)[-1] == "RemoveFinalizer"
    assert "RollbackFailed" in [each.reason for each in events(plan)]
