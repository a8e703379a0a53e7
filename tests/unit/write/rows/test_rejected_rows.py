"""Rows that cannot be written fail the micro-batch, or become dead letters that a reader sees once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bucketingest.write.errors import ConflictingAttempt, RowsRejected
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import LedgerEntry
from support.storage.crashing_storage import Crash
from support.tables.table_runs import PIPELINE, Attempt, TestTable, offsets
from support.tables.write_plans import row

ROWS = [row("k0"), row(None, amount=7), row("", amount=8), row("k1", region=".."), row("k2", at=None)]


def die() -> None:
    raise Crash


def test_in_mode_fail_nothing_is_committed_and_the_instant_is_rolled_back(table: TestTable) -> None:
    with pytest.raises(RowsRejected) as rejected:
        table.attempt(reject="fail").run(offsets(0, 5), ROWS)
    assert str(rejected.value) == (
        "4 rows cannot be written. The first: recordKey: the record key (id) is null, "
        "empty or not UTF-8. Correct the rows, or let a BucketIngest with spec.errors.mode deadLetter set them aside"
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


def test_dead_letters_that_other_tasks_share_out_otherwise_are_published_once_and_abort_nothing(
    table: TestTable,
) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 5), ROWS, die)
    outcome = table.attempt().run(offsets(0, 5), ROWS[::-1])
    assert {letter["instant"] for letter in table.published_letters()} == {outcome.instant_time}
    assert len(table.published_letters()) == 4
    assert table.staged_letters() == []
    assert [instant.action for instant in table.timeline().completed] == ["deltacommit"]


def test_of_two_attempts_that_wrote_a_micro_batch_only_the_dead_letters_of_its_ledger_are_published(
    table: TestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_ledger = Journal.put_ledger
    attempts: list[Attempt] = []

    def after_another_attempt(*arguments: Any) -> LedgerEntry:
        if not attempts:
            attempts.append(table.attempt(commit_interval=timedelta(hours=1)))
            attempts[0].run(offsets(0, 5), ROWS[::-1])
        return put_ledger(*arguments)

    monkeypatch.setattr(Journal, "put_ledger", after_another_attempt)
    monkeypatch.setattr(Journal, "check_epoch", lambda *_: None)  # as if a listing left out the newest
    first = table.attempt(commit_interval=timedelta(hours=1))
    instant = first.run(offsets(0, 5), ROWS).instant_time
    first.coordinator.commit_open()
    attempts[0].coordinator.commit_open()
    assert len(table.published_letters()) == 4
    assert table.visible_keys() == ["k0"]
    assert table.staged_letters() == []
    assert instant is not None
    ledger = Journal(table.storage, PIPELINE).ledger(instant, 1)
    assert ledger is not None
    published = [info.path for info in table.dead_letters.list_level("").objects]
    assert published == [status.file_name for status in ledger.statuses if status.rejected]
