"""A clean is finished after a crash at any change, and completed once, whoever else works on it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from bucketingest.hudi.plans.clean_plan import CleanMetadata, read_clean_plan
from bucketingest.hudi.timeline.instant import CLEAN, State
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import complete, path_of
from bucketingest.services.clean import execute
from bucketingest.services.clean.execute import CleanDecisions, clean_table, run
from bucketingest.storage import StorageUnavailable
from bucketingest.write.instants.records import CommitDecision
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.services.cleanable import metadata, pending_clean, planned, three_slices
from support.tables.services.named_slices import HOUR
from support.tables.services.stored_slices import StoredTable


def test_after_a_crash_at_any_change_the_next_one_finishes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "BATCH", 2)
    for dies_at in range(1000):
        table = three_slices()
        before, gone = table.data(), planned(table)
        crashing = CrashingStorage(table.storage, dies_at)
        with suppress(Crash):
            clean_table(table.guarded(crashing), HOUR)
        assert before - table.data() <= gone
        results = clean_table(table.guarded(), HOUR).results
        assert table.data() == before - gone, dies_at
        (clean,) = table.cleans()
        assert clean.is_completed
        assert len(table.completed_clean_files()) == 1
        decision = CleanDecisions(table.storage).decision(int(clean.request_time))
        assert isinstance(decision, CommitDecision)
        assert decision.completion_time == clean.completion_time
        assert set(metadata(table).files) == {"asia", "eu", "us"}
        if not crashing.dead:
            assert results == ()
            assert dies_at > 10
            return
    pytest.fail("it never ended")


@pytest.mark.parametrize("after_effect", [False, True])
def test_after_a_failed_change_the_next_call_finishes_it(after_effect: bool) -> None:
    """The process lives on, and does not know whether the change was made."""
    for fails_at in range(1000):
        table = three_slices()
        before, gone = table.data(), planned(table)
        numbers = iter(range(10**6))
        flaky = FlakyStorage(table.storage, lambda _: next(numbers) == fails_at, after_effect=after_effect)  # noqa: B023
        with suppress(StorageUnavailable):
            clean_table(table.guarded(flaky), HOUR)
        clean_table(table.guarded(flaky), HOUR)
        assert table.data() == before - gone, fails_at
        assert len(table.completed_clean_files()) == 1
        if not flaky.failures:
            return
    pytest.fail("it never ended")


class Overtaken(PassingStorage):
    """Another executor of the same clean runs to its end just before this one decides."""

    def __init__(self, table: StoredTable, other: Callable[[], object]) -> None:
        super().__init__(table.storage)
        self._other = other

    def _change(self, path: str, act: Callable[[], None]) -> None:
        if path.endswith("/decision"):
            self._other()
        act()


def test_of_two_executors_both_complete_it_at_the_same_time() -> None:
    table = three_slices()
    clean = pending_clean(table)
    others = []
    overtaken = Overtaken(table, lambda: others.append(run(table.guarded(), clean)))
    result = run(table.guarded(overtaken), clean)
    assert [result] == others
    assert len(table.completed_clean_files()) == 1


@pytest.mark.parametrize("late", [False, True])
def test_what_another_writer_completes_at_the_same_time_stays_and_ours_is_taken_back(late: bool) -> None:
    """Without a common lock nothing prevents two completed files: it comes before ours, or after our look."""
    table = three_slices()
    clean = pending_clean(table)

    plan = read_clean_plan(table.storage, clean)
    assert plan is not None
    content = CleanMetadata.of(plan, clean, 1).encode()

    def hudis() -> None:
        complete(table.storage, clean, "20991231000000000", content, CLEAN)

    run(table.guarded(None if late else Overtaken(table, hudis)), clean)
    if late:
        hudis()
        clean_table(table.guarded(), HOUR)
    assert table.completed_clean_files() == [f"{clean}_20991231000000000.clean"]


@pytest.mark.parametrize("archived", [False, True])
def test_what_another_process_has_completed_is_left_alone(archived: bool) -> None:
    """Hudi's own executor knows no decision; where it has archived the clean, its file must not come back."""
    table = three_slices()
    clean = pending_clean(table)
    calls = iter(range(100))

    def check() -> None:
        if next(calls) == 1:  # under the lock, before the completed file
            complete(table.storage, clean, format_time(table.clock()), b"Hudi's", CLEAN)
            for instant in table.cleans() if archived else ():
                for state in State:
                    name = path_of(instant) if state is State.COMPLETED else f"{clean}.clean.{state.lower()}"
                    table.storage.delete(name if "/" in name else f".hoodie/timeline/{name}")

    result = run(table.guarded(check=check), clean)
    assert result.files == 0
    assert (result.completion_time is None) is archived
    assert len(table.completed_clean_files()) == (0 if archived else 1)
