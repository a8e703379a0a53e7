"""Counters: each end, rollback, row and commit counts once, across drivers and operators."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from bucketingest.spec.status import Condition, LastCommit, Status
from bucketingest_operator.counts import Counts
from support.operator.observations import attempt, commit, report, status_with

EMPTY = Status()


def clean(reason: str) -> dict[str, Any]:
    condition = Condition(
        type="TimelineClean", status="False", reason=reason, last_transition_time=datetime(2026, 11, 21, tzinfo=UTC)
    )
    return {"conditions": (condition,)}


def counted(counts: Counts) -> dict[str, int]:
    return {word: count for word, count in counts.restarts.items() if count}


def test_an_attempt_is_counted_once_when_its_end_is_written() -> None:
    counts = Counts()
    runs = status_with(attempt(1))
    noted = status_with(attempt(1, outcome="Stuck"))
    over = status_with(attempt(1, ended=1, outcome="Stuck"), attempt(2))
    for before, after in ((EMPTY, runs), (runs, noted), (noted, over), (over, over)):
        counts.note_status(before, after)
    assert counted(counts) == {"Stuck": 1}


@pytest.mark.parametrize("outcome", ["Completed", "Suspended", "Deleted", "Superseded", None])
def test_ends_that_are_no_restarts_do_not_count(outcome: str | None) -> None:
    counts = Counts()
    counts.note_status(EMPTY, status_with(attempt(1, ended=1, outcome=outcome)))
    assert counted(counts) == {}


def test_planned_restarts_count_as_such() -> None:
    counts = Counts()
    counts.note_status(EMPTY, status_with(attempt(1, ended=1, outcome="SpecChanged")))
    assert counted(counts) == {"SpecChanged": 1}


def test_a_rollback_is_counted_once_by_its_result() -> None:
    counts = Counts()
    pending = status_with(attempt(1), **clean("RollbackPending"))
    done = status_with(attempt(1), **clean("RolledBack"))
    failed = status_with(attempt(2), **clean("RollbackFailed"))
    for before, after in ((EMPTY, pending), (pending, done), (done, done), (done, pending), (pending, failed)):
        counts.note_status(before, after)
    assert counts.rollbacks == {"succeeded": 1, "failed": 1}


def note(counts: Counts, pod: str, rows: int, *, young: bool = True, instant: str | None = None, **status: Any) -> None:
    last = None if instant is None else commit(1).model_copy(update={"instant": instant})
    made = report(rows=rows, bytes=rows * 10, dead_letters=rows // 10, last_commit=last)
    counts.note_report(pod, made, Status(**status), from_its_start=young)


def test_rows_add_up_over_drivers() -> None:
    counts = Counts()
    for pod, rows in (("a", 100), ("a", 150), ("a", 150), ("b", 30), ("b", 50)):
        note(counts, pod, rows)
    assert (counts.rows, counts.bytes, counts.dead_letters) == (200, 2000, 20)


def test_rows_from_before_this_operator_are_not_counted_again() -> None:
    counts = Counts()
    note(counts, "a", 1_000_000, young=False)
    note(counts, "a", 1_000_010, young=False)
    assert counts.rows == 10


def test_a_commit_is_measured_once() -> None:
    counts = Counts()
    for instant in ("20261121000000000", "20261121000000000", "20261121000100000"):
        note(counts, "a", 1, instant=instant)
    assert sum(counts.latency_buckets) == 2


def test_a_commit_that_an_earlier_operator_saw_is_not_measured_again() -> None:
    counts = Counts()
    seen = LastCommit(instant="20261121000000000", time=datetime(2026, 11, 21, tzinfo=UTC), rows=1)
    note(counts, "a", 1, instant="20261121000000000", last_commit=seen)
    assert sum(counts.latency_buckets) == 0
    note(counts, "a", 1, instant="20261121000100000", last_commit=seen)
    assert sum(counts.latency_buckets) == 1
