"""Storage that answers with errors: a commit is retried, but not forever, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
import stamina

from bucketingest.storage import StorageUnavailable
from support.storage.flaky_storage import Chooser, FlakyStorage
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row

ROWS = [row("k0"), row("k1"), row(None)]
KEYS = ["k0", "k1"]
MAX_RETRIES = 3
STEPS = ["/ledger/", "/decision", ".deltacommit", "/.heartbeat/", "/done"]
"""What a commit changes, in order."""


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


def nth_change_of(step: str, fails: int) -> Chooser:
    """The first `fails` changes of the step fail; the beat before the commit is not meant."""
    first = 1 if step == "/.heartbeat/" else 0
    numbers = count()
    return lambda path: is_step(path, step) and first <= next(numbers) < first + fails


def is_step(path: str, step: str) -> bool:
    return path.endswith(step) or (step.endswith("/") and step in path)


@pytest.mark.parametrize("after_effect", [False, True], ids=["without", "with"])
@pytest.mark.parametrize("step", STEPS)
def test_a_commit_that_fails_in_between_is_retried(table: TestTable, step: str, after_effect: bool) -> None:
    flaky = FlakyStorage(table.storage, nth_change_of(step, MAX_RETRIES), after_effect=after_effect)
    table.attempt(flaky, max_retries=MAX_RETRIES).run(offsets(0, 3), ROWS)
    # What was created despite the error is found at the retry, and not created again.
    assert flaky.failures == (1 if after_effect and step != "/.heartbeat/" else MAX_RETRIES)
    assert table.visible_keys() == KEYS
    assert len(table.completed()) == 1
    assert len(table.published_letters()) == 1
    assert table.leftovers() == []


@pytest.mark.parametrize("step", STEPS[:2])
def test_a_commit_is_not_retried_forever(table: TestTable, step: str) -> None:
    flaky = FlakyStorage(table.storage, nth_change_of(step, MAX_RETRIES + 1))
    with pytest.raises(StorageUnavailable):
        table.attempt(flaky, max_retries=MAX_RETRIES).run(offsets(0, 3), ROWS)
    assert flaky.failures == MAX_RETRIES + 1


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("after_effect", [False, True], ids=["without", "with"])
@pytest.mark.parametrize("step", STEPS)
def test_a_commit_that_was_given_up_is_finished_by_the_next_run(
    table: TestTable, step: str, after_effect: bool, restarted: bool
) -> None:
    flaky = FlakyStorage(table.storage, nth_change_of(step, 1), after_effect=after_effect)
    attempt = table.attempt(flaky, max_retries=0)
    with pytest.raises(StorageUnavailable):
        attempt.run(offsets(0, 3), ROWS)
    again = table.attempt() if restarted else attempt
    again.run(offsets(0, 3), ROWS)
    assert table.visible_keys() == KEYS
    assert len(table.completed()) == 1
    assert len(table.published_letters()) == 1
    assert table.leftovers() == []


@pytest.mark.parametrize("step", [".deltacommit.requested", ".deltacommit.inflight", "/intent/"])
def test_an_instant_whose_beginning_failed_is_not_left_on_the_timeline(table: TestTable, step: str) -> None:
    flaky = FlakyStorage(table.storage, nth_change_of(step, 1), after_effect=True)
    attempt = table.attempt(flaky)
    with pytest.raises(StorageUnavailable):
        attempt.run(offsets(0, 3), ROWS)
    attempt.run(offsets(0, 3), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


@pytest.mark.parametrize("restarted", [False, True])
def test_an_abort_that_failed_is_finished_by_the_next_run(table: TestTable, restarted: bool) -> None:
    attempt = table.attempt()
    with pytest.raises(ZeroDivisionError):
        attempt.run(offsets(0, 3), ROWS, lambda: 1 // 0)
    flaky = FlakyStorage(table.storage, nth_change_of(".rollback", 1))
    second = table.attempt(flaky)
    with pytest.raises(StorageUnavailable):
        second.run(offsets(0, 2), ROWS[:2])
    again = table.attempt() if restarted else second
    again.run(offsets(0, 2), ROWS[:2])
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []
