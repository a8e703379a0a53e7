"""New keys in log files: an attempt may end at any step, with its state or without, before a compaction or not, and the
next one may have another number of tasks.
"""

from __future__ import annotations

import tempfile
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketingest.index.state.store import forget_state
from bucketingest.write.errors import PositionLost
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.services.compactions import compact
from support.tables.state.tables import BOTH, FIRST, SECOND, check, state_table
from support.tables.table_runs import TASKS, offsets

HOUR = timedelta(hours=1)


@settings(max_examples=25, deadline=None)
@given(
    dies_at=st.integers(0, 70),
    after_effect=st.booleans(),
    forgets=st.booleans(),
    interval=st.sampled_from([None, HOUR]),
    compacts=st.booleans(),
    tasks=st.integers(1, TASKS + 1),
)
def test_an_attempt_may_end_at_any_step(
    tmp_path_factory: pytest.TempPathFactory,
    *,
    dies_at: int,
    after_effect: bool,
    forgets: bool,
    interval: timedelta | None,
    compacts: bool,
    tasks: int,
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tempfile, "tempdir", str(folder))
        table = state_table(inserts="log")
        batches = ((offsets(0, 6), FIRST), (offsets(6, 12), SECOND))
        storage = CrashingStorage(table.storage, dies_at, after_effect=after_effect)
        try:
            table.attempt(storage, commit_interval=interval).go_on(*batches)
        except Crash:
            if forgets:
                forget_state(table.storage)
        last = table.attempt(commit_interval=interval, tasks=tasks)
        try:
            last.go_on(*batches)
        except PositionLost:  # an instant that has rows by a plan that cannot be repeated: they come again
            assert forgets or tasks != TASKS
            last = table.attempt(commit_interval=interval, tasks=tasks)
            last.go_on(*batches)
        last.coordinator.commit_open()
        if compacts:
            compact(table.storage)
        table.attempt()
        check(table, BOTH)
        assert table.leftovers() == []
