"""The rollback command dies at any change: the next run, or the pipeline's next start, finishes its work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.instants.abandoned import (
    NEVER,
    go_on,
    instant_gone_and_rollback_not_completed,
    leave_decided,
    leave_open,
    pending_rollback_with_everything_there,
    roll_back_table,
    two_pending_rollbacks,
)
from support.tables.table_runs import TestTable


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "life",
    [
        leave_open,
        leave_decided,
        *(
            lambda table, trap=trap: (leave_open(table), trap(table))
            for trap in (
                pending_rollback_with_everything_there,
                two_pending_rollbacks,
                instant_gone_and_rollback_not_completed,
            )
        ),
    ],
    ids=["open", "decided", "pending-rollback", "two-rollbacks", "gone"],
)
def test_a_crash_at_any_change_is_finished_by_the_next_run(
    life: Callable[[TestTable], object], after_effect: bool
) -> None:
    counted = TestTable()
    life(counted)
    counting = CrashingStorage(counted.storage, NEVER, after_effect=False)
    roll_back_table(counted, storage=counting)
    visible = counted.visible_keys()
    assert counting.changes > 2
    for dies_at in range(counting.changes):
        table = TestTable()
        life(table)
        with pytest.raises(Crash):
            roll_back_table(table, storage=CrashingStorage(table.storage, dies_at, after_effect=after_effect))
        roll_back_table(table)
        assert table.leftovers() == [], f"after a crash at change {dies_at}"
        assert table.visible_keys() == visible
        assert roll_back_table(table) == []
        go_on(table)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_a_crash_at_any_change_is_finished_by_the_pipelines_next_start(after_effect: bool) -> None:
    counted = TestTable()
    leave_open(counted)
    counting = CrashingStorage(counted.storage, NEVER, after_effect=False)
    roll_back_table(counted, storage=counting)
    for dies_at in range(counting.changes):
        table = TestTable()
        leave_open(table)
        with pytest.raises(Crash):
            roll_back_table(table, storage=CrashingStorage(table.storage, dies_at, after_effect=after_effect))
        go_on(table)
