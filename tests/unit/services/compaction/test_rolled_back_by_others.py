"""Another writer rolls a compaction of ours back: a new round makes it, under names that no plan has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.timeline.instant import COMPACTION, ROLLBACK, Instant, State
from bucketingest.hudi.timeline.timeline import create_inflight, create_requested, path_of
from bucketingest.services.compaction.journal import CompactionJournal
from bucketingest.services.compaction.records import End
from bucketingest.services.errors import RoundEnded
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.other_writers import next_time
from support.tables.services.compactions import (
    Written,
    execute,
    finish,
    finish_rollback,
    holder,
    roll_back,
    started,
)


@pytest.mark.parametrize("finished", [False, True], ids=["pending", "finished"])
@pytest.mark.parametrize("executed", [False, True], ids=["before", "after the base files"])
def test_a_rollback_by_another_writer_starts_a_new_round(given: Written, finished: bool, executed: bool) -> None:
    work = started(given.storage)
    if executed:
        execute(given.storage, work)
    time = roll_back(given, work, finished=finished)
    if not executed:
        with pytest.raises(RoundEnded, match=r"rolled back|no longer inflight"):
            execute(given.storage, work)
    assert finish(given.storage) == [End.COMPLETED]
    assert CompactionJournal(given.storage).newest_round(work.number)[0] == 2
    given.unchanged()
    if not finished:  # whoever still carries the rollback out deletes names that were never used again
        plan = RollbackPlan.decode(given.storage.get(f".hoodie/timeline/{time}.rollback.requested"), "plan")
        given.storage.delete_many([file.path for file in plan.files])
    given.unchanged()
    given.goes_on()


def test_a_rollback_after_the_completed_file_takes_it_off_the_timeline(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    marked = marked_files(given.storage, work.compaction)

    class Paused(CrashingStorage):
        """Dies after the completed file."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            super()._change(path, act)
            if path.endswith(".commit"):
                self.dead = True

    with suppress(Crash):
        holder(Paused(given.storage, -1, after_effect=False)).advance()
    time = next_time(given.table)
    files = tuple(RollbackFile(path.rpartition("/")[0], "", path) for path in sorted(marked))
    plan = RollbackPlan(work.compaction, COMPACTION, files)
    create_requested(given.storage, time, ROLLBACK, plan.encode(given.storage.absolute))
    finish_rollback(given, time, plan)
    assert finish(given.storage) == [End.COMPLETED]
    given.unchanged()
    given.goes_on()


@pytest.mark.parametrize("late", [False, True], ids=["while it is pending", "after its end"])
def test_an_inflight_file_that_comes_after_a_restore_goes(given: Written, late: bool) -> None:
    """Without its plan it can neither be carried out nor rolled back, and no table service could work beside it."""
    work = started(given.storage)
    for state in (State.INFLIGHT, State.REQUESTED):
        given.storage.delete(path_of(Instant(work.compaction, COMPACTION, state)))
    if late:
        assert finish(given.storage) == [End.GONE]
    create_inflight(given.storage, work.compaction, COMPACTION)
    if late:
        holder(given.storage).sweep_old()
    else:
        assert finish(given.storage) == [End.GONE]
    assert given.table.timeline().pending == ()
    given.unchanged()
    given.goes_on()
