"""A compaction plan that leaves out rows which readers have seen: it is found, and the rows are ingested again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from typing_extensions import override

from bucketingest.hudi.naming import HISTORY_DIRECTORY
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, Instant, State
from bucketingest.hudi.timeline.instant_time import format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, path_of
from bucketingest.storage.interface import Data, Storage
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import Journal
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.instants.decided_commits import ALL, SECOND, is_completed_file
from support.tables.other_writers import archive, commit, later, next_time, schedule_compaction
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row

AGAIN = (offsets(2, 3), [row("k0", amount=3)])
"""Into a file group that is there."""


def overtaken_of(table: TestTable) -> set[str]:
    objects_by_instant = Journal(table.storage, PIPELINE).objects_by_instant()
    return {instant for instant, objects in objects_by_instant.items() if "overtaken" in objects}


class LateCompletedFile(FlakyStorage):
    """A storage on which a scheduler without a lock puts its plan onto the timeline just before our completed file."""

    def __init__(self, table: TestTable) -> None:
        super().__init__(table.storage, lambda _: False)
        self._table = table
        self.planned = False

    def create(self, path: str, data: Data) -> None:
        if is_completed_file(path) and not self.planned:
            self.planned = True
            request_time, completion_time = path.rpartition("/")[2].removesuffix(".deltacommit").split("_")
            schedule_compaction(self._table, time=next_time(self._table, completion_time), without=[request_time])
        super().create(path, data)


def test_a_commit_that_a_scheduler_without_lock_overtook_is_found_by_the_look_after_it(table: TestTable) -> None:
    table.attempt().run(*ALL[0])
    attempt = table.attempt(LateCompletedFile(table))
    with pytest.raises(PositionLost, match=r"compaction \d+ leaves out instant"):
        attempt.run(*AGAIN)
    (overtaken,) = overtaken_of(table)
    found = table.timeline().find(overtaken)
    assert found is not None
    assert found.is_completed, "readers have seen it: its files stay"
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert again.coordinator.position is not None
    assert again.coordinator.position.end == offsets(0, 2).end
    again.go_on(AGAIN)
    assert table.attempt().coordinator.position == offsets(2, 3)
    assert table.visible_keys() == ["k0", "k0", "k0", "k1"], "once in the old slice, once in the new one"


class HistoryReads(PassingStorage):
    """Counts how often a history file is read."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.reads: list[str] = []

    @override
    def get(self, path: str) -> bytes:
        if path.startswith(HISTORY_DIRECTORY) and path.endswith(".parquet"):
            self.reads.append(path)
        return super().get(path)


@pytest.fixture
def seen(table: TestTable) -> list[str]:
    """The table's two instants in the same file groups."""
    attempt = table.attempt()
    attempt.run(*ALL[0])
    attempt.run(*AGAIN)
    return [instant.request_time for instant in table.timeline().completed_commits]


@pytest.mark.parametrize("missing", [0, 1], ids=["older", "newer"])
def test_a_plan_that_leaves_rows_out_is_found_by_the_next_look(table: TestTable, seen: list[str], missing: int) -> None:
    attempt = table.attempt()
    compaction = schedule_compaction(table, without=[seen[missing]])
    with pytest.raises(PositionLost, match=seen[missing]):
        attempt.run(offsets(3, 4), SECOND)
    journal = Journal(table.storage, PIPELINE)
    assert overtaken_of(table) == {seen[missing]}
    assert journal.audited() == {compaction}


def test_a_plan_that_leaves_rows_out_while_no_attempt_runs_is_found_at_the_next_start(
    table: TestTable, seen: list[str]
) -> None:
    schedule_compaction(table, without=[seen[0]])
    attempt = table.attempt()
    assert attempt.start.verdict is StartVerdict.REWOUND
    assert attempt.coordinator.position is not None
    assert attempt.coordinator.position.end == offsets(0, 2).start


@pytest.mark.parametrize("forgotten", [False, True], ids=["remembered", "forgotten"])
@pytest.mark.parametrize("runs", [False, True], ids=["at a start", "by the attempt that runs"])
def test_rows_that_were_archived_before_a_plan_appeared_that_leaves_them_out_are_found_too(
    table: TestTable, seen: list[str], forgotten: bool, runs: bool
) -> None:
    """By a scheduler that was paused between loading the timeline and its plan."""
    plan = schedule_compaction(table, without=[seen[1]])
    path = path_of(Instant(plan, "compaction", State.REQUESTED))
    content = table.storage.get(path)
    table.storage.delete(path)
    archive(table)
    commit(table, CommitMetadata())
    running = table.attempt() if runs else None
    if forgotten:
        Journal(table.storage, PIPELINE).forget(seen)
    table.storage.create(path, content)
    if running is not None:
        with pytest.raises(PositionLost, match=seen[1]):
            running.run(offsets(3, 4), SECOND)
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.run(*AGAIN)
    again.run(offsets(3, 4), SECOND)
    assert table.attempt().coordinator.position == offsets(3, 4)
    first = table.timeline().completed_commits[-2].request_time
    for info in list(table.storage.list_level(".hoodie/timeline").objects):
        if first in info.path:  # archived as well: what came again is not missed for that
            table.storage.delete(info.path)
    later = table.attempt()
    assert later.start.verdict is StartVerdict.IN_STEP
    assert later.coordinator.position == offsets(3, 4)


