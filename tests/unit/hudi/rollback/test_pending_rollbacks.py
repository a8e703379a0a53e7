"""Rollbacks that are on the timeline already: which instant they name, and that they are finished."""

from datetime import timedelta

import pytest

from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.hudi.rollback.pending import pending_rollbacks
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.rollback.rollback import RollbackOptions, pending_rollback, roll_back, rollbacks_of
from bucketingest.hudi.timeline.instant import Instant, State
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.ocf import write_record
from bucketingest.hudi.timeline.timeline import Timeline, create_requested
from bucketingest.storage.interface import Storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.instants.three_instants import FAILED, FAILED_FILES, LIVE, LIVE_FILE, NOW, OPTIONS, StorageOf, paths


def test_a_pending_rollback_of_hudis_is_resumed(table: Storage) -> None:
    rollback_time = format_time(NOW - timedelta(seconds=10))
    request = {
        "partitionPath": "us",
        "fileId": deterministic_file_id(1),
        "latestBaseInstant": FAILED,
        "filesToBeDeleted": [f"file:/lake/orders/{FAILED_FILES[0]}"],
        "logBlocksToBeDeleted": {},
    }
    plan = {
        "instantToRollback": {"commitTime": FAILED, "action": "deltacommit"},
        "RollbackRequests": [request],
        "version": 1,
    }
    create_requested(table, rollback_time, "rollback", write_record("HoodieRollbackPlan", plan))
    result = roll_back(table, FAILED, OPTIONS)
    assert result.resumed
    assert result.rollback_time == rollback_time
    assert not [path for path in paths(table) if FAILED in path]
    assert Timeline.load(table).pending == (Instant(LIVE, "deltacommit", State.INFLIGHT),)


def foreign_plan(table: Storage, seconds_ago: int, instant: str, file: str) -> str:
    """A rollback that another writer requested; returns its time."""
    time = format_time(NOW - timedelta(seconds=seconds_ago))
    partition_path, _, name = file.rpartition("/")
    plan = RollbackPlan(instant, "deltacommit", (RollbackFile(partition_path, name, file),))
    create_requested(table, time, "rollback", plan.encode(table.absolute))
    return time


def test_every_pending_rollback_of_the_instant_is_finished_also_after_a_crash(new_table: StorageOf) -> None:
    def trapped(name: str) -> Storage:
        table = new_table(name)
        for seconds_ago in (20, 10):
            foreign_plan(table, seconds_ago, FAILED, FAILED_FILES[0])
        return table

    changes = CrashingStorage(trapped("counted"), -1, after_effect=True)
    roll_back(changes, FAILED, OPTIONS)
    assert changes.changes > 12
    for dies_at in range(changes.changes):
        storage = trapped(f"dies-at-{dies_at}")
        with pytest.raises(Crash):
            roll_back(CrashingStorage(storage, dies_at), FAILED, OPTIONS)
        roll_back(storage, FAILED, OPTIONS)
        assert not [path for path in paths(storage) if FAILED in path]
        assert Timeline.load(storage).pending == (Instant(LIVE, "deltacommit", State.INFLIGHT),)
        assert [i.action for i in Timeline.load(storage).instants].count("rollback") == 2


def test_a_rollback_of_an_instant_that_is_gone_is_finished(table: Storage) -> None:
    roll_back(table, FAILED, OPTIONS)
    time = foreign_plan(table, -10, FAILED, FAILED_FILES[0])
    table.create(FAILED_FILES[0], b"late")
    options = RollbackOptions(clock=lambda: NOW + timedelta(minutes=1))
    result = roll_back(table, FAILED, options)
    assert (result.rollback_time, result.resumed) == (time, True)
    assert FAILED_FILES[0] not in paths(table)


def test_a_plan_that_cannot_be_read_names_nothing_and_stops_nothing(table: Storage) -> None:
    time = format_time(NOW - timedelta(seconds=10))
    create_requested(table, time, "rollback", b"torn")
    timeline = Timeline.load(table)
    (found,) = pending_rollbacks(table, timeline)
    assert (found.rollback_time, found.target, found.state) == (time, None, State.REQUESTED)
    assert time in found.problem
    assert rollbacks_of(table, timeline, FAILED) == ()
    assert not roll_back(table, FAILED, OPTIONS).resumed


def test_asking_for_rollbacks_opens_only_those_requested_after_the_instant(table: Storage) -> None:
    class Counting(CrashingStorage):
        def get(self, path: str) -> bytes:
            opened.append(path)
            return super().get(path)

    opened: list[str] = []
    roll_back(table, FAILED, OPTIONS)
    storage = Counting(table, -1, after_effect=True)
    newest = format_time(NOW + timedelta(hours=1))
    assert rollbacks_of(storage, Timeline.load(storage), newest) == ()
    assert opened == []
    assert len(rollbacks_of(storage, Timeline.load(storage), FAILED)) == 1
    assert len(opened) == 1


def test_an_empty_or_foreign_plan_is_not_resumed(table: Storage) -> None:
    create_requested(table, format_time(NOW - timedelta(seconds=10)), "rollback", b"")
    other = {"instantToRollback": {"commitTime": LIVE, "action": "deltacommit"}, "RollbackRequests": [], "version": 1}
    content = write_record("HoodieRollbackPlan", other)
    create_requested(table, format_time(NOW - timedelta(seconds=9)), "rollback", content)
    assert pending_rollback(table, Timeline.load(table), FAILED) is None
    assert not roll_back(table, FAILED, OPTIONS).resumed
    assert LIVE_FILE in paths(table)


def test_the_rollbacks_of_an_instant_are_found(table: Storage) -> None:
    assert rollbacks_of(table, Timeline.load(table), FAILED) == ()
    with pytest.raises(Crash):
        roll_back(CrashingStorage(table, 0, after_effect=True), FAILED, OPTIONS)
    assert [i.state for i in rollbacks_of(table, Timeline.load(table), FAILED)] == [State.REQUESTED]
    roll_back(table, FAILED, OPTIONS)
    assert [i.state for i in rollbacks_of(table, Timeline.load(table), FAILED)] == [State.COMPLETED]
    assert rollbacks_of(table, Timeline.load(table), LIVE) == ()
