"""A compaction while others write, compact, restore and replace: one base file per file group, and an end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import BaseFileName, join
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.rollback.markers import marked_files
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, Instant, State
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import clean
from bucketingest.services.compaction.commit import ready_commit
from bucketingest.services.compaction.facts import read_facts
from bucketingest.services.compaction.records import CompactionJournal, Work
from bucketingest.services.compaction.rounds import RoundExecutor
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT, KEPT_FOR
from bucketingest.services.protocol.records import HEARTBEAT, End
from bucketingest.write.errors import NewerFormat
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.other_writers import add_column, archive, commit, next_time, replace_file_groups
from support.tables.services.compactions import (
    Written,
    commit_at,
    compact,
    execute,
    finish,
    holder,
    roll_back,
    started,
)
from support.tables.services.snapshot import doubled_base_files, snapshot
from support.tables.table_runs import offsets
from support.tables.write_plans import SCHEMA, row


def test_a_log_file_that_completed_before_is_merged_by_a_new_round(given: Written) -> None:
    """Its writer has no lock, or its clock is behind."""
    soon = utc_now() + timedelta(minutes=3)
    work = started(given.storage, soon)
    execute(given.storage, work)
    late = (work.compaction, timedelta(milliseconds=20)), (work.compaction, timedelta(milliseconds=10))
    request, completion = (format_time(parse_time(time) - before) for time, before in late)
    commit_at(given.table, request, completion, [row("k1", at=40), row("k2", region="us", at=40)])
    rows = snapshot(given.storage)
    assert rows["k1"] != given.rows["k1"]
    assert finish(given.storage, soon) == [End.COMPLETED]
    assert CompactionJournal(given.storage).newest_round(work.number)[0] == 2
    given.rows = rows
    given.unchanged()


def test_such_a_log_file_with_a_new_column_keeps_its_values(given: Written) -> None:
    """The plan has the columns of its time: a base file of it would be without the values."""
    soon = utc_now() + timedelta(minutes=3)
    work = started(given.storage, soon)
    execute(given.storage, work)
    request, completion = (format_time(parse_time(work.compaction) - timedelta(milliseconds=ms)) for ms in (20, 10))
    late = [row("k1", at=40) | {"extra": "x"}, row("k2", region="us", at=40) | {"extra": "y"}]
    commit_at(given.table, request, completion, late, SCHEMA.append(pa.field("extra", pa.string())))
    rows = snapshot(given.storage)
    assert [rows[key]["extra"] for key in ("k1", "k2")] == ["x", "y"]
    assert finish(given.storage, soon, failed=2) == [End.COMPLETED]
    given.rows = rows
    given.unchanged()
    assert finish(given.storage, soon + timedelta(minutes=3)) == []


def test_a_slice_with_such_a_log_file_is_cleaned_after_the_compactions_objects_are_gone(given: Written) -> None:
    test_a_log_file_that_completed_before_is_merged_by_a_new_round(given)
    for number in range(KEPT):
        given.table.attempt().run(offsets(9 + number, 10 + number), [row("k0", at=90 + number)])
        soon = utc_now() + timedelta(minutes=4 + number)
        execute(given.storage, started(given.storage, soon))
        assert finish(given.storage, soon) == [End.COMPLETED]
    holder(given.storage, lambda: utc_now() + KEPT_FOR + timedelta(hours=1)).sweep_old()
    assert 1 not in CompactionJournal(given.storage).numbers()
    later = utc_now() + timedelta(hours=2)
    assert (
        clean(Guarded(given.storage, nullcontext, lambda: None, lambda: later), Retention(versions=1)).choice.kept == ()
    )


def complete_by_another(given: Written, work: Work) -> None:
    """With base files of its own."""
    stats: dict[str, list[WriteStat]] = {}
    for result in CompactionJournal(given.storage).results(work.number, work.round_number) or ():
        assert result.stat is not None
        assert result.stat.path is not None
        theirs = result.stat.path.replace("_1-0-0_", "_7-3-9_")
        given.storage.create(theirs, given.storage.get(result.stat.path))
        stats.setdefault(result.stat.partition_path or "", []).append(replace(result.stat, path=theirs))
    commit = CommitMetadata(stats, {}, "COMPACT")
    complete(given.storage, work.compaction, next_time(given.table), commit.encode(), COMMIT)


def test_another_writer_that_completes_it_is_obeyed(given: Written) -> None:
    """Our base files of that compaction must not stay beside its own."""
    work = started(given.storage)
    execute(given.storage, work)
    ours = marked_files(given.storage, work.compaction)
    complete_by_another(given, work)
    assert finish(given.storage) == [End.COMPLETED]
    assert not any(given.storage.exists(path) for path in ours)
    given.unchanged()


@pytest.mark.parametrize("ended", [False, True], ids=["before its end", "after its end"])
def test_of_two_completed_files_the_one_with_its_base_files_stays(given: Written, ended: bool) -> None:
    """Without a lock another writer completes it between our last look and our completed file."""
    work = started(given.storage)
    execute(given.storage, work)

    class Paused(CrashingStorage):
        """Others act just before its completed file."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            if path.endswith(".commit") and f"{work.compaction}_" not in str(given.table.completed().keys()):
                complete_by_another(given, work)
                if ended:
                    assert finish(given.storage) == [End.COMPLETED]
            super()._change(path, act)

    holder(Paused(given.storage, -1, after_effect=False)).advance()
    holder(given.storage).sweep_old()
    assert len([path for path in given.table.completed() if f"{work.compaction}_" in path]) == 1
    given.unchanged()
    given.goes_on()


