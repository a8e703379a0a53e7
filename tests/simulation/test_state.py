"""Schedules with an index with a state: no key has two file groups. `make simulate STATE=1` or
`GLOBAL=1` runs many more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.write.covering.covered_table import CoveredTable
from bucketingest.write.plan import DELETE_COLUMN
from support.simulation.events import varied_seeds
from support.simulation.judge.model import Model, Written
from support.simulation.runs import run_quietly

SEEDS, GLOBAL_SEEDS = varied_seeds(2), varied_seeds(1)
AT_ONCE = 6
SCHEDULES_MAX = 40


def found(*signs: str) -> bool:
    """Whether one of the first schedules is judged wrong for one of these reasons."""
    verdicts = (run_quietly(seed, state=True) for seed in range(SCHEDULES_MAX))
    return any(sign in violation for verdict in verdicts for violation in verdict.violations for sign in signs)


@pytest.mark.parametrize(("forgets", "allowed"), [(True, [None, 1]), (False, [None])])
def test_an_older_row_may_come_after_a_deletion_of_a_key_that_the_state_did_not_know(
    forgets: bool, allowed: list[int | None]
) -> None:
    source = [
        {"id": "a", "region": "us", "offset": offset, "at": offset, DELETE_COLUMN: offset == 2} for offset in range(3)
    ]
    written = [Written("1", 1, "first", (2,), "", stands=True), Written("2", 1, "renamed", (1,), "", stands=True)]
    outcomes = Model.of(source, written, {}, forgets=forgets).outcomes()
    assert [row and row["offset"] for row in outcomes["us", "a"]] == allowed


def test_a_row_without_a_key_never_comes_after_a_deletion() -> None:
    source = [
        {"id": None, "region": "us", "offset": offset, "at": 2 - offset, DELETE_COLUMN: True} for offset in (0, 1)
    ]
    outcomes = Model.of(source, [Written("1", 1, "first", (0, 1), "", stands=True)], {}, forgets=True).outcomes()
    assert outcomes == {}


@pytest.mark.parametrize("first", range(0, len(SEEDS), AT_ONCE))
def test_no_schedule_loses_doubles_or_misplaces_a_key(first: int) -> None:
    verdicts = [run_quietly(seed, state=True) for seed in SEEDS[first : first + AT_ONCE]]
    wrong = [verdict.report for verdict in verdicts if verdict.violations]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize("first", range(0, len(GLOBAL_SEEDS), AT_ONCE))
def test_where_a_key_is_in_one_partition_only_nothing_is_lost_or_doubled(first: int) -> None:
    """Keys do not move here: all else happens to the table whose state has it as one partition."""
    verdicts = [run_quietly(seed, state=True, is_global=True) for seed in GLOBAL_SEEDS[first : first + AT_ONCE]]
    wrong = [verdict.report for verdict in verdicts if verdict.violations]
    assert not wrong, "\n\n".join(wrong)


def test_a_state_that_misses_an_instant_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CoveredTable.fold_in

    def fold_in(self: CoveredTable, timeline: Timeline, replaced: Collection[Any]) -> None:
        if self.folded is None:
            original(self, timeline, replaced)

    monkeypatch.setattr(CoveredTable, "fold_in", fold_in)
    assert found("has several file ids")
