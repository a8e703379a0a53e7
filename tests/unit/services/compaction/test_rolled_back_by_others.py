"""Another writer rolls our compaction back: a new round makes it, under names that no plan has."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import timedelta

import pyarrow.parquet as pq
import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, join
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, ROLLBACK, Instant, State
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import clean
from bucketingest.services.compaction.commit import ready_commit
from bucketingest.services.compaction.facts import read_facts
from bucketingest.services.compaction.records import CompactionJournal, Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.compaction.sweep import sweep
from bucketingest.services.errors import RoundEnded
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import End
from bucketingest.storage.interface import Level, ObjectInfo
from support.storage.crashing_storage import Crash, CrashingStorage
from support.storage.passing_storage import PassingStorage
from support.tables.other_writers import archive, next_time
from support.tables.services.compactions import (
    Written,
    execute,
    finish,
    finish_rollback,
    holder,
    roll_back,
    started,
)
from support.tables.services.snapshot import doubled_base_files, snapshot


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


@pytest.mark.parametrize("archived", [False, True], ids=["pending", "finished and archived"])
def test_files_that_were_listed_before_a_rollback_must_be_listed_again(given: Written, archived: bool) -> None:
    work, journal = started(given.storage), CompactionJournal(given.storage)
    execute(given.storage, work)
    ready = ready_commit(given.storage, journal, work.number, work.round_number)
    record = journal.plan(work.number)
    assert record is not None
    assert read_facts(given.storage, work.number, record, utc_now(), ready).files_stand is True
    time = roll_back(given, work, finished=archived)
    if archived:  # nothing on the timeline names it any more
        for path in [info.path for info in given.storage.list(".hoodie/timeline") if f"/{time}" in info.path]:
            given.storage.delete(path)
    assert read_facts(given.storage, work.number, record, utc_now(), ready).files_stand is None
    state = holder(given.storage).advance(ready)
    assert isinstance(state, Work)
    assert state.round_number == 2
    assert finish(given.storage) == [End.COMPLETED]
    given.unchanged()
    given.goes_on()


def test_a_rollback_after_the_completed_file_takes_it_off_the_timeline(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    complete_and_die(given)
    roll_back_completed(given, work)
    assert finish(given.storage) == [End.COMPLETED]
    given.unchanged()
    given.goes_on()


def test_a_rollback_that_came_after_the_last_look_takes_the_completed_file_off_the_timeline(given: Written) -> None:
    """Its process is paused, and deletes the base files when the compaction has long ended."""
    work = started(given.storage)
    execute(given.storage, work)
    complete_and_die(given)
    time = roll_back(given, work, finished=False)
    assert finish(given.storage) == [End.COMPLETED]
    plan = RollbackPlan.decode(given.storage.get(f".hoodie/timeline/{time}.rollback.requested"), "plan")
    assert plan.files
    given.storage.delete_many([file.path for file in plan.files])
    given.unchanged()
    given.goes_on()


def test_a_rollback_after_its_end_costs_no_row_and_the_next_compaction_merges_again(given: Written) -> None:
    """Readers take the slice before it, which no clean deletes while the newer base file is not there."""
    work = started(given.storage)
    execute(given.storage, work)
    plan = rollback_plan(given, work)
    assert finish(given.storage) == [End.COMPLETED]
    carry_out(given, plan)
    assert not [info.path for info in given.storage.list() if info.path.endswith(f"_{work.compaction}.parquet")]
    clean(Guarded(given.storage, nullcontext, lambda: None), Retention(retain=timedelta(0)))
    assert snapshot(given.storage) == given.rows
    given.goes_on()


def complete_and_die(given: Written) -> None:
    class Dying(CrashingStorage):
        """Dies after the completed file."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            super()._change(path, act)
            if path.endswith(".commit"):
                self.dead = True

    with suppress(Crash):
        holder(Dying(given.storage, -1, after_effect=False)).advance()


def roll_back_completed(given: Written, work: Work) -> None:
    carry_out(given, rollback_plan(given, work))


def rollback_plan(given: Written, work: Work) -> RollbackPlan:
    marked = marked_files(given.storage, work.compaction)
    files = tuple(RollbackFile(path.rpartition("/")[0], "", path) for path in sorted(marked))
    return RollbackPlan(work.compaction, COMPACTION, files)


def carry_out(given: Written, plan: RollbackPlan) -> None:
    time = next_time(given.table)
    create_requested(given.storage, time, ROLLBACK, plan.encode(given.storage.absolute))
    finish_rollback(given, time, plan)


