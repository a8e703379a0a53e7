"""A crash while bucket rules are changed leaves the old ones or the new ones."""

from __future__ import annotations

import pytest

from bucketingest.storage import Storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.bucket_rules import NEVER, check, counts_of, rows, with_rules
from support.tables.instants.abandoned import Killed, die
from support.tables.table_runs import TestTable, offsets


def life(table: TestTable, storage: Storage) -> None:
    """A process with edited rules, after one that left an instant open in a partition of its own."""
    batches = [(offsets(20 * number, 20 * number + 20), rows(each)) for number, each in enumerate(("eu", "jp", "us"))]
    table.attempt(storage).go_on(*batches)


def half_done() -> TestTable:
    table = TestTable()
    table.attempt().run(offsets(0, 20), rows("eu"))
    with pytest.raises(Killed):
        table.attempt().run(offsets(20, 40), rows("jp"), die)
    with_rules(table, ("", 16))
    return table


def test_a_crash_at_any_change_leaves_the_old_rules_or_the_new_ones() -> None:
    table = half_done()
    counting = CrashingStorage(table.storage, NEVER, after_effect=False)
    table.attempt(counting)
    assert counts_of(table).of("us") == 16
    for dies_at in range(counting.changes + 3):
        table = half_done()
        with pytest.raises(Crash):
            life(table, CrashingStorage(table.storage, dies_at))
        life(table, table.storage)
        check(table, 60)
        assert [counts_of(table).of(each) for each in ("eu", "jp", "us")] == [4, 4, 16]
