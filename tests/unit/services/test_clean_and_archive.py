"""Clean and archive as a whole, and what keeps an instant on the timeline: unfinished work of a pipeline."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.history.manifest import VERSION_PATH
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import LogFileName, join
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import CLEAN, COMMIT, COMPACTION
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.services.archive import execute
from bucketingest.services.archive.choose import ArchiveFacts, ArchiveRules
from bucketingest.services.archive.facts import read_facts
from bucketingest.services.archive.horizon import HORIZONS
from bucketingest.services.clean.choose import Retention
from bucketingest.services.clean_and_archive import archive_old, archive_plan, clean, held_back, retire
from bucketingest.services.compact_now import compact_now
from bucketingest.services.compaction.choose import CompactionTriggers
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.compaction.propose import propose
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from support.tables.other_writers import (
    archive,
    commit,
    earlier,
    finish_clean,
    later,
    next_time,
    plan_clean,
    roll_back_completed,
    switch_on_metadata_table,
)
from support.tables.services.snapshot import snapshot
from support.tables.state.tables import THEIRS, insert_by_another, state_table
from support.tables.table_runs import PIPELINE, Attempt, TestTable, offsets
from support.tables.write_plans import row

ALL = CompactionTriggers(log_files=1)
NOTHING = Retention(retain=timedelta(0))
AT_ONCE = ArchiveRules(keep_min=2, min_age=timedelta(0))


def guarded(table: TestTable) -> Guarded:
    return Guarded(table.storage, nullcontext, lambda: None)


def years(table: TestTable, commits: int = 12) -> Attempt:
    """Commits, a compaction after every third one."""
    attempt = table.attempt()
    for number in range(commits):
        attempt.run(offsets(number, number + 1), [row(f"k{number % 4}", at=number)])
        if number % 3 == 2:
            compact_now(table.storage, CompactionHolder(table.storage, nullcontext, lambda: None), ALL, utc_now)
    return attempt


@pytest.mark.parametrize("completed", [True, False], ids=["completed", "pending"])
def test_a_compaction_that_comes_below_another_writers_archive_hides_nothing_for_long(completed: bool) -> None:
    """Readers take what was archived after the oldest write on the timeline for not committed."""
    table = TestTable()
    years(table)
    clean(guarded(table), NOTHING)
    table.attempt()
    archive_old(guarded(table), AT_ONCE)
    table.storage.delete_many([info.path for info in table.storage.list(HORIZONS)])  # as another writer's archival
    rows, history = snapshot(table.storage), archived_instants(table.storage)
    oldest = history[0].request_time
    late = earlier(oldest)
    create_requested(table.storage, late, COMPACTION, b"")
    create_inflight(table.storage, late, COMPACTION)
    if completed:
        complete(table.storage, late, later(oldest), CommitMetadata().encode(), COMMIT)
    assert snapshot(table.storage) != rows
    Journal(table.storage, PIPELINE).mark_audited([late], ())
    with pytest.raises(PlanOutdated, match="hides archived ones"):
        propose(table.storage, ALL, utc_now())
    clean(guarded(table), NOTHING)
    assert snapshot(table.storage) == rows
    assert len(archived_instants(table.storage)) == len(history) + completed


def cleaned_once() -> TestTable:
    """A table with four micro-batches, a compaction and a clean."""
    table = state_table()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row("k0", at=number)])
    compact_now(table.storage, CompactionHolder(table.storage, nullcontext, lambda: None), ALL, utc_now)
    attempt.run(offsets(3, 4), [row("k1")])
    assert clean(guarded(table), NOTHING).results
    return table


def test_commits_are_archived_though_no_clean_has_anything_to_delete_any_more() -> None:
    """A table that only gets new keys: by the last clean all commits since would stay on the timeline, for ever."""
    table = cleaned_once()
    attempt = table.attempt()
    for number in range(4, 16):
        attempt.run(offsets(number, number + 1), [row(f"new {number}", region=f"day {number}")])
    table.attempt()
    rows, cleaned = snapshot(table.storage), clean(guarded(table), NOTHING)
    assert not cleaned.results
    archive_old(guarded(table), AT_ONCE)
    before = len(table.timeline().completed)
    archive_old(guarded(table), AT_ONCE, retained=cleaned.choice.retained)
    assert len(table.timeline().completed) < before - 2, archive_plan(guarded(table), AT_ONCE).pins
    assert snapshot(table.storage) == rows


def test_what_cleaning_retains_stays_though_more_than_one_archival_is_due() -> None:
    """The first one must not take the last clean along, which says what is retained."""
    table = cleaned_once()
    attempt = table.attempt()
    for number in range(4, 12):
        attempt.run(offsets(number, number + 1), [row(f"new {number}", region=f"day {number}")])
    cut = utc_now()
    for number in range(12, 26):
        attempt.run(offsets(number, number + 1), [row(f"new {number}", region=f"day {number}")])
    table.attempt()
    retained = clean(guarded(table), Retention(retain=utc_now() - cut)).choice.retained
    assert retained
    before = {each.request_time for each in table.timeline().completed_commits}
    archive_old(guarded(table), AT_ONCE, retained=retained)
    gone = before - {each.request_time for each in table.timeline().completed_commits}
    assert gone
    assert max(gone) < retained


def test_a_table_that_is_compacted_cleaned_and_archived_stays_small_and_whole() -> None:
    table = TestTable()
    years(table)
    rows, before = snapshot(table.storage), len(table.timeline().instants)
    assert clean(guarded(table), NOTHING).results[0].files > 10
    assert [each for each in table.timeline().completed if each.action == CLEAN]
    assert snapshot(table.storage) == rows
    table.attempt()  # its start checks what it has not checked
    archived = sum(len(each.instants) for each in archive_old(guarded(table), AT_ONCE))
    assert archived > 0
    assert len(table.timeline().instants) < before
    assert len(archived_instants(table.storage)) == archived
    assert snapshot(table.storage) == rows
    compaction = next(each for each in archived_instants(table.storage) if each.action == COMMIT)
    create_inflight(table.storage, compaction.request_time, COMPACTION)  # a paused process puts it back, without plan
    newest = table.storage.get(VERSION_PATH)
    table.storage.put(VERSION_PATH, b"0")  # and so does the number of an old manifest
    clean(guarded(table), NOTHING)
    assert table.timeline().pending == ()
    assert table.storage.get(VERSION_PATH) == newest
    attempt = table.attempt()
    assert attempt.coordinator.position == offsets(11, 12)
    attempt.run(offsets(12, 13), [row("new", at=50)])
    assert snapshot(table.storage).keys() == {*rows, "new"}


def test_what_a_pipeline_has_not_finished_stays() -> None:
    table = TestTable()
    years(table, 3)
    journal = Journal(table.storage, PIPELINE)
    first, second, third = journal.instants()
    table.storage.delete(f".hoodie/.bucketingest/{PIPELINE.replace('/', '~')}/instants/{first}/done")
    journal.mark_overtaken(second, "a test")
    roll_back_completed(table, third)
    kept = held_back(table.storage, utc_now()).kept
    assert "has not finished it" in kept[first]
    assert "ingested again" in kept[second]
    (rollback,) = [each.request_time for each in table.timeline().instants if each.action == "rollback"]
    assert "has not seen" in kept[rollback]
    (compaction,) = table.timeline().compactions
    assert "has not checked its plan" in kept[compaction]
    table.attempt()
    assert rollback not in held_back(table.storage, utc_now()).kept
    assert compaction not in held_back(table.storage, utc_now()).kept


def test_another_writers_clean_of_a_partition_stays_for_a_day_after_it_is_complete() -> None:
    """A pipeline that looks at the timeline now and then would not see it, and never ingest again what it deleted."""
    table = TestTable()
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("k0")])
    of_partition, of_files = plan_clean(table, "asia"), plan_clean(table)

    def cleans_after(numbers: range, passed: timedelta = timedelta()) -> set[str]:
        for number in numbers:
            attempt.run(offsets(number, number + 1), [row("k0", at=number)])
            compact_now(table.storage, CompactionHolder(table.storage, nullcontext, lambda: None), ALL, utc_now)
        for each in (of_partition, of_files) if not passed else ():
            finish_clean(table, each)
        clean(guarded(table), NOTHING)
        archived = archive_old(replace(guarded(table), clock=lambda: utc_now() + passed), AT_ONCE)
        assert archived[0].instants
        return {each.request_time for each in table.timeline().instants if each.action == CLEAN}

    found = cleans_after(range(1, 6))
    assert of_partition in found
    assert of_files not in found
    assert of_partition not in cleans_after(range(6, 9), KEPT_FOR)


def test_a_plan_changes_nothing() -> None:
    table = TestTable()
    years(table, 3)
    before = {info.path for info in table.storage.list()}
    assert archive_plan(guarded(table)).instants == ()
    assert {info.path for info in table.storage.list()} == before


def test_a_table_with_hudis_metadata_table_is_refused() -> None:
    table = TestTable()
    years(table, 3)
    switch_on_metadata_table(table)
    with pytest.raises(UnsupportedTable):
        clean(guarded(table), NOTHING)
    with pytest.raises(UnsupportedTable):
        archive_old(guarded(table))


def test_a_pipeline_that_was_renamed_does_not_keep_its_instants_on_the_timeline_and_can_come_back() -> None:
    table = TestTable()
    old = table.attempt(pipeline="shop/old")
    for number in range(3):
        old.run(offsets(number, number + 1), [row(f"old{number}")])
    years(table, 6)
    rows = snapshot(table.storage)
    clean(guarded(table), NOTHING)
    table.attempt()
    before = {info.path for info in table.storage.list()}
    assert not [pin for pin in archive_plan(guarded(table), AT_ONCE).pins if "position" in pin.why]
    assert {info.path for info in table.storage.list()} == before
    archive_old(guarded(table), AT_ONCE)
    left = {str(table.completed()[path_of(each)]) for each in table.timeline().completed_commits}
    assert not [each for each in left if "shop/old" in each]
    assert snapshot(table.storage) == rows
    journal = Journal(table.storage, "shop/old")
    journal.forget(journal.instants())  # as if it had started often, and aborted each time
    again = table.attempt(pipeline="shop/old")
    assert again.coordinator.position == offsets(2, 3)
    again.run(offsets(3, 4), [row("new")])
    assert snapshot(table.storage).keys() == {*rows, "new"}
    assert table.attempt(pipeline="shop/old").coordinator.position == offsets(3, 4)


def test_an_idle_pipeline_that_has_something_to_do_keeps_its_instants() -> None:
    table = TestTable()
    old = table.attempt(pipeline="shop/old")
    for number in range(3):
        old.run(offsets(number, number + 1), [row(f"old{number}")])
    journal = Journal(table.storage, "shop/old")
    first, second, _ = journal.instants()
    journal.mark_overtaken(second, "a test")
    years(table, 6)
    clean(guarded(table), NOTHING)
    table.attempt()
    archive_old(guarded(table), AT_ONCE)
    assert {first, second} & {each.request_time for each in table.timeline().completed_commits}
    position = table.attempt(pipeline="shop/old").coordinator.position
    assert position is not None
    assert position.end == offsets(0, 1).end


def test_what_another_writer_took_from_a_running_pipeline_is_left_for_its_job_to_find() -> None:
    """It would take what is marked already for ingested again."""
    table = TestTable()
    attempt = years(table)
    attempt.run(offsets(12, 13), [row("k0", at=12)])
    clean(guarded(table), NOTHING)
    beside = replace(guarded(table), running=PIPELINE)
    assert archive_old(beside, AT_ONCE)[0].instants
    attempt.run(offsets(13, 14), [row("k1", at=13)])
    roll_back_completed(table, Journal(table.storage, PIPELINE).instants()[0])
    archive_old(beside, AT_ONCE)
    with pytest.raises(PositionLost, match="another writer removed completed instants"):
        attempt.run(offsets(14, 15), [row("k2", at=14)])


def archived(table: TestTable, now: timedelta = timedelta()) -> list[str]:
    """Why instants stay after an archival at this time from now."""
    results = archive_old(replace(guarded(table), clock=lambda: utc_now() + now), AT_ONCE)
    return [pin.why for pin in results[-1].pins]


def test_a_renamed_pipeline_does_not_keep_the_compactions_after_it() -> None:
    """Its own instants are archived when the next compaction comes."""
    table = TestTable()
    table.attempt(pipeline="shop/old").run(offsets(0, 1), [row("old")])
    years(table, 6)
    clean(guarded(table), NOTHING)
    table.attempt()
    archived(table)
    years_later = table.attempt()
    for number in range(6, 15):
        years_later.run(offsets(number, number + 1), [row(f"k{number % 4}", at=number)])
        if number % 3 == 2:
            compact_now(table.storage, CompactionHolder(table.storage, nullcontext, lambda: None), ALL, utc_now)
    clean(guarded(table), NOTHING)
    table.attempt()
    assert not [why for why in archived(table) if "shop/old" in why]
    assert len([each for each in table.timeline().completed if each.action == COMMIT]) == 1


def test_a_late_file_of_another_writers_instant_that_was_rolled_back_goes() -> None:
    """That writer was cut off, and put it after the rollback. Archived, it would be visible; left, it keeps the archive
    for ever.
    """
    table = TestTable()
    table.attempt(pipeline="shop/old").run(offsets(0, 1), [row("old")])
    dead = earlier(next_time(table))  # the rollback takes the next one
    roll_back_completed(table, dead)
    years(table)
    group = next(iter(load_file_view(table.storage, table.timeline()).groups))
    late = join(group.partition_path, str(LogFileName(group.file_id, dead, 1, "1-1-1")))
    table.storage.create(late, b"")
    rows = snapshot(table.storage)
    clean(guarded(table), NOTHING)
    table.attempt()
    assert not [why for why in archived(table) if "left a file" in why]
    assert dead < (table.timeline().first_active or "")
    assert not table.storage.exists(late)
    assert snapshot(table.storage) == rows


def test_a_late_file_of_an_instant_that_nothing_names_any_more_goes_after_a_day() -> None:
    """A restore took it away, or the history has the rollback. Until then the instant may be one that nobody knows yet:
    its file stays, and keeps the archive.
    """
    table = TestTable()
    table.attempt(pipeline="shop/old").run(offsets(0, 1), [row("old")])
    gone = next_time(table)
    years(table)
    group = next(iter(load_file_view(table.storage, table.timeline()).groups))
    late = join(group.partition_path, str(LogFileName(group.file_id, gone, 1, "1-1-1")))
    table.storage.create(late, b"")
    rows = snapshot(table.storage)
    clean(guarded(table), NOTHING)
    table.attempt()
    assert [why for why in archived(table, KEPT_FOR - timedelta(hours=1)) if "left a file" in why]
    assert table.storage.exists(late)
    assert not [why for why in archived(table, KEPT_FOR + timedelta(hours=1)) if "left a file" in why]
    assert gone < (table.timeline().first_active or "")
    assert not table.storage.exists(late)
    assert snapshot(table.storage) == rows


def test_files_of_another_writers_archive_that_a_late_compaction_hides_stay() -> None:
    """Neither the timeline nor what readers see says that their instants were committed, but the history does."""
    table = TestTable()
    attempt = table.attempt()
    for number in range(3):
        attempt.run(offsets(number, number + 1), [row(f"k{number}", at=number)])
    rows, oldest = snapshot(table.storage), table.timeline().completed_commits[0].request_time
    archive(table)
    commit(table, CommitMetadata())
    late = earlier(oldest)
    create_requested(table.storage, late, COMPACTION, b"")
    create_inflight(table.storage, late, COMPACTION)
    complete(table.storage, late, later(oldest), CommitMetadata().encode(), COMMIT)
    Journal(table.storage, PIPELINE).mark_audited([late], ())
    assert not snapshot(table.storage)
    clean(replace(guarded(table), clock=lambda: utc_now() + timedelta(days=2)), NOTHING)
    assert snapshot(table.storage) == rows


def test_files_of_an_instant_that_came_after_the_look_at_the_timeline_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer was paused for a day before it put the instant onto the timeline."""
    table = TestTable()
    table.attempt(pipeline="shop/old").run(offsets(0, 1), [row("old")])
    paused = next_time(table)
    years(table)
    clean(guarded(table), NOTHING)
    table.attempt()
    group = next(iter(load_file_view(table.storage, table.timeline()).groups))
    written = join(group.partition_path, str(LogFileName(group.file_id, paused, 1, "1-1-1")))

    def reading(*arguments: Any) -> ArchiveFacts:
        if not table.timeline().find(paused):
            create_requested(table.storage, paused)
            table.storage.create(written, b"")
        return read_facts(*arguments)

    monkeypatch.setattr(execute, "read_facts", reading)
    archived(table, KEPT_FOR + timedelta(hours=1))
    assert table.storage.exists(written)


