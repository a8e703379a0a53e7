"""Rolling back: what goes, what stays, and that a crash at any change leaves something that a second run finishes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.naming import LogFileName, deterministic_file_id
from bucketingest.hudi.rollback.markers import create_marker
from bucketingest.hudi.rollback.pending import pending_rollbacks
from bucketingest.hudi.rollback.plan import RollbackFile, RollbackPlan
from bucketingest.hudi.rollback.rollback import RollbackOptions, pending_rollback, roll_back, rollbacks_of, sweep
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import Instant, State, format_time
from bucketingest.hudi.timeline.ocf import read_record, write_record
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested, path_of
from bucketingest.storage.factory import open_storage
from bucketingest.storage.interface import Data, Storage
from support.crashing_storage import Crash, CrashingStorage

START = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
DONE, DONE_AT, FAILED, LIVE = (format_time(START + timedelta(seconds=n)) for n in range(4))
NOW = START + timedelta(minutes=1)
OPTIONS = RollbackOptions(clock=lambda: NOW)

DONE_FILE = f"us/{LogFileName(deterministic_file_id(1), DONE, 1)}"
FAILED_FILES = [
    f"us/{LogFileName(deterministic_file_id(1), FAILED, 1)}",
    f"us/{LogFileName(deterministic_file_id(1), FAILED, 2)}",
    f"eu/5/{LogFileName(deterministic_file_id(0), FAILED, 1)}",
]
LIVE_FILE = f"us/{LogFileName(deterministic_file_id(1), LIVE, 1)}"

StorageOf = Callable[[str], Storage]


@pytest.fixture
def new_table(request: pytest.FixtureRequest) -> StorageOf:
    """Makes tables with a completed, a failed and a live instant."""
    test = "".join(c if c.isalnum() else "-" for c in request.node.nodeid)

    def make(name: str) -> Storage:
        storage = open_storage(f"memory://{test}-{name}")
        storage.create("us/.hoodie_partition_metadata", b"")
        for instant, files in ((DONE, [DONE_FILE]), (FAILED, FAILED_FILES), (LIVE, [LIVE_FILE])):
            heartbeat.beat(storage, instant)
            create_requested(storage, instant)
            create_inflight(storage, instant, content=b"inflight")
            for path in files:
                create_marker(storage, instant, path.rpartition("/")[0], path.rpartition("/")[2])
                storage.create(path, b"rows")
        complete(storage, DONE, DONE_AT, b"metadata")
        return storage

    return make


@pytest.fixture
def table(new_table: StorageOf) -> Storage:
    return new_table("table")


def paths(storage: Storage) -> set[str]:
    return {info.path for info in storage.list("")}


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


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_a_crash_at_any_change_is_finished_by_a_second_run(new_table: StorageOf, after_effect: bool) -> None:
    changes = CrashingStorage(counted := new_table("counted"), -1, after_effect=True)
    roll_back(changes, FAILED, OPTIONS)
    expected = paths(counted)
    assert changes.changes == 12
    for dies_at in range(changes.changes):
        storage = new_table(f"dies-at-{dies_at}")
        with pytest.raises(Crash):
            roll_back(CrashingStorage(storage, dies_at, after_effect=after_effect), FAILED, OPTIONS)
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


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
def test_every_pending_rollback_of_the_instant_is_finished_also_after_a_crash(
    new_table: StorageOf, after_effect: bool
) -> None:
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
            roll_back(CrashingStorage(storage, dies_at, after_effect=after_effect), FAILED, OPTIONS)
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


def test_a_plan_that_cannot_be_read_names_nothing_and_stops_nobody(table: Storage) -> None:
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


def test_who_asks_whether_an_instant_was_rolled_back_is_told(table: Storage) -> None:
    assert rollbacks_of(table, Timeline.load(table), FAILED) == ()
    with pytest.raises(Crash):
        roll_back(CrashingStorage(table, 0, after_effect=True), FAILED, OPTIONS)
    assert [i.state for i in rollbacks_of(table, Timeline.load(table), FAILED)] == [State.REQUESTED]
    roll_back(table, FAILED, OPTIONS)
    assert [i.state for i in rollbacks_of(table, Timeline.load(table), FAILED)] == [State.COMPLETED]
    assert rollbacks_of(table, Timeline.load(table), LIVE) == ()


def test_a_completed_instant_is_never_rolled_back(table: Storage) -> None:
    before = paths(table)
    with pytest.raises(RollbackError, match="is completed"):
        roll_back(table, DONE, OPTIONS)
    with pytest.raises(RollbackError, match="is completed"):
        sweep(table, DONE, OPTIONS)
    assert paths(table) == before


def test_an_instant_that_completes_meanwhile_keeps_its_place_on_the_timeline(table: Storage) -> None:
    entered = []

    @contextmanager
    def lock() -> Iterator[None]:
        # Somebody without the lock completes the instant between our two critical sections.
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
        sweep(storage, DONE, OPTIONS)
    assert sweep(storage, FAILED, OPTIONS) == (FAILED_FILES[0],)
    assert DONE_FILE in paths(storage)


def test_late_files_are_swept_after_the_rollback(table: Storage) -> None:
    with pytest.raises(RollbackError, match="still pending"):
        sweep(table, FAILED, OPTIONS)
    roll_back(table, FAILED, OPTIONS)
    partition_path, _, name = FAILED_FILES[1].rpartition("/")
    create_marker(table, FAILED, partition_path, name)
    table.create(FAILED_FILES[1], b"a stalled executor's")
    assert sweep(table, FAILED, OPTIONS) == (FAILED_FILES[1],)
    assert not [path for path in paths(table) if FAILED in path], "its marker would stay for ever"
    assert sweep(table, FAILED, OPTIONS) == ()


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
