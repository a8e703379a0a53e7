"""The status matches the CRD, keeps times of transitions, and does not grow."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from bucketingest.spec.job_report import LagReport, StateReport
from bucketingest.spec.status import ATTEMPTS_MAX, Status
from bucketingest_operator.decide.status import CONDITIONS, MESSAGE_MAX, Draft
from support.operator.observations import NOW, attempt, commit, report, status_with


def test_every_condition_is_always_there_with_the_generation_it_answers() -> None:
    draft = Draft(Status(), 7, NOW)
    draft.set("Ready", "True", "Well")
    status = draft.status()
    assert [each.type for each in status.conditions or ()] == list(CONDITIONS)
    ready = draft.condition("Ready")
    assert ready is not None
    assert ready.observed_generation == 7
    assert status.observed_generation == 7


def test_a_condition_keeps_its_time_while_its_value_stays() -> None:
    first = Draft(Status(), 1, NOW)
    first.set("Ready", "False", "Starting")
    later = Draft(first.status(), 2, NOW + timedelta(hours=1))
    later.set("Ready", "False", "StillStarting")
    ready = later.condition("Ready")
    assert ready is not None
    assert (ready.last_transition_time, ready.reason) == (NOW, "StillStarting")
    later.set("Ready", "True", "Well")
    ready = later.condition("Ready")
    assert ready is not None
    assert ready.last_transition_time == NOW + timedelta(hours=1)


def test_a_draft_without_changes_is_the_status_before() -> None:
    status = Draft(status_with(attempt(1)), 1, NOW).status()
    assert Draft(status, 1, NOW + timedelta(hours=1)).status() == status


def test_a_status_reads_back_as_it_was_written_and_stays_small() -> None:
    draft = Draft(Status(), 1, NOW)
    draft.take_report(report())
    for number in range(1, 50):
        draft.intend(number, f"orders-{number}")
        draft.change(started_at=NOW, ended_at=NOW, outcome="QueryFailed", message="x" * 10_000)
    for kind in CONDITIONS:
        draft.set(kind, "False", "QueryFailed", "y" * 10_000)
    status = draft.status()
    assert Status.model_validate(status.to_document()) == status
    assert len(status.attempts or ()) == ATTEMPTS_MAX
    assert status.attempt == 49
    assert len(json.dumps(status.to_document())) < 20 * MESSAGE_MAX


def test_a_lag_that_hardly_changes_is_no_reason_to_write() -> None:
    status = []
    for seconds in (101.2, 103.9):
        draft = Draft(Status(), 1, NOW)
        draft.take_report(report(lag=report().lag.model_copy(update={"seconds": seconds})))
        status.append(draft.status().lag)
    assert status[0] == status[1]


def test_the_time_of_an_inflight_instant_does_not_follow_the_clock() -> None:
    first = Draft(Status(), 1, NOW)
    first.take_report(report())
    later = Draft(first.status(), 1, NOW + timedelta(seconds=15))
    later.take_report(report())
    assert later.inflight == first.inflight


def test_the_status_says_where_new_keys_go_also_while_a_new_driver_does_not_know_it() -> None:
    state = StateReport(
        keys=9, state_bytes=144, file_groups=3, loaded_keys=5, unloaded_partitions=6, new_keys_in_logs=True
    )
    statuses = [Status()]
    for known in (None, state, None, state.model_copy(update={"new_keys_in_logs": False})):
        draft = Draft(statuses[-1], 1, NOW)
        draft.take_report(report(state=known))
        statuses.append(Status.model_validate(draft.status().to_document()))
    shown = [None if each.index is None else each.index.to_document() for each in statuses[1:]]
    in_logs = {"newKeysInLogs": True, "unloadedPartitions": 6}
    assert shown == [None, in_logs, in_logs, in_logs | {"newKeysInLogs": False}]


def written(before: Status, offsets: int | None, commit_age: float = 90) -> Status:
    draft = Draft(before, 1, NOW)
    lag = LagReport(offsets=offsets, seconds=9)
    draft.take_report(report(lag=lag, last_commit=commit(commit_age).model_copy(update={"rows": int(commit_age)})))
    return draft.status()


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [(100, 100), (130, 100), (70, 100), (151, 151), (60, 60), (0, 0), (None, None)],
)
def test_between_commits_a_lag_is_written_only_if_it_differs_much(offsets: int | None, expected: int | None) -> None:
    first = written(Status(), 100)
    found = written(first, offsets).lag
    assert found is not None
    assert found.offsets == expected


def test_while_commits_come_a_lag_is_written_with_them_only() -> None:
    assert written(written(Status(), 100, 20), 100_000, 20).lag == written(Status(), 100, 20).lag
    assert written(written(Status(), 100, 61), 100_000, 61).lag == written(Status(), 100_000, 61).lag


def test_with_a_commit_the_lag_is_written_as_it_is() -> None:
    found = written(written(Status(), 100), 101, commit_age=3).lag
    assert found is not None
    assert found.offsets == 101
