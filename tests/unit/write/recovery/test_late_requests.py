"""Requests of paused processes that arrive when everything else about their instant is forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.index.state.store import forget_state
from bucketingest.services.archive.choose import ArchiveRules
from bucketingest.services.clean_and_archive import archive_old
from bucketingest.services.protocol.holder import Guarded
from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Data
from bucketingest.write.errors import PositionLost
from bucketingest.write.instants.journal import KEPT_FOR, KEPT_INSTANTS, Journal
from support.storage.dated_storage import DatedStorage
from support.storage.flaky_storage import FlakyStorage
from support.storage.passing_storage import PassingStorage
from support.tables.instants.abandoned import Killed, die
from support.tables.other_writers import archive, commit
from support.tables.state.tables import data_files, places, state_table
from support.tables.table_runs import PIPELINE, TestTable, offsets
from support.tables.write_plans import row

ROWS = [row("k0"), row("k1", amount=1)]
AT_ONCE = ArchiveRules(keep_min=2, min_age=timedelta(0))


def forget_all(table: TestTable) -> None:
    journal = Journal(table.storage, PIPELINE)
    journal.forget(journal.instants())


def archive_and_go_on(table: TestTable) -> None:
    """Everything so far is archived, and another writer's instants follow."""
    commit(table, CommitMetadata())
    archive(table)
    commit(table, CommitMetadata())


class Pausing(PassingStorage):
    """Its process is paused inside the request that creates the object whose path ends so, once, and others go on."""

    def __init__(self, table: TestTable, end: str, meanwhile: Callable[[str], None]) -> None:
        super().__init__(table.storage)
        self._end = end
        self._meanwhile = meanwhile
        self.paused = False

    def create(self, path: str, data: Data) -> None:
        if path.endswith(self._end) and not self.paused:
            self.paused = True
            self._meanwhile(path)
        super().create(path, data)


def test_an_attempt_that_wakes_up_in_its_decision_when_all_is_forgotten_completes_nothing(table: TestTable) -> None:
    """As the oldest instant on the timeline its own would hide everything archived since."""
    seconds = 0.0

    def meanwhile(_: str) -> None:
        nonlocal seconds
        (mine,) = table.timeline().pending
        roll_back(table.storage, mine.request_time)
        newer = table.attempt()
        newer.run(offsets(0, 2), ROWS)
        forget_all(table)
        archive_and_go_on(table)
        newer.run(offsets(2, 3), [row("k2")])
        seconds += 3600

    paused = table.attempt(Pausing(table, "/decision", meanwhile), forward=lambda: seconds)
    with pytest.raises(BucketIngestError):
        paused.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == ["k0", "k1", "k2"]
    assert table.attempt().coordinator.position == offsets(2, 3)
    assert table.visible_keys() == ["k0", "k1", "k2"]
    assert table.leftovers() == []


def test_an_attempt_that_wakes_up_before_it_completes_what_it_had_decided_completes_nothing(table: TestTable) -> None:
    """Its first completed file failed; another attempt completed the instant meanwhile, and it is archived."""
    seconds = 0.0

    class Paused(PassingStorage):
        failed = woke_up = False

        def create(self, path: str, data: Data) -> None:
            if path.endswith(".deltacommit") and not self.failed:
                self.failed = True
                raise StorageUnavailable("a test")
            super().create(path, data)

        def exists(self, path: str) -> bool:
            nonlocal seconds
            found = super().exists(path)
            if self.failed and not self.woke_up:
                self.woke_up = True
                table.attempt().run(offsets(2, 3), [row("k2")])
                forget_all(table)
                archive_and_go_on(table)
                seconds += 3600
            return found

    paused = Paused(table.storage)
    with suppress(BucketIngestError):
        table.attempt(paused, forward=lambda: seconds, max_retries=1).run(offsets(0, 2), ROWS)
    assert paused.woke_up
    assert table.visible_keys() == ["k0", "k1", "k2"]


@pytest.fixture
def rolled_back_and_completed(table: TestTable) -> str:
    """An instant that another writer rolled back; all newer ones are archived, and its completed file comes now."""
    path, content = "", b""

    class Late(PassingStorage):
        def create(self, created: str, data: Data) -> None:
            nonlocal path, content
            if created.endswith(".deltacommit") and not path:
                assert isinstance(data, bytes)
                path, content = created, data
                raise Killed
            super().create(created, data)

    with pytest.raises(Killed):
        table.attempt(Late(table.storage)).run(offsets(0, 2), ROWS)
    (mine,) = table.timeline().pending
    roll_back(table.storage, mine.request_time)
    running = table.attempt()
    running.run(offsets(0, 2), ROWS)
    journal = Journal(table.storage, PIPELINE)
    journal.forget(journal.instants())
    for info in table.storage.list_level(".hoodie/.bucketingest/shop~orders/aborted").objects:
        table.storage.delete(info.path)
    archive_and_go_on(table)
    running.run(offsets(2, 3), [row("k2")])
    table.storage.create(path, content)
    assert len(table.visible_keys()) < 3
    with pytest.raises(PositionLost, match="it hides their rows from readers"):
        running.run(offsets(3, 4), [row("k3")])
    return path


