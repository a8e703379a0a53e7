"""Rolling back: what is deleted, what stays, and that a second run finishes after a crash at any change."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.hudi.rollback.late_files import delete_late_files
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.rollback.rollback import RollbackOptions, roll_back
from bucketingest.hudi.timeline.instant import Instant, State
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.ocf import read_record
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_requested, path_of
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import Data, Storage
from support.storage.crashing_storage import Crash, CrashingStorage
from support.tables.instants.three_instants import (
    DONE,
    DONE_AT,
    DONE_FILE,
    FAILED,
    FAILED_FILES,
    LIVE,
    NOW,
    OPTIONS,
    START,
    StorageOf,
    paths,
)


def test_a_rollback_leaves_nothing_of_the_instant_and_everything_else(table: Storage) -> None:
    before = paths(table)
    gone = {path for path in before if FAILED in path}
    result = roll_back(table, FAILED, OPTIONS)
    assert set(result.deleted) == set(FAILED_FILES)
    assert not result.resumed
    assert result.rollback_time is not None
    added = {path for path in paths(table) if result.rollback_time in path}
    assert paths(table) - added == before - gone
    assert len(gone) == 3 + 3 + 2 + 1
    timeline = Timeline.load(table)
    assert timeline.find(FAILED) is None
    rollback = timeline.find(result.rollback_time, "rollback")
    assert rollback is not None
    assert rollback.is_completed
    assert added == {path_of(rollback)} | {
        path_of(Instant(result.rollback_time, "rollback", state)) for state in (State.REQUESTED, State.INFLIGHT)
    }


def test_plan_and_result_are_the_records_that_hudi_writes(table: Storage) -> None:
    result = roll_back(table, FAILED, OPTIONS)
    rollback_time = result.rollback_time
    assert rollback_time is not None
    plan_path = f".hoodie/timeline/{rollback_time}.rollback.requested"
    plan = read_record(table.get(plan_path), plan_path)
    assert plan["instantToRollback"] == {"commitTime": FAILED, "action": "deltacommit"}
    assert plan["version"] == 1
    assert {
        "partitionPath": "eu/5",
        "fileId": deterministic_file_id(0),
        "latestBaseInstant": FAILED,
        "filesToBeDeleted": [table.absolute(FAILED_FILES[2])],
        "logBlocksToBeDeleted": {},
    } in plan["RollbackRequests"]
    assert table.get(f".hoodie/timeline/{rollback_time}.rollback.inflight") == b""
    completed = Timeline.load(table).find(rollback_time, "rollback")
    assert completed is not None
    metadata = read_record(table.get(path_of(completed)), "here")
    assert metadata["commitsRollback"] == [FAILED]
    assert metadata["startRollbackTime"] == rollback_time
    assert metadata["totalFilesDeleted"] == 3
    assert metadata["instantsRollback"] == [{"commitTime": FAILED, "action": "deltacommit"}]
    assert set(metadata["partitionMetadata"]) == {"us", "eu/5"}
    assert metadata["partitionMetadata"]["us"]["successDeleteFiles"] == [table.absolute(p) for p in FAILED_FILES[:2]]


def test_the_order_of_the_changes_is_hudis(new_table: StorageOf) -> None:
    class Recording(CrashingStorage):
        def create(self, path: str, data: Data) -> None:
            steps.append(f"create {path}")
            super().create(path, data)

        def delete(self, path: str) -> None:
            steps.append(f"delete {path}")
            super().delete(path)

    steps: list[str] = []
    roll_back(Recording(new_table("recorded"), -1, after_effect=True), FAILED, OPTIONS)
    kinds = [
        "data" if FAILED in step and ".hoodie" not in step else step.replace(FAILED, "T").rpartition("/")[2]
        for step in steps
    ]
    rollback_time = format_time(NOW)
    assert kinds[:2] == [f"{rollback_time}.rollback.requested", f"{rollback_time}.rollback.inflight"]
    assert kinds[2:5] == ["data"] * 3
    assert kinds[5:7] == ["T.deltacommit.inflight", "T.deltacommit.requested"]
    assert kinds[7].endswith(".rollback")
    assert ["/.temp/" in step for step in steps[8:11]] == [True] * 3
    assert steps[11:] == [f"delete .hoodie/.heartbeat/{FAILED}"]


def test_a_crash_at_any_change_is_finished_by_a_second_run(new_table: StorageOf) -> None:
    changes = CrashingStorage(counted := new_table("counted"), -1, after_effect=True)
    roll_back(changes, FAILED, OPTIONS)
    expected = paths(counted)
    assert changes.changes == 12
    for dies_at in range(changes.changes):
        storage = new_table(f"dies-at-{dies_at}")
        with pytest.raises(Crash):
            roll_back(CrashingStorage(storage, dies_at), FAILED, OPTIONS)
        completed_before = {path for path in paths(storage) if DONE in path}
        roll_back(storage, FAILED, OPTIONS)
        assert paths(storage) == expected, f"after a crash at change {dies_at}"
        assert {path for path in paths(storage) if DONE in path} == completed_before
        assert [i.action for i in Timeline.load(storage).instants].count("rollback") == 1


def test_a_second_rollback_finds_nothing_to_do(table: Storage) -> None:
    roll_back(table, FAILED, OPTIONS)
    before = paths(table)
    result = roll_back(table, FAILED, OPTIONS)
    assert (result.rollback_time, result.deleted) == (None, ())
    assert paths(table) == before


def test_a_completed_instant_is_never_rolled_back(table: Storage) -> None:
    before = paths(table)
    with pytest.raises(RollbackError, match="is completed"):
        roll_back(table, DONE, OPTIONS)
    with pytest.raises(RollbackError, match="is completed"):
        delete_late_files(table, DONE, OPTIONS)
    assert paths(table) == before


def test_an_instant_that_completes_meanwhile_keeps_its_place_on_the_timeline(table: Storage) -> None:
    entered = []

    @contextmanager
    def lock() -> Iterator[None]:
        # A process without the lock completes the instant between our two critical sections.
        entered.append(1)
        if len(entered) == 2:
            complete(table, FAILED, format_time(NOW), b"metadata")
        yield

    with pytest.raises(RollbackError, match="is completed"):
        roll_back(table, FAILED, RollbackOptions(clock=lambda: NOW, lock=lock))
    assert f".hoodie/timeline/{FAILED}.deltacommit.requested" in paths(table)


@pytest.mark.parametrize("action", ["compaction", "clustering", "logcompaction"])
def test_table_services_of_others_are_not_touched(table: Storage, action: str) -> None:
    time = format_time(START + timedelta(seconds=9))
    create_requested(table, time, action)
    with pytest.raises(RollbackError, match=action):
        roll_back(table, time, OPTIONS)
    assert f".hoodie/timeline/{time}.{action}.requested" in paths(table)


def test_an_archived_instant_is_not_swept() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    storage = open_storage("memory://archived-not-swept")
    rows = pa.table({"instantTime": [DONE], "completionTime": [DONE_AT], "action": ["deltacommit"]})
    pq.write_table(rows, sink := pa.BufferOutputStream())
    name = f"{DONE}_{DONE}_0.parquet"
    storage.create(f".hoodie/timeline/history/{name}", sink.getvalue().to_pybytes())
    storage.create(".hoodie/timeline/history/manifest_1", f'{{"files":[{{"fileName":"{name}","fileLen":1}}]}}'.encode())
    storage.create(".hoodie/timeline/history/_version_", b"1")
    complete(storage, LIVE, format_time(NOW), b"")
    storage.create(DONE_FILE, b"rows")
    storage.create(FAILED_FILES[0], b"late")
    with pytest.raises(RollbackError, match="is completed"):
        delete_late_files(storage, DONE, OPTIONS)
    assert delete_late_files(storage, FAILED, OPTIONS) == (FAILED_FILES[0],)
    assert DONE_FILE in paths(storage)


def test_late_files_are_swept_after_the_rollback(table: Storage) -> None:
    with pytest.raises(RollbackError, match="still pending"):
        delete_late_files(table, FAILED, OPTIONS)
    roll_back(table, FAILED, OPTIONS)
    partition_path, _, name = FAILED_FILES[1].rpartition("/")
    create_marker(table, FAILED, partition_path, name)
    table.create(FAILED_FILES[1], b"a stalled executor's")
    assert delete_late_files(table, FAILED, OPTIONS) == (FAILED_FILES[1],)
    assert not [path for path in paths(table) if FAILED in path], "its marker would stay forever"
    assert delete_late_files(table, FAILED, OPTIONS) == ()


def test_known_files_go_although_only_one_partition_is_listed(table: Storage) -> None:
    options = RollbackOptions(partitions=["us"], known_files=[FAILED_FILES[2]], clock=lambda: NOW)
    assert set(roll_back(table, FAILED, options).deleted) == set(FAILED_FILES)


def test_a_known_file_of_another_instant_is_not_deleted(table: Storage) -> None:
    options = RollbackOptions(known_files=[DONE_FILE], clock=lambda: NOW)
    with pytest.raises(RollbackError, match="not a data file of instant"):
        roll_back(table, FAILED, options)
    assert DONE_FILE in paths(table)


def test_rollback_times_exceed_every_known_time(table: Storage) -> None:
    known = format_time(NOW + timedelta(seconds=30))
    options = RollbackOptions(known_times=[known], clock=lambda: NOW)
    result = roll_back(table, FAILED, options)
    assert result.rollback_time == format_time(NOW + timedelta(seconds=30, milliseconds=1))
    rollback = Timeline.load(table).find(result.rollback_time, "rollback")
    assert rollback is not None
    assert (rollback.completion_time or "") > result.rollback_time