def _compacted_and_archived(
    table: TestTable, without: list[str], *, time: str | None = None, completed_at: str = ""
) -> str:
    """Another writer compacts, and archives all of it before the pipeline looks again."""
    compaction = schedule_compaction(table, time=time, without=without)
    completed_at = completed_at or next_time(table, compaction)
    complete(table.storage, compaction, completed_at, CommitMetadata().encode(), COMMIT)
    commit(table, CommitMetadata())
    archive(table)
    commit(table, CommitMetadata())
    return compaction


def test_a_compaction_that_left_rows_out_and_was_archived_while_no_attempt_ran_is_found_at_the_next_start(
    table: TestTable, seen: list[str]
) -> None:
    _compacted_and_archived(table, [seen[1]])
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    assert overtaken_of(table) == {seen[1]}
    again.run(*AGAIN)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "its rows are missed once"


def test_a_compaction_that_left_rows_out_and_was_archived_between_two_commits_is_found_by_the_later(
    table: TestTable, seen: list[str]
) -> None:
    attempt = table.attempt()
    _compacted_and_archived(table, [seen[1]])
    with pytest.raises(PositionLost, match=seen[1]):
        attempt.run(offsets(3, 4), SECOND)


def test_one_of_a_writer_whose_clock_is_behind_counts_though_it_seems_to_end_before_the_look(
    table: TestTable, seen: list[str]
) -> None:
    requested = later(table.timeline().completed_commits[0].completion_time or "")
    _compacted_and_archived(table, [seen[0]], time=requested, completed_at=later(requested))
    again = table.attempt()
    assert again.start.verdict is StartVerdict.REWOUND
    again.go_on(ALL[0], AGAIN)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP, "its rows are missed once"


@pytest.mark.usefixtures("seen")
def test_a_start_does_not_read_the_history_more_often_for_more_compactions(table: TestTable) -> None:
    for _ in range(5):
        compaction = schedule_compaction(table)
        complete(table.storage, compaction, next_time(table, compaction), CommitMetadata().encode(), COMMIT)
        commit(table, CommitMetadata())
    archive(table)
    commit(table, CommitMetadata())
    storage = HistoryReads(table.storage)
    assert table.attempt(storage).start.verdict is StartVerdict.IN_STEP
    assert len(storage.reads) <= 3, "for hidden writes, for the look, for the position"


def test_an_archived_compaction_with_all_rows_changes_nothing(table: TestTable, seen: list[str]) -> None:
    attempt = table.attempt()
    _compacted_and_archived(table, [])
    attempt.run(offsets(3, 4), SECOND)
    assert table.attempt().start.verdict is StartVerdict.IN_STEP
    assert not overtaken_of(table)


def test_a_plan_that_has_all_rows_changes_nothing(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(*ALL[0])
    schedule_compaction(table)
    attempt.run(*ALL[1])
    assert table.attempt().start.verdict is StartVerdict.IN_STEP


@pytest.mark.parametrize("later", [timedelta(hours=1), timedelta(days=3)])
def test_marks_of_audited_compactions_go_when_no_look_needs_them(table: TestTable, later: timedelta) -> None:
    """A look goes back by a day and an hour. The newest mark says where the last look was."""
    table.attempt().run(*ALL[0])
    compaction = schedule_compaction(table)
    table.attempt()
    journal = Journal(table.storage, PIPELINE)
    assert journal.audited() == {compaction}
    table.storage.delete(path_of(Instant(compaction, "compaction", State.REQUESTED)))
    table.attempt()
    assert journal.audited() == {compaction}
    newer = schedule_compaction(table, time=format_time(parse_time(compaction) + later))
    table.attempt()
    assert journal.audited() == ({newer} if later > timedelta(days=2) else {compaction, newer})


def test_the_mark_stays_as_long_as_the_instant_is_on_the_timeline(
    table: TestTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bucketingest.write.instants.journal.KEPT_FOR", timedelta(minutes=-1))
    monkeypatch.setattr("bucketingest.write.instants.journal.KEPT_INSTANTS", 1)
    table.attempt().run(*ALL[0])
    with pytest.raises(PositionLost):
        table.attempt(LateCompletedFile(table)).run(*AGAIN)
    (overtaken,) = overtaken_of(table)
    table.attempt().go_on(AGAIN, (offsets(3, 4), SECOND))
    assert overtaken_of(table) == {overtaken}
    assert table.attempt().coordinator.position == offsets(3, 4)