def test_a_file_of_an_archived_instant_that_a_rollback_names_stays() -> None:
    """Its rows count until the pipeline has ingested them again."""
    table = TestTable()
    years(table)
    clean(guarded(table), NOTHING)
    table.attempt()
    archive_old(guarded(table), AT_ONCE)
    taken = archived_instants(table.storage)[0].request_time
    roll_back_completed(table, taken)
    assert taken not in held_back(table.storage, utc_now()).aborted


def test_an_aborted_instant_of_a_renamed_pipeline_stays_for_a_day() -> None:
    table = TestTable()
    old = table.attempt(pipeline="shop/old")
    old.run(offsets(0, 1), [row("old")])
    with pytest.raises(ZeroDivisionError):
        old.run(offsets(1, 2), [row("lost")], lambda: 1 / 0)
    table.attempt(pipeline="shop/old", work="another").run(offsets(1, 2), [row("lost")])
    years(table, 6)
    clean(guarded(table), NOTHING)
    table.attempt()
    assert [why for why in archived(table) if "shop/old aborted it lately" in why]
    assert not [why for why in archived(table, KEPT_FOR + timedelta(minutes=1)) if "shop/old" in why]


def test_an_instant_that_was_open_for_days_stays_for_a_day_after_its_abort() -> None:
    """Its last micro-batch was written again by an attempt that has just ended, and whose tasks may go on."""
    table = TestTable()
    first = table.attempt(clock=lambda: utc_now() - 2 * KEPT_FOR)
    with pytest.raises(ZeroDivisionError):
        first.run(offsets(0, 1), [row("lost")], lambda: 1 / 0)
    (aborted,) = Journal(table.storage, PIPELINE).instants()
    table.attempt(work="another").run(offsets(0, 1), [row("lost")])
    assert "aborted it lately" in held_back(table.storage, utc_now()).kept[aborted]
    assert aborted not in held_back(table.storage, utc_now() + KEPT_FOR + timedelta(minutes=1)).kept


