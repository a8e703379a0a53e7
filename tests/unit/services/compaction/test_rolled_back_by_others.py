"""Another writer rolls a compaction of ours back: a new round makes it, under names that no plan has."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.timeline.instant import COMPACTION, ROLLBACK
from bucketingest.hudi.timeline.timeline import create_requested
from bucketingest.services.compaction.commit import ready_commit
from bucketingest.services.compaction.facts import read_facts
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


def test_files_that_were_listed_before_a_rollback_must_be_listed_again(given: Written) -> None:
    work, journal = started(given.storage), CompactionJournal(given.storage)
    execute(given.storage, work)
    ready = ready_commit(given.storage, journal, work.number, work.round_number)
    record = journal.plan(work.number)
    assert record is not None
    assert read_facts(given.storage, work.number, record, utc_now(), ready).files_stand is True
    roll_back(given, work, finished=False)
    assert read_facts(given.storage, work.number, record, utc_now(), ready).files_stand is None


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
