"""Schedules whose rows are change events of a database: deletes, keys that become other keys, tombstones, truncates,
events that come again. `make simulate MIRROR=1` runs many more, also with `STATE=1` and `GLOBAL=1`.
"""

from __future__ import annotations

import pytest

from support.simulation.job import engine
from support.simulation.runs import run_quietly

SEEDS = 8


@pytest.mark.parametrize(("state", "is_global"), [(False, False), (True, False), (True, True)])
def test_the_table_is_the_databases(state: bool, is_global: bool) -> None:
    verdicts = [run_quietly(seed, mirror=True, state=state, is_global=is_global) for seed in range(SEEDS)]
    wrong = [verdict.report for verdict in verdicts if verdict.violations]
    assert not wrong, "\n\n".join(wrong)


def test_a_truncate_that_leaves_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "slices_to_empty", lambda *_: ())
    violations = [each for seed in range(SEEDS) for each in run_quietly(seed, mirror=True).violations]
    assert any("there but should not be" in each for each in violations)
