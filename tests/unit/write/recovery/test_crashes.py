"""A process that dies at any change of the storage: the next one finishes, and every row is in the table once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.write.instants.journal import KEPT_INSTANTS
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.table_runs import Rows, TestTable, offsets
from support.tables.write_plans import row

NEVER = 10**9
FIRST = [row(f"k{n}", region=("eu", "us")[n % 2], amount=n) for n in range(6)]
SECOND = [row(f"k{n}", amount=n) for n in range(6, 9)] + [row(None, amount=9)]
ALL_KEYS = [f"k{n}" for n in range(9)]

Life = Callable[[TestTable, CrashingStorage], None]
"""What a process does, on a storage that may kill it."""


def ordinary(table: TestTable, storage: CrashingStorage) -> None:
    attempt = table.attempt(storage)
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 10), SECOND)


def go_on_in(table: TestTable, storage: CrashingStorage) -> None:
    """A process that does the remaining work."""
    table.attempt(storage).go_on((offsets(0, 6), FIRST), (offsets(6, 10), SECOND))


def after_failed_tasks(table: TestTable, storage: CrashingStorage) -> None:
    """Starts with an instant that it resumes."""
    fail_tasks(table, FIRST, 6)
    ordinary(table, storage)


def after_another_range(table: TestTable, storage: CrashingStorage) -> None:
    """Starts with an instant that it rolls back."""
    fail_tasks(table, FIRST[:4], 4)
    ordinary(table, storage)


def fail_tasks(table: TestTable, rows: Rows, end: int) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, end), rows, die)


def die() -> None:
    raise Crash


def changes_of(life: Life) -> int:
    """Number of storage changes of a whole life."""
    table = TestTable()
    storage = CrashingStorage(table.storage, NEVER, after_effect=False)
    life(table, storage)
    return storage.changes


def check(table: TestTable) -> None:
    """Another process does everything again; then every row is there once, and nothing else."""
    before = table.completed()
    table.attempt().go_on((offsets(0, 6), FIRST), (offsets(6, 10), SECOND))
    assert table.visible_keys() == ALL_KEYS
    assert [letter["reason"] for letter in table.published_letters()] == ["recordKey"]
    assert before.items() <= table.completed().items(), "a completed instant was changed"
    assert table.leftovers() == []


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("life", [ordinary, after_failed_tasks, after_another_range])
def test_a_crash_at_any_change_loses_and_doubles_nothing(life: Life, after_effect: bool) -> None:
    for dies_at in range(changes_of(life)):
        table = TestTable()
        with pytest.raises(Crash):
            life(table, CrashingStorage(table.storage, dies_at, after_effect=after_effect))
        check(table)


def test_a_crash_while_old_instants_are_forgotten_loses_and_doubles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketingest.write.instants.journal.KEPT_FOR", timedelta(0))
    table = TestTable()
    attempt = table.attempt()
    for number in range(KEPT_INSTANTS):
        attempt.run(offsets(number, number + 1), [row(f"k{number}")])
    count = 0
    for dies_at in range(200):
        storage = CrashingStorage(table.storage, dies_at, after_effect=bool(dies_at % 2))
        number = KEPT_INSTANTS + count
        try:
            table.attempt(storage).run(offsets(number, number + 1), [row(f"k{number}")])
        except Crash:
            pass
        else:
            break
        table.attempt().run(offsets(number, number + 1), [row(f"k{number}")])
        count += 1
    else:
        pytest.fail("no life was long enough")
    assert sorted(table.visible_keys()) == sorted(f"k{n}" for n in range(KEPT_INSTANTS + count + 1))
    assert table.leftovers() == []


@given(st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=5))
def test_any_number_of_crashes_in_a_row_loses_and_doubles_nothing(crashes: list[tuple[int, bool]]) -> None:
    table = TestTable()
    for dies_at, after_effect in crashes:
        try:
            go_on_in(table, CrashingStorage(table.storage, dies_at, after_effect=after_effect))
        except Crash:
            continue
    check(table)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(4))
def test_a_crash_while_dead_letters_are_published_shows_each_of_them_once(dies_at: int, after_effect: bool) -> None:
    table = TestTable()
    rows = [row(None, amount=n) for n in range(3)] + [row("k")]
    letters = CrashingStorage(table.dead_letters, dies_at, after_effect=after_effect)
    try:
        table.attempt(dead_letters=letters).run(offsets(0, 4), rows)
    except Crash:
        table.attempt().run(offsets(0, 4), rows)
    assert len(table.published_letters()) == 3
    assert table.staged_letters() == []
    assert table.visible_keys() == ["k"]