def test_another_writers_heartbeat_is_waited_for(given: Written) -> None:
    work = started(given.storage)
    heartbeat.beat(given.storage, work.compaction)
    assert holder(given.storage).advance() is None
    later = holder(given.storage, lambda: utc_now() + timedelta(minutes=5))
    assert isinstance(later.advance(), Work)


def test_one_that_a_restore_took_off_the_timeline_is_not_made_again(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    for state in (State.INFLIGHT, State.REQUESTED):
        given.storage.delete(path_of(Instant(work.compaction, COMPACTION, state)))
    assert finish(given.storage) == [End.GONE]
    given.unchanged()
    given.goes_on()


def test_a_base_file_that_comes_late_is_deleted(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    (first, *_) = sorted(marked_files(given.storage, work.compaction))
    content = given.storage.get(first)
    roll_back(given, work, finished=True)
    assert finish(given.storage) == [End.COMPLETED]
    given.storage.create(first, content)
    assert doubled_base_files(given.storage) != []
    holder(given.storage).sweep_old()
    given.unchanged()


def test_what_comes_late_goes_although_the_timeline_begins_later(given: Written) -> None:
    """A restore took the compaction away, so the history has nothing of it when the timeline has passed its time."""
    work = started(given.storage)
    execute(given.storage, work)
    (first, *_) = sorted(marked_files(given.storage, work.compaction))
    content = given.storage.get(first)
    for state in (State.INFLIGHT, State.REQUESTED):
        given.storage.delete(path_of(Instant(work.compaction, COMPACTION, state)))
    assert finish(given.storage) == [End.GONE]
    archive(given.table)
    commit(given.table, CommitMetadata())
    assert given.table.timeline().is_archived(work.compaction)
    given.storage.create(first, content)
    heartbeat.beat(given.storage, work.compaction, HEARTBEAT)
    holder(given.storage).sweep_old()
    assert not given.storage.exists(first)
    assert heartbeat.last_beat(given.storage, work.compaction) is None


def test_base_files_that_another_writer_makes_again_stay(given: Written) -> None:
    """It read the timeline before the compaction was completed, took it for dead, and deleted the base files."""
    work = started(given.storage)
    execute(given.storage, work)
    ours = sorted(marked_files(given.storage, work.compaction))
    assert finish(given.storage) == [End.COMPLETED]
    found = given.table.timeline().find(work.compaction, COMMIT)
    assert found is not None
    commit = given.storage.get(path_of(found))
    for path in ours:
        again = path.replace("_1-0-0_", "_7-0-1_")  # as long: the commit is an Avro file
        given.storage.create(again, given.storage.get(path))
        given.storage.delete(path)
    holder(given.storage).sweep_old()
    complete(given.storage, work.compaction, next_time(given.table), commit.replace(b"_1-0-0_", b"_7-0-1_"), COMMIT)
    holder(given.storage).sweep_old()
    given.unchanged()
    given.goes_on()


def test_a_base_file_that_comes_late_is_deleted_although_another_file_group_was_cleaned(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    cleaned, kept, *_ = sorted(marked_files(given.storage, work.compaction))
    assert finish(given.storage) == [End.COMPLETED]
    late = kept.replace("_1-0-0_", "_2-0-0_")
    given.storage.create(late, given.storage.get(kept))
    given.storage.delete(cleaned)
    holder(given.storage).sweep_old()
    assert given.storage.exists(kept)
    assert not given.storage.exists(late)


def test_a_file_group_that_was_replaced_meanwhile_is_left_out(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    plan = read_compaction_plan(given.storage, work.compaction)
    assert plan is not None
    gone = plan.operations[0]
    replace_file_groups(given.table, {gone.partition_path: [gone.file_id]})
    assert finish(given.storage) == [End.COMPLETED]
    found = given.table.timeline().find(work.compaction, COMMIT)
    assert found is not None
    committed = CommitMetadata.decode(given.storage.get(path_of(found)), "commit")
    assert gone.file_id not in {stat.file_id for stats in committed.write_stats.values() for stat in stats}


def test_a_decision_waits_for_no_file_that_it_does_not_name(given: Written) -> None:
    """Its file group was replaced before, and a clean deleted the base file."""

    class Dying(CrashingStorage):
        """Dies before the completed file."""

        def _change(self, path: str, act: Callable[[], None]) -> None:
            if path.endswith(".commit"):
                self.dead = True
            super()._change(path, act)

    work = started(given.storage)
    execute(given.storage, work)
    plan = read_compaction_plan(given.storage, work.compaction)
    assert plan is not None
    gone = plan.operations[0]
    replace_file_groups(given.table, {gone.partition_path: [gone.file_id]})
    journal = CompactionJournal(given.storage)
    ready, record = ready_commit(given.storage, journal, work.number, work.round_number), journal.plan(work.number)
    assert record is not None
    with suppress(Crash):
        holder(Dying(given.storage, -1, after_effect=False)).advance()
    path = join(gone.partition_path, str(BaseFileName(gone.file_id, work.compaction, "1-0-0")))
    assert given.storage.exists(path)
    given.storage.delete(path)
    assert read_facts(given.storage, work.number, record, utc_now(), ready).files_stand is None, "of other files"
    assert finish(given.storage) == [End.COMPLETED]
    assert journal.newest_round(work.number)[0] == 1


def test_a_column_that_was_added_meanwhile_stays(given: Written) -> None:
    work = started(given.storage)
    execute(given.storage, work)
    add_column(given.table, "extra")
    assert finish(given.storage) == [End.COMPLETED]
    found = given.table.timeline().find(work.compaction, COMMIT)
    assert found is not None
    schema = CommitMetadata.decode_extra(given.storage.get(path_of(found)), "commit")["schema"]
    assert '"extra"' in schema


def test_a_column_that_the_newest_writer_could_not_see_is_merged(given: Written) -> None:
    """It began before the column was added. A base file without the column would be without its values for good."""
    times = [next_time(given.table)]
    times += [format_time(parse_time(times[0]) + timedelta(milliseconds=ms)) for ms in (1, 2, 3)]
    extra = SCHEMA.append(pa.field("extra", pa.string()))
    commit_at(given.table, times[1], times[2], [row("k1", at=40) | {"extra": "x"}], extra)
    commit_at(given.table, times[0], times[3], [row("k2", region="us", at=40)])
    rows = snapshot(given.storage)
    assert compact(given.storage) == [End.COMPLETED]
    assert snapshot(given.storage)["k1"] == rows["k1"]


def test_a_corrupt_log_file_holds_up_only_its_file_group(given: Written) -> None:
    work = started(given.storage)
    plan = read_compaction_plan(given.storage, work.compaction)
    assert plan is not None
    broken = plan.operations[0]
    path = join(broken.partition_path, broken.log_files[-1])
    content = given.storage.get(path)
    given.storage.put(path, content[:-7])
    assert RoundExecutor(given.storage, work.number, work.round_number).run() == 1
    assert finish(given.storage) == [End.COMPLETED]
    given.storage.put(path, content)
    given.unchanged()


def test_a_newer_release_is_not_interfered_with(given: Written) -> None:
    started(given.storage)
    journal = CompactionJournal(given.storage)
    path = journal.path(max(journal.numbers()), "plan")
    given.storage.put(path, given.storage.get(path).replace(b'"version": 1', b'"version": 2', 1))
    with pytest.raises(NewerFormat, match="newer release"):
        holder(given.storage).advance()


def test_objects_of_ended_compactions_are_deleted_after_a_day(given: Written) -> None:
    for number in range(5):
        given.table.attempt().run(offsets(9 + number, 10 + number), [row("k0", at=60 + number)])
        assert compact(given.storage) == [End.COMPLETED]
    journal = CompactionJournal(given.storage)
    before = journal.numbers()
    holder(given.storage).sweep_old()
    assert journal.numbers() == before, "an executor may still be paused"
    holder(given.storage, lambda: utc_now() + KEPT_FOR + timedelta(minutes=1)).sweep_old()
    assert journal.numbers() == before[-3:]
