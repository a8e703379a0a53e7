"""Rows that cannot be written fail the micro-batch, or become dead letters that a reader sees once."""

from __future__ import annotations

import pytest

from bucketingest.write.errors import ConflictingAttempt, RowsRejected
from support.crashing_storage import Crash
from support.table_runs import TestTable, offsets
from support.write_plans import row

ROWS = [row("k0"), row(None, amount=7), row("", amount=8), row("k1", region="a/../b"), row("k2", at=None)]


@pytest.fixture
def table() -> TestTable:
    return TestTable()


def die() -> None:
    raise Crash


def test_in_mode_fail_nothing_is_committed_and_the_instant_is_rolled_back(table: TestTable) -> None:
    with pytest.raises(RowsRejected) as rejected:
        table.attempt(reject="fail").run(offsets(0, 5), ROWS)
    assert str(rejected.value) == (
        "4 rows cannot be written and spec.errors.mode is fail. The first: recordKey: the record key (id) is null, "
        'empty or not UTF-8: {"id": null, "region": "eu", "amount": 7, "at": "1970-01-01 00:00:00+00:00"}. '
        "Mend the source, or set spec.errors.mode to deadLetter"
    )
    assert [instant.action for instant in table.timeline().completed] == ["rollback"]
    assert table.leftovers() == []


def test_in_mode_fail_good_rows_are_committed(table: TestTable) -> None:
    table.attempt(reject="fail").run(offsets(0, 1), ROWS[:1])
    assert table.visible_keys() == ["k0"]


def test_dead_letters_appear_with_the_commit_and_not_before(table: TestTable) -> None:
    seen: list[int] = []
    outcome = table.attempt().run(offsets(0, 5), ROWS, lambda: seen.append(len(table.published_letters())))
    assert seen == [0]
    assert (outcome.rows, outcome.upserts, outcome.rejected) == (5, 1, 4)
    letters = table.published_letters()
    assert sorted(letter["reason"] for letter in letters) == [
        "orderingField",
        "partitionPath",
        "recordKey",
        "recordKey",
    ]
    assert {letter["instant"] for letter in letters} == {outcome.instant_time}
    assert table.staged_letters() == []


def test_dead_letters_of_failed_tasks_are_adopted_and_published_once(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 5), ROWS, die)
    assert table.published_letters() == []
    table.attempt().run(offsets(0, 5), ROWS)
    assert len(table.published_letters()) == 4
    assert table.staged_letters() == []


def test_dead_letters_of_an_aborted_instant_are_discarded(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 5), ROWS, die)
    assert len(table.staged_letters()) == 1
    table.attempt().run(offsets(0, 1), ROWS[:1])
    assert (table.staged_letters(), table.published_letters()) == ([], [])


def test_input_that_is_not_the_same_twice_aborts_the_instant_and_is_written_again(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 1), [row("k", amount=1)], die)
    attempt = table.attempt()
    with pytest.raises(ConflictingAttempt, match="was written by another attempt of this micro-batch with other rows"):
        attempt.run(offsets(0, 1), [row("k", amount=2)])
    attempt.run(offsets(0, 1), [row("k", amount=2)])
    assert [found["amount"] for found in table.visible_rows()] == [2]
    assert table.leftovers() == []


def test_dead_letters_that_are_not_the_same_twice_abort_the_instant_too(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 1), [row(None, amount=1)], die)
    attempt = table.attempt()
    with pytest.raises(ConflictingAttempt):
        attempt.run(offsets(0, 1), [row(None, amount=2)])
    attempt.run(offsets(0, 1), [row(None, amount=2)])
    assert [b'"amount": 2' in letter["value"] for letter in table.published_letters()] == [True]
