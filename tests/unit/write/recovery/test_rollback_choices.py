"""What a rollback does with each instant: every case has its step and a reason that says what to do."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from bucketingest.hudi.timeline.instant import State
from bucketingest.write.instants.records import AbortDecision, CommitDecision, Decision
from bucketingest.write.recovery.decide import QUIET_MIN, Choice, Left, Step, choose
from bucketingest.write.recovery.facts import Facts

T = "20261121080000000"
COMMIT = CommitDecision("20261121080001000", b"metadata")
ABORT = AbortDecision("a reason")
ROLLBACK = ("20261121080500000",)
FILES = ("us/a",)
INFLIGHT: dict[str, Any] = {"action": "deltacommit", "state": State.INFLIGHT}
COMPLETED: dict[str, Any] = {"action": "deltacommit", "state": State.COMPLETED}
PIPELINES: dict[str, Any] = {"pipeline": "shop/orders"}


def chosen(candidate: Facts, *, named: bool = False, force: bool = False) -> Choice | None:
    choices = choose([candidate], [T] if named else [], force=force)
    return choices[0] if choices else None


def step_of(candidate: Facts, *, named: bool = False, force: bool = False) -> Step | Left | None:
    choice = chosen(candidate, named=named, force=force)
    if choice is None:
        return None
    return choice.step if choice.left is None else choice.left


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize(
    ("found", "step"),
    [
        (Facts(T, **INFLIGHT, **PIPELINES), Step.ROLL_BACK),
        (Facts(T, "deltacommit", State.REQUESTED, **PIPELINES), Step.ROLL_BACK),
        (Facts(T, **INFLIGHT, **PIPELINES, decision=ABORT), Step.ROLL_BACK),
        (Facts(T, **INFLIGHT, **PIPELINES, decision=COMMIT), Step.COMPLETE),
        (Facts(T, **INFLIGHT, **PIPELINES, decision=COMMIT, rollbacks=ROLLBACK), Step.FINISH_ROLLBACK),
        (Facts(T, **INFLIGHT, **PIPELINES, rollbacks=ROLLBACK), Step.FINISH_ROLLBACK),
        (Facts(T, **INFLIGHT, rollbacks=ROLLBACK), Step.FINISH_ROLLBACK),
        (Facts(T, "deltacommit", rollbacks=ROLLBACK), Step.FINISH_ROLLBACK),
        (Facts(T, **PIPELINES), Step.ROLL_BACK),
        (Facts(T, **PIPELINES, decision=ABORT, files=FILES), Step.SWEEP),
        (Facts(T, **PIPELINES, decision=COMMIT, files=FILES), Step.SWEEP),
        (Facts(T, **PIPELINES, decision=ABORT, traces=True), Step.SWEEP),
        (Facts(T, **COMPLETED, **PIPELINES, decision=COMMIT, traces=True), Step.COMPLETE),
    ],
)
def test_instants_of_failed_attempts_are_handled_with_and_without_a_name(found: Facts, step: Step, named: bool) -> None:
    assert step_of(found, named=named) is step


@pytest.mark.parametrize(
    ("found", "unnamed", "named"),
    [
        (Facts(T, **INFLIGHT), Left.NOT_ASKED, Step.ROLL_BACK),
        (Facts(T, "compaction", State.INFLIGHT), Left.NOT_ASKED, Left.REFUSED),
        (Facts(T, "clustering", State.REQUESTED), Left.NOT_ASKED, Left.REFUSED),
        (Facts(T, "compaction", rollbacks=ROLLBACK), Left.NOT_ASKED, Left.REFUSED),
        (Facts(T, "rollback", State.COMPLETED), Left.NOT_ASKED, Left.REFUSED),
        (Facts(T, **COMPLETED), None, Left.REFUSED),
        (Facts(T, "commit", State.COMPLETED), None, Left.REFUSED),
        (Facts(T, **COMPLETED, **PIPELINES, decision=COMMIT), None, Left.REFUSED),
        (Facts(T, **COMPLETED, rollbacks=ROLLBACK), Left.NOT_ASKED, Left.REFUSED),
        (Facts(T), None, Left.REFUSED),
        (Facts(T, files=FILES), None, Step.SWEEP),
        (Facts(T, files=FILES, archived=True), None, Left.REFUSED),
        (Facts(T, files=FILES, archived=True, rolled_back=True), None, Step.SWEEP),
        (Facts(T, rolled_back=True), None, Left.DONE),
        (Facts(T, **PIPELINES, decision=ABORT), None, Left.DONE),
        (Facts(T, **PIPELINES, decision=COMMIT, archived=True), None, Left.REFUSED),
        (Facts(T, **PIPELINES, done=True), None, Left.DONE),
    ],
)
def test_another_writers_or_settled_instants_are_reported_only_by_name(
    found: Facts, unnamed: Step | Left | None, named: Step | Left
) -> None:
    assert step_of(found) is unnamed
    assert step_of(found, named=True) is named


@pytest.mark.parametrize("decision", [None, ABORT, COMMIT])
def test_an_instant_with_a_sign_of_life_is_left_alone_unless_forced(decision: Decision | None) -> None:
    found = Facts(T, **INFLIGHT, **PIPELINES, decision=decision, quiet=timedelta(seconds=20))
    choice = chosen(found)
    assert choice is not None
    assert (choice.step, choice.left) == (Step.NOTHING, Left.HELD)
    assert "sign of life 20 s ago" in choice.reason
    assert "--force" in choice.reason
    assert step_of(found, force=True) is (Step.COMPLETE if decision is COMMIT else Step.ROLL_BACK)


def test_a_pipelines_instant_is_left_alone_while_the_table_is_held_unless_forced() -> None:
    found = Facts(T, **INFLIGHT, **PIPELINES, held_by="pipeline shop/orders")
    choice = chosen(found)
    assert choice is not None
    assert choice.left is Left.HELD
    assert "held by pipeline shop/orders" in choice.reason
    assert step_of(found, force=True) is Step.ROLL_BACK


def test_a_writer_counts_as_gone_when_it_was_quiet_for_longer_than_hudi_waits() -> None:
    assert timedelta(seconds=120) == QUIET_MIN
    for quiet, step in ((QUIET_MIN, Left.HELD), (QUIET_MIN + timedelta(milliseconds=1), Step.ROLL_BACK)):
        assert step_of(Facts(T, **INFLIGHT, **PIPELINES, quiet=quiet)) is step


def test_a_young_rollback_of_another_writer_is_left_to_it_but_not_our_own() -> None:
    young: dict[str, Any] = {"rollbacks": ROLLBACK, "rollback_quiet": timedelta(seconds=1)}
    assert step_of(Facts(T, **INFLIGHT, **young)) is Left.HELD
    assert step_of(Facts(T, **INFLIGHT, **PIPELINES, **young)) is Left.HELD
    assert step_of(Facts(T, **INFLIGHT, **PIPELINES, **young, decision=ABORT)) is Step.FINISH_ROLLBACK
    assert step_of(Facts(T, **INFLIGHT, **young), force=True) is Step.FINISH_ROLLBACK


def test_an_instant_that_a_live_attempt_has_just_completed_is_not_reported() -> None:
    found = Facts(T, **COMPLETED, **PIPELINES, decision=COMMIT, traces=True, quiet=timedelta(seconds=1))
    assert chosen(found) is None


def test_only_what_is_named_is_touched_if_anything_is_named() -> None:
    other = "20261121090000000"
    instants = [Facts(other, **INFLIGHT, **PIPELINES), Facts(T, **INFLIGHT, **PIPELINES)]
    assert [choice.found.request_time for choice in choose(instants, [other], force=False)] == [other]
    assert [choice.found.request_time for choice in choose(instants, [], force=False)] == [T, other]


def test_no_state_of_an_instant_lets_a_completed_or_foreign_service_instant_be_touched() -> None:
    for state, action, pipeline, decision, rollbacks, rolled_back, archived, files, named, force in product(
        (None, *State),
        (None, "deltacommit", "compaction", "commit", "replacecommit", "clean"),
        (None, "p"),
        (None, COMMIT, ABORT),
        ((), ROLLBACK),
        (False, True),
        (False, True),
        ((), FILES),
        (False, True),
        (False, True),
    ):
        found = Facts(
            T,
            action,
            state,
            archived=archived,
            pipeline=pipeline,
            decision=decision,
            rollbacks=rollbacks,
            rolled_back=rolled_back,
            files=files,
        )
        choice = chosen(found, named=named, force=force)
        if choice is None:
            continue
        assert choice.reason
        assert (choice.step is Step.NOTHING) is (choice.left is not None)
        if (state is State.COMPLETED and decision is not COMMIT) or action not in (
            None,
            "deltacommit",
            "commit",
            "replacecommit",
        ):
            assert choice.step is Step.NOTHING
        if choice.step is Step.COMPLETE:
            assert decision is COMMIT
            assert state is not None
            assert not rollbacks