class PausedSweep(PassingStorage):
    """Others act before it lists the first partition, or before it lists the timeline for the n-th time after that."""

    def __init__(self, given: Written, act: Callable[[], object], *, looks: int) -> None:
        super().__init__(given.storage)
        self._act: Callable[[], object] | None = act
        self._lists_partitions = False
        self._looks = looks

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._pause(prefix)
        return super().list(prefix)

    def list_level(self, prefix: str = "") -> Level:
        self._pause(prefix)
        return super().list_level(prefix)

    def _pause(self, prefix: str) -> None:
        self._lists_partitions |= not prefix.startswith(".hoodie")
        self._looks -= self._lists_partitions and prefix == TIMELINE_DIRECTORY
        if self._act is not None and self._lists_partitions and self._looks <= 0:
            act, self._act = self._act, None
            act()


@pytest.mark.parametrize("looks", [0, 1], ids=["before", "after it lists files"])
def test_a_sweep_that_was_paused_leaves_the_files_of_a_later_round(given: Written, looks: int) -> None:
    """It runs beside the job, without the lease: the next holder may find a rollback, and complete another round."""
    work = started(given.storage)
    execute(given.storage, work)
    complete_and_die(given)
    journal = CompactionJournal(given.storage)

    def others() -> None:
        roll_back_completed(given, work)
        assert finish(given.storage) == [End.COMPLETED]
        assert journal.newest_round(work.number)[0] == 2

    sweep(PausedSweep(given, others, looks=looks), journal, work.number)
    given.unchanged()
    given.goes_on()


@pytest.mark.parametrize("looks", [0, 1, 2], ids=["before", "after it lists files", "after it lists the timeline"])
def test_a_sweep_that_was_paused_leaves_the_files_of_a_commit_that_was_archived(given: Written, looks: int) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    complete_and_die(given)
    made = [info.path for info in given.storage.list("") if info.path.endswith(f"_1-0-0_{work.compaction}.parquet")]
    paused = PausedSweep(given, lambda: archive(given.table), looks=looks)
    sweep(paused, CompactionJournal(given.storage), work.number)
    assert made
    assert all(map(given.storage.exists, made))


def test_a_sweep_leaves_the_files_of_another_writer_that_completes_the_compaction_meanwhile(given: Written) -> None:
    """It was paused for longer than its heartbeat lives, so the compaction was carried out twice."""
    work = started(given.storage)
    execute(given.storage, work)
    complete_and_die(given)
    ours = [info.path for info in given.storage.list("") if info.path.endswith(f"_1-0-0_{work.compaction}.parquet")]
    theirs = [path.replace("_1-0-0_", "_7-0-1_") for path in ours]
    for mine, other in zip(ours, theirs, strict=True):
        given.storage.create(other, given.storage.get(mine))
    found = given.table.timeline().find(work.compaction, COMMIT)
    assert found is not None
    commit = given.storage.get(path_of(found)).replace(b"_1-0-0_", b"_7-0-1_")

    def others() -> None:
        complete(given.storage, work.compaction, next_time(given.table), commit, COMMIT)

    sweep(PausedSweep(given, others, looks=3), CompactionJournal(given.storage), work.number)
    assert all(map(given.storage.exists, theirs))
    assert finish(given.storage) == [End.COMPLETED]
    holder(given.storage).sweep_old()
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


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "half of a file"])
def test_a_base_file_of_another_writer_is_adopted_where_the_files_that_it_replaces_are_gone(
    given: Written, whole: bool
) -> None:
    """It rolled our completed compaction back, made it again, cleaned, and died before it completed it."""
    work = started(given.storage)
    execute(given.storage, work)
    plan = read_compaction_plan(given.storage, work.compaction)
    made = {path: given.storage.get(path) for path in marked_files(given.storage, work.compaction)}
    complete_and_die(given)
    roll_back_completed(given, work)
    for path, content in made.items():
        theirs = made_by_another(content)
        given.storage.create(path.replace("_1-0-0_", "_7-3-9_"), theirs if whole else theirs[:-9])
    assert plan is not None
    for operation in plan.operations:
        replaced = (*operation.log_files, *filter(None, [operation.base_file]))
        given.storage.delete_many([join(operation.partition_path, name) for name in replaced])
    state = holder(given.storage).advance()
    assert isinstance(state, Work)
    failed = RoundExecutor(given.storage, state.number, state.round_number).run()
    assert failed == (0 if whole else len(plan.operations))
    assert finish(given.storage) == [End.COMPLETED]
    assert (snapshot(given.storage) == given.rows) is whole
    assert doubled_base_files(given.storage) == []
    assert given.table.leftovers() == []
    if whole:
        given.goes_on()


def made_by_another(content: bytes) -> bytes:
    """A base file without what our own say in their footers."""
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(content)).replace_schema_metadata(), sink)
    return sink.getvalue()
