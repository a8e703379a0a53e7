"""A bounded number of pipelines restart at the same time, whatever asks for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.spec.status import Attempt, Condition, Status
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.observation import Contact, Observation, PodState
from bucketingest_operator.resource import RESTART_ANNOTATION
from bucketingest_operator.restart_budget import SLOT_SECONDS, RestartBudget, is_restarting
from support.operator.observations import NOW, after, bucket_ingest, driver, report, resource, well
from support.operator.plans import condition, events, kinds

STARTED = datetime.now(UTC)


class Clock:
    now = 0.0

    def time(self) -> float:
        return self.now


def status(*outcomes: str | None, ready: bool = False, phase: str = "Recovering") -> Status:
    attempts = tuple(
        Attempt(number=number, outcome=outcome, endedAt=None if outcome is None else STARTED)
        for number, outcome in enumerate(outcomes, 1)
    )
    said = Condition(type="Ready", status="True" if ready else "False", reason="Any", lastTransitionTime=STARTED)
    return Status.model_validate({"phase": phase, "attempts": attempts, "conditions": (said,)})


STOPPING = status("SpecChanged")
DONE = status("SpecChanged", None, ready=True, phase="Running")


@pytest.mark.parametrize(
    ("found", "restarts"),
    [
        (status(), False),
        (status(None), False),
        (STOPPING, True),
        (status("RestartAsked", None), True),
        (DONE, False),
        (status("SpecChanged", "QueryFailed"), False),
        (status("QueryFailed", None), False),
        (status("SpecChanged", phase="Stalled"), False),
    ],
)
def test_a_restart_lasts_from_the_stop_until_the_next_driver_is_ready(found: Status, restarts: bool) -> None:
    assert is_restarting(found, STARTED) == restarts


def test_a_driver_that_stops_to_answer_long_after_its_restart_restarts_no_more() -> None:
    later = STARTED + timedelta(seconds=SLOT_SECONDS)
    assert not is_restarting(status("SpecChanged", None), later)


def test_when_all_slots_are_taken_others_wait_and_the_first_is_woken() -> None:
    woken: list[str] = []
    budget = RestartBudget(2, woken.append, Clock())
    waiting = reconcile(waiting_observation()).status
    budget.note("a", STOPPING)
    assert not budget.full("b")
    budget.note("b", STOPPING)
    assert budget.full("c")
    assert not budget.full("a"), "one that restarts has its slot"
    budget.note("c", waiting)
    budget.note("d", waiting)
    budget.note("a", DONE)
    assert woken == ["c"]
    assert not budget.full("c")
    budget.forget("b")
    assert woken == ["c", "d"]


def test_one_that_never_becomes_ready_blocks_the_others_only_for_a_time() -> None:
    clock = Clock()
    budget = RestartBudget(1, lambda _uid: None, clock)
    budget.note("a", STOPPING)
    assert budget.full("b")
    clock.now = SLOT_SECONDS + 1
    budget.note("a", STOPPING)
    assert not budget.full("b")


def test_a_new_leader_knows_the_restarts_of_the_old_one() -> None:
    async def run() -> None:
        budget = RestartBudget(1, lambda _uid: None)
        budget.seed([resource(uid="a", status=STOPPING), resource(uid="b", status=DONE)])
        assert budget.full("c")

    asyncio.run(run())


def waiting_observation() -> Observation:
    settled = after(well(), status=reconcile(well()).status)
    return replace(after(settled, annotations={RESTART_ANNOTATION: "1"}), restarts_full=True)


def test_a_planned_restart_of_a_ready_pipeline_waits_for_its_turn() -> None:
    seen = waiting_observation()
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus"]
    assert condition(plan, "Reconciling").reason == "RestartWaiting"
    assert condition(plan, "Ready").status == "True"
    assert kinds(reconcile(replace(seen, restarts_full=False))) == ["WriteStatus", "DeleteDriver"]
    again = after(seen, status=plan.status)
    assert kinds(reconcile(again)) == []
    assert events(reconcile(again)) == []


def test_neither_a_pipeline_that_is_not_ready_nor_a_suspension_waits() -> None:
    late = replace(waiting_observation(), drivers=(driver(state=PodState.PENDING),), contact=Contact())
    late = after(late, status=reconcile(replace(after(late, annotations={}), restarts_full=False)).status)
    assert "DeleteDriver" in kinds(reconcile(late))
    suspended = after(waiting_observation(), wanted=bucket_ingest({"suspend": True}))
    assert "DeleteDriver" in kinds(reconcile(suspended))


def test_a_stuck_driver_is_stopped_while_its_restart_waits() -> None:
    seen = replace(waiting_observation(), contact=Contact(report(last_report_age_seconds=4000.0)), now=NOW)
    plan = reconcile(seen)
    assert "DeleteDriver" in kinds(plan)
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "Stuck"
