"""A bounded number of pipelines restart at the same time, whatever asks for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.spec.job_report import ProgressReport
from bucketingest.spec.status import Attempt, Condition, Preflight, Status, Trial, UpgradeStatus
from bucketingest_operator.decide.plan import Action, CreateCheck, Plan
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import Contact, JobState, Observation, PodState
from bucketingest_operator.resource import RESTART_ANNOTATION, Resource
from bucketingest_operator.restart_budget import SLOT_SECONDS, WAIT_SECONDS, RestartBudget, is_restarting
from support.operator.observations import NOW, after, bucket_ingest, commit, driver, report, resource, well
from support.operator.plans import condition, events, kinds
from support.operator.preflights import checking, edited, found, job, later

STARTED = datetime.now(UTC)


class Clock:
    now = 0.0

    def time(self) -> float:
        return self.now


def status(*outcomes: str | None, ready: bool = False, phase: str = "Recovering") -> Status:
    attempts = tuple(
        Attempt(number=number, outcome=outcome, ended_at=None if outcome is None else STARTED)
        for number, outcome in enumerate(outcomes, 1)
    )
    said = Condition(type="Ready", status="True" if ready else "False", reason="Any", last_transition_time=STARTED)
    return Status.from_document({"phase": phase, "attempts": attempts, "conditions": (said,)})


def named(uid: str, namespace: str = "ingest") -> Resource:
    return resource(uid=uid, namespace=namespace)


def note(budget: RestartBudget, uid: str, decided: Status, namespace: str = "ingest", *actions: Action) -> None:
    """A pass has decided on this status."""
    budget.note(replace(well(), resource=named(uid, namespace)), Plan(actions, decided, timedelta(seconds=5)))


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
    budget = RestartBudget(2, woken.append, clock=Clock())
    waiting = reconcile(waiting_observation()).status
    note(budget, "a", STOPPING)
    assert not budget.full(named("b"))
    note(budget, "b", STOPPING)
    assert budget.full(named("c"))
    assert not budget.full(named("a")), "one that restarts has its slot"
    note(budget, "c", waiting)
    note(budget, "d", waiting)
    note(budget, "a", DONE)
    assert woken == ["c"]
    assert not budget.full(named("c"))
    budget.forget("b")
    assert woken == ["c", "d"]


def test_one_that_never_becomes_ready_blocks_the_others_only_for_a_time() -> None:
    clock = Clock()
    budget = RestartBudget(1, lambda _uid: None, clock=clock)
    note(budget, "a", STOPPING)
    assert budget.full(named("b"))
    clock.now = SLOT_SECONDS + 1
    note(budget, "a", STOPPING)
    assert not budget.full(named("b"))


def test_a_stop_counts_although_the_api_server_does_not_show_it_yet() -> None:
    budget = RestartBudget(1, lambda _uid: None, clock=Clock())
    note(budget, "a", STOPPING)
    assert not budget.full(named("a")), "the call that writes it may have timed out: it is repeated"
    assert budget.full(named("b"))
    note(budget, "a", STOPPING)
    note(budget, "a", status("SpecChanged", None))
    note(budget, "a", status("SpecChanged", "QueryFailed"))
    note(budget, "a", status("SpecChanged", "QueryFailed", None))
    assert budget.full(named("b")), "it is not ready again"
    note(budget, "a", status("SpecChanged", "QueryFailed", None, ready=True, phase="Running"))
    assert not budget.full(named("b"))


def test_a_restart_that_is_no_longer_wanted_gives_its_slot_back() -> None:
    budget = RestartBudget(1, lambda _uid: None, clock=Clock())
    note(budget, "a", STOPPING)
    note(budget, "a", status(None, ready=True, phase="Running"))
    assert not budget.full(named("b"))


def test_a_namespace_gets_half_of_what_the_others_leave() -> None:
    budget = RestartBudget(10, lambda _uid: None, lambda: 3, Clock())
    given: dict[str, int] = {}
    for namespace in ("a", "b", "c"):
        while not budget.full(named(f"{namespace}{given.get(namespace, 0)}", namespace)):
            note(budget, f"{namespace}{given.get(namespace, 0)}", STOPPING, namespace)
            given[namespace] = given.get(namespace, 0) + 1
    assert given == {"a": 5, "b": 2, "c": 1}
    alone = RestartBudget(10, lambda _uid: None, lambda: 1, Clock())
    for number in range(9):
        note(alone, f"a{number}", STOPPING, "a")
    assert not alone.full(named("a9", "a"))


def test_a_default_image_that_none_has_committed_with_comes_to_one_pipeline_first() -> None:
    woken: list[str] = []
    budget = RestartBudget(10, woken.append, clock=Clock())

    def note_default(uid: str, decided: Status) -> None:
        given = replace(named(uid), has_default_image=True)
        budget.note(replace(well(), resource=given), Plan((), decided, timedelta(seconds=5)))

    others = replace(named("b"), has_default_image=True)
    note_default("a", STOPPING)
    assert budget.full(others)
    assert not budget.full(named("c")), "one that names its image does not wait"
    before = UpgradeStatus(attempt=1, digest="of the image before")
    waiting = replace_upgrade(reconcile(waiting_observation()).status, before)
    note_default("b", waiting)
    wanted = others.wanted
    assert wanted is not None
    note_default("a", replace_upgrade(DONE, before))
    assert not budget.full(others), "the first is ready, and did not prove the image: the next one has its turn"
    note_default("b", STOPPING)
    note_default("d", waiting)
    assert budget.full(replace(named("d"), has_default_image=True))
    woken.clear()
    note_default("b", replace_upgrade(status("SpecChanged", None), UpgradeStatus(attempt=2, digest=digest(wanted))))
    assert woken == ["d"]
    assert not budget.full(replace(named("d"), has_default_image=True))


def test_a_ready_driver_that_has_input_and_has_not_committed_with_the_default_image_keeps_its_turn() -> None:
    clock = Clock()
    budget = RestartBudget(10, lambda _uid: None, clock=clock)
    other = replace(named("b"), has_default_image=True)

    def decided(status: Status, failed_at: datetime | None = None) -> None:
        trial = Trial(digest="new", generation=1, attempt=2, until=STARTED, failed_at=failed_at)
        upgrade = UpgradeStatus(attempt=1, digest="of the image before", trial=trial)
        given = replace(named("a"), has_default_image=True)
        plan = Plan((), replace_upgrade(status, upgrade), timedelta(seconds=5))
        budget.note(replace(well(), resource=given), plan)

    decided(STOPPING)
    decided(DONE)
    assert budget.full(other), "a bad image would stop one pipeline after the other"
    assert not budget.full(named("c"))
    clock.now += SLOT_SECONDS
    assert not budget.full(other), "not for ever"
    for released in (DONE.model_copy(update={"phase": "Idle"}), status("SpecChanged", None, phase="Suspended")):
        clock.now += SLOT_SECONDS
        decided(STOPPING.model_copy(update={"attempts": (Attempt(number=int(clock.now), outcome="SpecChanged"),)}))
        assert budget.full(other)
        decided(released)
        assert not budget.full(other), "without input nothing can be committed"
    clock.now += SLOT_SECONDS
    decided(STOPPING.model_copy(update={"attempts": (Attempt(number=int(clock.now), outcome="SpecChanged"),)}))
    decided(DONE, failed_at=STARTED)
    assert not budget.full(other), "it went back to the image before"


def replace_upgrade(given: Status, upgrade: UpgradeStatus) -> Status:
    return given.model_copy(update={"upgrade": upgrade})


def test_the_first_whose_namespace_has_room_is_woken_and_no_other_looks_in_vain() -> None:
    woken: list[str] = []
    budget = RestartBudget(2, woken.append, lambda: 2, Clock())
    waiting = reconcile(waiting_observation()).status
    for uid, namespace, status in (
        *(("a", "x", STOPPING), ("b", "y", STOPPING)),
        *(("c", "x", waiting), ("d", "y", waiting), ("e", "y", waiting), ("f", "x", waiting)),
    ):
        note(budget, uid, status, namespace)
    note(budget, "b", DONE, "y")
    assert woken == ["d"], "x has its half"
    note(budget, "a", DONE, "x")
    assert woken == ["d", "c"], "it waits longest"


def test_a_check_before_a_restart_has_the_slot_of_the_restart() -> None:
    clock = Clock()
    budget = RestartBudget(1, lambda _uid: None, clock=clock)
    checked = reconcile(edited())
    note(budget, "a", checked.status, "ingest", *checked.actions)
    assert any(isinstance(each, CreateCheck) for each in checked.actions)
    assert budget.full(named("b"))
    clock.now = SLOT_SECONDS - 1
    note(budget, "a", STOPPING)
    clock.now = SLOT_SECONDS + 1
    assert budget.full(named("b")), "the time of the restart counts from the stop"
    note(budget, "a", DONE)
    note(budget, "a", checked.status)
    assert not budget.full(named("b")), "without a Job nothing is checked"


def test_a_check_waits_for_its_turn_and_its_time_counts_from_then() -> None:
    seen = replace(edited(), restarts_full=True)
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus"]
    assert condition(plan, "Reconciling").reason == "RestartWaiting"
    assert plan.status.upgrade is not None
    assert plan.status.upgrade.preflight is None
    turn = reconcile(later(seen, plan, 3600, restarts_full=False))
    assert "CreateCheck" in kinds(turn)
    assert "DeleteDriver" not in kinds(turn)
    assert found(turn).result == "Pending"


def test_one_that_has_passed_its_check_and_waits_takes_no_slot() -> None:
    seen = replace(checking(), preflights=(job(JobState.SUCCEEDED),), restarts_full=True)
    plan = reconcile(seen)
    assert found(plan).result == "Passed"
    assert condition(plan, "Reconciling").reason == "RestartWaiting"
    budget = RestartBudget(1, lambda _uid: None, clock=Clock())
    note(budget, "a", STOPPING)
    budget.note(replace(seen, resource=replace(seen.resource, uid="b")), plan)
    assert budget.full(named("b"))


def test_a_new_leader_knows_the_restarts_of_the_old_one() -> None:
    async def run() -> None:
        budget = RestartBudget(1, lambda _uid: None)
        budget.seed([resource(uid="a", status=STOPPING), resource(uid="b", status=DONE)])
        assert budget.full(named("c"))

    asyncio.run(run())


def test_a_new_leader_knows_who_has_the_turn_of_a_default_image() -> None:
    def on_trial(failed_at: datetime | None = None) -> Status:
        trial = Trial(digest="new", generation=1, attempt=2, until=STARTED, failed_at=failed_at)
        return replace_upgrade(DONE, UpgradeStatus(attempt=1, digest="of the image before", trial=trial))

    def full(given: Status) -> bool:
        budget = RestartBudget(10, lambda _uid: None, clock=Clock())
        budget.seed([replace(resource(uid="a", status=given), has_default_image=True)])
        return budget.full(replace(named("b"), has_default_image=True))

    def in_check(result: str, reason: str = "PreflightRunning") -> Status:
        check = Preflight(digest="new", generation=2, since=STARTED, result=result, message=None)
        given = replace_upgrade(DONE, UpgradeStatus(attempt=1, digest="of the image before", preflight=check))
        waits = Condition(type="Reconciling", status="True", reason=reason, last_transition_time=STARTED)
        return given.model_copy(update={"conditions": [*(given.conditions or ()), waits]})

    assert full(in_check("Pending")), "its spec is being checked"
    assert full(in_check("Passed")), "its restart follows"
    assert not full(in_check("Passed", "RestartWaiting"))
    assert not full(in_check("Failed"))
    assert full(on_trial()), "its driver is ready, and has not committed with the image"
    assert not full(on_trial(failed_at=STARTED))
    assert not full(DONE)


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


def test_a_wait_is_said_with_what_else_there_is_to_say_and_by_itself_only_if_it_is_long() -> None:
    """When a fleet restarts, each write for a wait that is over soon would come before those of the restarts."""
    seen = replace(waiting_observation(), waits_long=False)
    assert kinds(reconcile(seen)) == []
    commits = replace(seen, contact=Contact(report(last_commit=commit(7))), now=NOW)
    for said in (replace(seen, waits_long=True), commits):
        plan = reconcile(said)
        assert kinds(plan) == ["WriteStatus"]
        assert condition(plan, "Reconciling").reason == "RestartWaiting"
    assert kinds(reconcile(after(replace(seen, restarts_full=False), status=plan.status)))[0] == "WriteStatus"


def test_a_wait_is_long_after_a_minute_and_begins_once() -> None:
    clock, seen = Clock(), waiting_observation()
    budget = RestartBudget(1, lambda _uid: None, clock=clock)
    uid = seen.resource.uid
    assert not budget.waits_long(uid)
    for clock.now in (0, WAIT_SECONDS - 1):
        budget.note(seen, reconcile(seen))
        assert not budget.waits_long(uid)
    clock.now = WAIT_SECONDS
    assert budget.waits_long(uid)
    budget.note(seen, reconcile(replace(seen, restarts_full=False)))
    assert not budget.waits_long(uid)


def test_neither_a_pipeline_that_is_not_ready_nor_a_suspension_waits() -> None:
    late = replace(waiting_observation(), drivers=(driver(state=PodState.PENDING),), contact=Contact())
    late = after(late, status=reconcile(replace(after(late, annotations={}), restarts_full=False)).status)
    assert "DeleteDriver" in kinds(reconcile(late))
    suspended = after(waiting_observation(), wanted=bucket_ingest({"suspend": True}))
    assert "DeleteDriver" in kinds(reconcile(suspended))


@pytest.mark.parametrize("report_before", [report(), None], ids=["silent", "silent since this leader's start"])
def test_a_driver_that_does_not_answer_waits_for_its_turn(report_before: ProgressReport | None) -> None:
    """It may work: a slow network, or a slow operator, must not stop the fleet."""
    seen = replace(waiting_observation(), contact=Contact(report_before, NOW - timedelta(seconds=20)), now=NOW)
    for _ in range(3):
        plan = reconcile(seen)
        assert "DeleteDriver" not in kinds(plan)
        assert condition(plan, "Ready").reason == "DriverUnreachable"
        assert condition(plan, "Reconciling").reason == "RestartWaiting"
        seen = after(seen, status=plan.status)
    assert "DeleteDriver" in kinds(reconcile(replace(seen, restarts_full=False)))


def test_a_stuck_driver_is_stopped_while_its_restart_waits() -> None:
    seen = replace(waiting_observation(), contact=Contact(report(last_report_age_seconds=4000.0)), now=NOW)
    plan = reconcile(seen)
    assert "DeleteDriver" in kinds(plan)
    assert plan.status.attempts is not None
    assert plan.status.attempts[-1].outcome == "Stuck"
