"""A changed spec is checked before a driver that does well is stopped for it."""

from __future__ import annotations

from dataclasses import replace

from bucketingest_operator.decide.plan import CreateCheck, DeleteJob, EmitEvent
from bucketingest_operator.decide.reconcile import reconcile
from bucketingest_operator.decide.spec_changes import digest
from bucketingest_operator.observation import Contact, JobState, PodState
from support.operator.observations import after, driver, report
from support.operator.plans import condition, kinds
from support.operator.preflights import (
    KEY,
    NAME,
    OTHER,
    TYPO,
    checking,
    edited,
    failed,
    found,
    job,
    later,
    said_failed,
    stops,
)
from support.operator.probation import GOOD, starts, trial_of


# ------------------------------------------------------------------------------------------------ the check comes first
def test_a_changed_spec_is_checked_and_the_driver_runs_on() -> None:
    plan = reconcile(edited())
    assert kinds(plan) == ["WriteStatus", "CreateCheck"]
    assert CreateCheck("preflight", 1, KEY, edited().resource.wanted or GOOD) in plan.actions
    assert (found(plan).digest, found(plan).generation, found(plan).result) == (KEY, 2, "Pending")
    assert condition(plan, "Ready").status == "True"
    assert condition(plan, "Reconciling").reason == "PreflightRunning"
    assert condition(plan, "Degraded").reason == "PreflightRunning"
    again = reconcile(checking())
    assert not stops(again)
    assert "CreateCheck" not in kinds(again)


def test_a_spec_that_passes_replaces_the_driver_and_begins_its_probation() -> None:
    seen = replace(checking(), preflights=(job(JobState.SUCCEEDED),))
    plan = reconcile(seen)
    assert kinds(plan) == ["WriteStatus", "DeleteDriver", "DeleteJob"]
    assert plan.status.upgrade is not None
    assert plan.status.upgrade.preflight is None
    gone = later(seen, plan, drivers=(), contact=Contact(), preflights=())
    started = reconcile(gone)
    assert [digest(each) for each in starts(started)] == [KEY]
    trial = trial_of(started.status)
    assert trial is not None
    assert (trial.digest, trial.failed_at) == (KEY, None)
    assert condition(started, "Degraded").reason == "OnProbation"


def test_a_spec_that_fails_is_reported_and_the_driver_runs_on_with_its_spec() -> None:
    _, plan = failed()
    assert not stops(plan)
    degraded = condition(plan, "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "PreflightFailed")
    assert TYPO in degraded.message
    assert condition(plan, "Ready").status == "True"
    assert any(isinstance(each, EmitEvent) and each.reason == "PreflightFailed" for each in plan.actions)
    assert (found(plan).result, found(plan).tries, found(plan).job) == ("Failed", 1, "job-1")


def test_what_an_ended_job_says_counts_once() -> None:
    seen, plan = failed()
    again = reconcile(later(seen, plan))
    assert again.actions == ()
    assert again.status == plan.status


def test_a_driver_that_is_lost_comes_back_with_its_own_spec_if_the_changed_one_has_failed() -> None:
    seen, plan = failed()
    lost = later(seen, plan, drivers=(driver(1, PodState.FAILED, exit_code=143),), contact=Contact())
    ended = reconcile(lost)
    restarted = reconcile(later(lost, ended, drivers=(), last_good=GOOD))
    assert starts(restarted) == [GOOD]
    assert condition(restarted, "Degraded").reason == "PreflightFailed"


# ----------------------------------------------------------------------------------------------------- again, and edits
def test_a_check_that_failed_is_repeated_with_growing_pauses_and_the_job_is_made_anew() -> None:
    seen, plan = failed()
    early = reconcile(later(seen, plan, 55))
    assert "DeleteJob" not in kinds(early)
    due = later(seen, plan, 61)
    removing = reconcile(due)
    assert DeleteJob(NAME, "job-1") in removing.actions
    creating = reconcile(later(due, removing, preflights=()))
    assert "CreateCheck" in kinds(creating)
    second = later(due, creating, preflights=(replace(said_failed(), uid="job-2"),))
    twice = reconcile(second)
    assert found(twice).tries == 2
    assert "DeleteJob" not in kinds(reconcile(later(second, twice, 61)))
    assert "DeleteJob" in kinds(reconcile(later(second, twice, 121)))


def test_a_spec_that_passes_later_is_taken_over() -> None:
    seen, plan = failed()
    passes = later(seen, plan, 200, preflights=(job(JobState.SUCCEEDED, "job-2"),))
    passed = reconcile(passes)
    assert trial_of(passed.status) is None
    assert found(passed).result == "Passed"
    assert not stops(passed)
    assert stops(reconcile(later(passes, passed)))


def test_an_edit_while_a_check_runs_is_checked_instead() -> None:
    seen = after(checking(), wanted=OTHER, generation=3)
    plan = reconcile(seen)
    assert not stops(plan)
    assert DeleteJob(NAME, "job-1") in plan.actions
    assert CreateCheck("preflight", 1, digest(OTHER), OTHER) in plan.actions
    assert (found(plan).digest, found(plan).tries) == (digest(OTHER), 0)


def test_an_edit_after_a_failure_is_checked_at_once() -> None:
    seen, plan = failed()
    fixed = reconcile(after(later(seen, plan), wanted=OTHER, generation=3))
    assert CreateCheck("preflight", 1, digest(OTHER), OTHER) in fixed.actions
    assert trial_of(fixed.status) is None
    assert condition(fixed, "Degraded").status == "False"


def test_an_edit_that_is_taken_back_restarts_nothing_and_leaves_nothing() -> None:
    seen, plan = failed()
    back = after(replace(later(seen, plan), last_good=None), wanted=GOOD, generation=3)
    undone = reconcile(back)
    assert not stops(undone)
    assert DeleteJob(NAME, "job-1") in undone.actions
    assert undone.status.upgrade is not None
    assert (undone.status.upgrade.trial, undone.status.upgrade.preflight) == (None, None)
    assert condition(undone, "Degraded").status == "False"


# ------------------------------------------------------------------------------------------------------------ others
def test_a_passed_check_is_kept_while_the_restart_waits_for_its_turn() -> None:
    seen = replace(checking(), preflights=(job(JobState.SUCCEEDED),), restarts_full=True)
    plan = reconcile(seen)
    assert not stops(plan)
    assert found(plan).result == "Passed"
    assert condition(plan, "Reconciling").reason == "RestartWaiting"
    gone = later(seen, plan, 7200, preflights=())
    assert "CreateCheck" not in kinds(reconcile(gone))
    assert stops(reconcile(replace(gone, restarts_full=False)))


def test_a_commit_while_a_check_runs_does_not_forget_it() -> None:
    upgrade = checking().resource.status.upgrade
    assert upgrade is not None
    older = upgrade.model_copy(update={"attempt": 0})
    status = checking().resource.status.model_copy(update={"upgrade": older})
    plan = reconcile(after(checking(), status=status))
    assert found(plan).result == "Pending"


def test_a_spec_that_has_not_committed_itself_is_replaced_without_a_check() -> None:
    upgrade = edited().resource.status.upgrade
    assert upgrade is not None
    other = upgrade.model_copy(update={"digest": digest(OTHER)})
    status = edited().resource.status.model_copy(update={"upgrade": other})
    waiting = replace(edited(), contact=Contact(report(commits=0, last_commit=None)), last_good=OTHER)
    assert stops(reconcile(after(waiting, status=status)))
