"""An archival as a whole: what is where afterwards, and beside other writers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest

from bucketingest.hudi.errors import TimelineError
from bucketingest.hudi.history.archived import archived_instants
from bucketingest.hudi.history.manifest import VERSION_PATH, load_manifest
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, LogFileName
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, DELTA_COMMIT, SAVEPOINT
from bucketingest.hudi.timeline.timeline import Timeline, complete, completed_files, path_of
from bucketingest.services.archive import execute
from bucketingest.services.archive.choose import Held
from bucketingest.services.archive.execute import ArchiveResult, archive
from bucketingest.services.archive.horizon import read_horizon
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import Data
from bucketingest.write.instants.commit_content import RANGES
from bucketingest.write.pipeline_names import PIPELINE
from support.storage.passing_storage import PassingStorage
from support.tables.services.archivals import (
    RULES,
    SERVICES,
    WRITES,
    all_instants,
    history_column,
    paths,
    run,
    table,
)
from support.tables.services.old_timelines import NOW, at, finish, finished, old_table, timeline_files


def test_what_is_archived_leaves_the_timeline_with_all_of_its_files() -> None:
    storage = table()
    before = all_instants(storage)
    create_marker(storage, WRITES[0], "eu", "left")
    create_marker(storage, WRITES[5], "eu", "not ours to delete")
    result = run(storage)
    gone = [*WRITES[:4], *(time for time, _ in SERVICES)]
    assert [instant.request_time for instant in result.instants] == sorted(gone)
    assert archived_instants(storage) == result.instants
    assert {instant.request_time for instant in Timeline.load(storage).instants} == set(WRITES[4:])
    assert not [name for name in timeline_files(storage) if name.startswith(tuple(gone))]
    assert all_instants(storage) == before
    assert read_horizon(storage) == WRITES[3]
    assert [path for path in paths(storage) if "/.temp/" in path] == [
        f".hoodie/.temp/{WRITES[5]}/eu/not ours to delete.marker.CREATE"
    ]


@pytest.mark.parametrize("late", [False, True], ids=["before it looks", "after it looked"])
def test_a_compaction_that_two_writers_completed_stays_until_one_is_withdrawn(late: bool) -> None:
    compaction = at(200)
    storage = old_table(WRITES[1:])
    for time in (compaction, at(165)):  # the newest one stays in any case
        finish(storage, time, COMMIT)
    others = [lambda: complete(storage, compaction, at(100), CommitMetadata().encode(), COMMIT)]

    @contextmanager
    def lock() -> Iterator[None]:
        if others:
            others.pop()()
        yield

    if not late:
        others.pop()()
    pins = run(storage, lock=lock).pins
    assert late or "two writers completed it" in [pin.why for pin in pins]
    assert len(completed_files(storage, COMMIT, compaction)) == 2
    storage.delete(path_of(completed_files(storage, COMMIT, compaction)[0]))
    run(storage)
    assert completed_files(storage, COMMIT, compaction) == []


def test_a_second_run_finds_nothing_and_changes_nothing() -> None:
    storage = table()
    run(storage)
    before = paths(storage)
    assert run(storage) == ArchiveResult()
    assert paths(storage) == before


def test_a_compactions_row_has_its_plan() -> None:
    storage = old_table(WRITES)
    for time in (at(195), at(155)):
        finish(storage, time, COMMIT)
    assert at(195) in [instant.request_time for instant in run(storage).instants]
    (entry,) = load_manifest(storage).entries
    assert f"plan of {at(195)}".encode() in history_column(storage, entry.name, "plan")


def test_pins_of_the_tables_files_are_found() -> None:
    storage = table()
    storage.create(f"eu/{LogFileName('00000000-0000-0000-0000-000000000000-0', WRITES[1], 1)}", b"")
    result = run(storage)
    assert [instant.request_time for instant in result.instants] == WRITES[:1]
    assert [(pin.instant, pin.group) for pin in result.pins] == [
        (WRITES[1], ("eu", "00000000-0000-0000-0000-000000000000-0"))
    ]


def test_what_the_caller_holds_stays() -> None:
    storage = table()
    assert run(storage, Held(kept={WRITES[0]: "its journal is not done"})).instants == ()
    assert "history" not in "".join(paths(storage))


def test_a_write_that_becomes_old_during_the_run_waits_for_the_next() -> None:
    """Nobody has looked whether it has the newest position of a pipeline."""
    storage = old_table(WRITES)
    idle = at(145)
    finish(storage, idle, **{PIPELINE: "idle", RANGES: "[]"})
    for time in (at(144), at(143)):
        finish(storage, time, schema="{}")
    ages = iter([timedelta(minutes=-86), *[timedelta()] * 9])
    held, rules = Held(), replace(RULES, min_age=timedelta(minutes=60))
    result = archive(Guarded(storage, clock=lambda: NOW + next(ages)), held, rules)
    assert [instant.request_time for instant in result.instants] == WRITES
    again = run(storage)
    assert again.instants == ()
    assert [pin.instant for pin in again.pins] == [idle]


def test_instants_with_much_content_go_in_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = table()
    monkeypatch.setattr(execute, "BYTES_MAX", 1)
    assert [len(run(storage).instants) for _ in range(7)] == [1, 1, 1, 1, 1, 1, 0]
    assert len(archived_instants(storage)) == 6


def test_what_changed_before_the_lock_was_held_is_looked_at_again() -> None:
    storage = table()

    @contextmanager
    def lock() -> Iterator[None]:
        storage.put(f"{TIMELINE_DIRECTORY}/{at(178)}.compaction.requested", b"")
        yield

    assert [each.request_time for each in run(storage, lock=lock).instants] == WRITES[:2]


def test_the_lock_is_given_up_before_the_files_go_one_by_one() -> None:
    """Their deletion takes longest, so others may commit before it."""
    storage, holds = table(), list[tuple[int, int]]()

    @contextmanager
    def lock() -> Iterator[None]:
        before = (len(Timeline.load(storage).instants), len(archived_instants(storage)))
        yield
        holds.append((before[0] - len(Timeline.load(storage).instants), len(archived_instants(storage)) - before[1]))

    archived = len(run(storage, lock=lock).instants)
    assert [hold for hold in holds if any(hold)] == [(0, archived), (archived, 0)]


def test_a_savepoint_that_came_while_the_lock_was_free_keeps_its_instant_and_later_ones() -> None:
    """hudi-rs takes what is newer than the oldest write on the timeline, and not there, for uncommitted."""
    storage, entered = table(), count(1)

    @contextmanager
    def lock() -> Iterator[None]:
        if next(entered) == 2:
            finish(storage, WRITES[1], SAVEPOINT)
        yield

    for result in (run(storage, lock=lock), run(storage)):
        there = [each.request_time for each in Timeline.load(storage).completed if each.action == DELTA_COMMIT]
        assert there == WRITES[1:], result


def test_another_archiver_or_a_restore_before_the_lock_ends_the_run() -> None:
    storage = table()

    @contextmanager
    def lock() -> Iterator[None]:
        storage.delete(f"{TIMELINE_DIRECTORY}/{finished(WRITES[5])}")
        yield

    assert run(storage, lock=lock).instants == ()
    assert read_horizon(storage) == ""


def test_an_archiver_without_the_lock_that_hides_our_rows_ends_the_run_before_any_deletion() -> None:
    storage = table()
    before = timeline_files(storage)

    class Rival(PassingStorage):
        def put(self, path: str, data: Data) -> None:
            super().put(path, data)
            if path == VERSION_PATH:
                self._inner.put(f"{TIMELINE_DIRECTORY}/history/manifest_1", b'{"files": []}')

    with pytest.raises(TimelineError, match="without the table's lock"):
        run(Rival(storage))
    assert timeline_files(storage) == before
    assert read_horizon(storage) == ""


def test_the_history_is_merged_and_old_parts_of_it_go() -> None:
    storage = old_table([at(300 - number) for number in range(40)])
    one = replace(RULES, instants_max=1)
    for _ in range(30):
        run(storage, rules=one)
    names = [entry.name for entry in load_manifest(storage).entries]
    assert len(names) == 3
    assert {name.rpartition("_")[2] for name in names} == {"1.parquet"}
    assert len(archived_instants(storage)) == 30