def test_a_completed_file_below_the_archive_whose_data_files_are_gone_goes_with_the_next_start(
    table: TestTable, rolled_back_and_completed: str
) -> None:
    again = table.attempt()
    assert not table.storage.exists(rolled_back_and_completed)
    again.go_on((offsets(2, 3), [row("k2")]), (offsets(3, 4), [row("k3")]))
    assert sorted(set(table.visible_keys())) == ["k0", "k1", "k2", "k3"]


def test_a_savepoint_s_old_instant_stays_when_the_savepoint_is_gone(table: TestTable) -> None:
    """It is completed, older than archived ones, and not in the history; its files are there."""
    table.attempt().run(offsets(0, 2), ROWS)
    (mine,) = table.timeline().completed_commits
    content = table.storage.get(path_of(mine))
    table.storage.delete(path_of(mine))
    commit(table, CommitMetadata())
    archive(table)
    commit(table, CommitMetadata())
    table.storage.create(path_of(mine), content)
    table.attempt()
    assert table.storage.exists(path_of(mine))


@pytest.fixture
def late(table: TestTable) -> Iterator[dict[str, bytes]]:
    """The files of an aborted instant that is archived and forgotten: they are put again when the test has begun."""
    table.attempt()
    commit(table, CommitMetadata())
    with pytest.raises(Killed):
        table.attempt().run(offsets(0, 2), ROWS, die)
    files = {info.path: table.storage.get(info.path) for info in table.storage.list("eu") if ".log." in info.path}
    attempt = table.attempt(work="another release")
    attempt.run(offsets(0, 2), [row("k0"), row("k1", amount=2)])
    assert not any(map(table.storage.exists, files))
    forget_all(table)
    attempt.run(offsets(2, 3), [row("k2")])
    yield files
    assert sorted(table.visible_keys()) == ["k0", "k1", "k2"]
    assert not any(map(table.storage.exists, files))


@pytest.mark.parametrize("archived", [False, True], ids=["on the timeline", "archived"])
def test_a_data_file_of_an_aborted_instant_that_is_forgotten_goes_with_the_next_start(
    table: TestTable, late: dict[str, bytes], archived: bool
) -> None:
    if archived:
        archive_and_go_on(table)
    for path, content in late.items():
        table.storage.create(path, content)
    assert (len(table.visible_keys()) > 3) is archived
    table.attempt()


@pytest.mark.parametrize("archived", [False, True], ids=["on the timeline", "archived"])
def test_a_data_file_of_an_aborted_instant_that_is_forgotten_goes_with_the_next_archival(
    table: TestTable, late: dict[str, bytes], archived: bool
) -> None:
    """It would pin the archive for ever, or be visible for ever."""
    if archived:
        archive_and_go_on(table)
    for _ in range(3):
        commit(table, CommitMetadata())
    for path, content in late.items():
        table.storage.create(path, content)
    archive_old(Guarded(table.storage, nullcontext, lambda: None), AT_ONCE)


def test_late_files_that_another_writers_archival_made_visible_go_before_anything_is_resumed() -> None:
    table = state_table(is_global=True)
    with pytest.raises(Killed):
        table.attempt().run(offsets(0, 2), ROWS, die)
    late = {path: table.storage.get(path) for path in data_files(table)}
    attempt = table.attempt(work="another release")
    attempt.run(offsets(0, 2), ROWS)
    archive_and_go_on(table)
    undecided = FlakyStorage(table.storage, lambda path: path.endswith("/decision"))
    with pytest.raises(BucketIngestError):
        table.attempt(undecided).run(offsets(2, 3), [row("k2")])
    forget_state(table.storage)
    for path, content in late.items():
        table.storage.create(path, content)
    again = table.attempt()
    assert not any(map(table.storage.exists, late))
    again.go_on((offsets(2, 3), [row("k2")]))
    assert sorted(places(table)) == ["k0", "k1", "k2"]


def test_an_old_instant_that_was_resumed_and_completed_just_now_is_remembered(table: TestTable) -> None:
    """A process of an hour ago may be anywhere in its commit: it finds the decision."""
    now = datetime.now(UTC)

    def clock() -> datetime:
        return now

    storage = DatedStorage(table.storage, clock)
    with suppress(Killed):
        table.attempt(storage, clock=clock).run(offsets(0, 2), ROWS, die)
    (mine,) = table.timeline().pending
    now += timedelta(days=1)
    attempt = table.attempt(storage, clock=clock)
    for number in range(2, KEPT_INSTANTS + 6):
        attempt.go_on((offsets(0, 2), ROWS), (offsets(number, number + 1), [row("k2")]))
        now += timedelta(seconds=2)
    journal = Journal(table.storage, PIPELINE)
    assert journal.decision(mine.request_time) is not None
    now += KEPT_FOR
    attempt.go_on((offsets(KEPT_INSTANTS + 6, KEPT_INSTANTS + 7), [row("k3")]))
    assert journal.is_forgotten(mine.request_time)