def test_a_position_is_not_kept_while_rows_are_lost() -> None:
    """A start that continued there would never ingest them again."""
    table = TestTable()
    old = table.attempt(pipeline="shop/old")
    for number in range(3):
        old.run(offsets(number, number + 1), [row(f"old{number}")])
    journal, timeline = Journal(table.storage, "shop/old"), table.timeline()
    _, second, third = journal.instants()
    assert retire(table.storage, timeline, "shop/old", third, lambda: None)
    table.storage.delete_many([info.path for info in table.storage.list() if "/position/" in info.path])
    journal.mark_overtaken(second, "a test")
    assert not retire(table.storage, timeline, "shop/old", third, lambda: None)
    assert Journal(table.storage, "shop/old").kept_position() is None


def test_base_files_that_another_writers_base_files_superseded_go_after_the_archive_has_passed_it() -> None:
    table = state_table()
    table.attempt().run(offsets(0, 1), [row("u0", region="us")])
    for number in range(6):
        insert_by_another(table, [row("k0", at=number)], file_id=THEIRS)
    table.attempt().run(offsets(1, 2), [row("u0", region="us", at=1)])
    archived(table)
    assert len(archived_instants(table.storage)) >= 3
    kept = clean(guarded(table), NOTHING).choice.kept
    assert kept == ()
    assert len([info for info in table.storage.list("eu") if info.path.endswith(".parquet")]) <= 2
    assert snapshot(table.storage)["k0"]["at"].microsecond == 5


@pytest.mark.parametrize("again", [False, True], ids=["its rows are still missing", "its rows came again"])
def test_an_overtaken_instant_keeps_the_timeline_long_until_its_rows_came_again(again: bool) -> None:
    table = TestTable()
    table.attempt().go_on((offsets(0, 1), [row("k0")]), (offsets(1, 2), [row("k1")]))
    second = table.timeline().completed_commits[1].request_time
    Journal(table.storage, PIPELINE).mark_overtaken(second, "a test")
    attempt = table.attempt()
    for number in range(1, 8 if again else 1):
        attempt.run(offsets(number, number + 1), [row("k1", amount=number)])
        compact_now(table.storage, CompactionHolder(table.storage, nullcontext, lambda: None), ALL, utc_now)
    other = table.attempt(pipeline="shop/other")
    for number in range(3):
        other.run(offsets(number, number + 1), [row("k2")])
    table.attempt()
    clean(guarded(table), NOTHING)
    archive_old(guarded(table), AT_ONCE)
    pins = [pin for pin in archive_plan(guarded(table), AT_ONCE).pins if pin.instant == second]
    assert bool([pin for pin in pins if "ingested again" in pin.why]) is not again
    assert (table.timeline().find(second) is None) is again
