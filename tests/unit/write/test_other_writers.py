"""Other writers on the table: what they do to an open instant is seen before its commit, and its rows are not lost."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bucketingest.hudi import properties as java_properties
from bucketingest.hudi.commit_metadata import CommitMetadata
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.instant import format_time, parse_time
from bucketingest.hudi.naming import HISTORY_DIRECTORY, PROPERTIES_PATH, TIMELINE_DIRECTORY, LogFileName
from bucketingest.hudi.rollback import roll_back
from bucketingest.hudi.timeline import complete, create_inflight, create_requested
from bucketingest.hudi.write_stat import WriteStat
from bucketingest.index.errors import DuplicateFileGroup
from bucketingest.storage import StorageUnavailable
from bucketingest.write.errors import InstantAborted
from support.crashing_storage import Crash
from support.flaky_storage import FlakyStorage
from support.table_runs import TestTable, offsets
from support.write_plans import row

ROWS = [row("k0", amount=1), row("k1", amount=2)]
KEYS = ["k0", "k1"]


@pytest.fixture
def table() -> TestTable:
    return TestTable()


def roll_back_all(table: TestTable) -> None:
    """What Hudi's EAGER single writer does at its start: it takes back every pending instant, also a live one."""
    for instant in table.timeline().pending:
        roll_back(table.storage, instant.request_time)


def later(time: str) -> str:
    """The next instant time."""
    return format_time(parse_time(time) + timedelta(milliseconds=1))


def foreign_commit(table: TestTable, partition_path: str, bucket: int, random: str = "a21b") -> str:
    """Another writer's instant, with a file group of a random id; returns the file id."""
    file_id = f"{bucket:08d}-{random}-4b6d-a4ef-90dafdb1c65e-0"
    instant = later(table.timeline().newest_time or format_time(datetime.now(UTC)))
    name = LogFileName(file_id, instant, 1)
    create_requested(table.storage, instant)
    create_inflight(table.storage, instant, content=b"")
    stat = WriteStat.of_log_file(partition_path, name, size=0, updates=1, deletes=0)
    table.storage.create(f"{partition_path}/{name}", b"")
    metadata = CommitMetadata(write_stats={partition_path: [stat]}, extra_metadata={})
    complete(table.storage, instant, later(instant), metadata.encode())
    return file_id


def bucket_of_k0() -> int:
    """The bucket of key k0, as a table of its own shows it."""
    other = TestTable()
    other.attempt().run(offsets(0, 1), [row("k0")])
    return int(other.visible_rows()[0]["_hoodie_file_name"][:8])


def switch_on_metadata_table(table: TestTable) -> None:
    properties = java_properties.parse(table.storage.get(PROPERTIES_PATH).decode("iso-8859-1"))
    properties = {**properties, "hoodie.table.metadata.partitions": "files"}
    table.storage.put(PROPERTIES_PATH, java_properties.serialise(properties).encode("ascii"))


def test_an_instant_that_another_writer_rolled_back_is_aborted_and_its_rows_are_written_again(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(InstantAborted) as aborted:
        attempt.run(offsets(0, 2), ROWS, lambda: roll_back_all(table))
    assert str(aborted.value).endswith("was aborted: another writer rolled it back; its rows are written again")
    assert table.visible_keys() == []
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_a_pending_rollback_that_names_the_instant_is_finished_before_its_rows_are_written_again(
    table: TestTable,
) -> None:
    attempt = table.attempt()

    def request_a_rollback() -> None:
        (instant,) = table.timeline().pending
        roll_back(table.storage, instant.request_time)
        # As if that writer had died after its plan: the instant and its rollback are both pending.
        for info in list(table.storage.list(".hoodie/timeline")):
            if info.path.endswith((".rollback", ".rollback.inflight")):
                table.storage.delete(info.path)
        create_requested(table.storage, instant.request_time)

    with pytest.raises(InstantAborted, match="another writer rolled it back"):
        attempt.run(offsets(0, 2), ROWS, request_a_rollback)
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_an_instant_that_was_rolled_back_between_two_attempts_is_written_again(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 2), ROWS, die)
    roll_back_all(table)
    table.attempt().run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def die() -> None:
    raise Crash


def archive(table: TestTable) -> None:
    """Take every completed instant off the timeline into the history, as Hudi's archival does."""
    done = table.timeline().completed
    columns = {
        "instantTime": [instant.request_time for instant in done],
        "completionTime": [instant.completion_time for instant in done],
        "action": [instant.action for instant in done],
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    name = f"{done[0].request_time}_{done[-1].request_time}_0.parquet"
    table.storage.create(f"{HISTORY_DIRECTORY}/{name}", sink.getvalue())
    table.storage.create(f"{HISTORY_DIRECTORY}/manifest_1", json.dumps({"files": [{"fileName": name}]}).encode())
    table.storage.create(f"{HISTORY_DIRECTORY}/_version_", b"1")
    times = tuple(instant.request_time for instant in done)
    for info in table.storage.list_level(TIMELINE_DIRECTORY).objects:
        if info.path.rpartition("/")[2].startswith(times):
            table.storage.delete(info.path)


def test_a_position_that_archival_took_off_the_timeline_is_still_known(table: TestTable) -> None:
    table.attempt().run(offsets(0, 2), ROWS)
    archive(table)
    foreign_commit(table, "us", 1)
    attempt = table.attempt()
    assert attempt.coordinator.position == offsets(0, 2)
    assert attempt.run(offsets(0, 2), ROWS).instant_time is None
    attempt.run(offsets(2, 3), [row("k2", at=1)])
    assert table.visible_keys() == [*KEYS, "k2"]


def test_a_rolled_back_instant_is_no_position_though_it_had_its_ledger_entry(table: TestTable) -> None:
    storage = FlakyStorage(table.storage, lambda path: path.endswith("/decision"))
    with pytest.raises(StorageUnavailable):
        table.attempt(storage).run(offsets(0, 2), ROWS)
    roll_back_all(table)
    attempt = table.attempt()
    assert attempt.coordinator.position is None
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS


def test_a_metadata_table_that_is_switched_on_stops_the_commit(table: TestTable) -> None:
    with pytest.raises(
        UnsupportedTable, match=r"hoodie\.table\.metadata\.partitions=files: Hudi's metadata table is on"
    ):
        table.attempt().run(offsets(0, 2), ROWS, lambda: switch_on_metadata_table(table))
    assert table.timeline().completed == ()


@pytest.mark.parametrize("restarted", [False, True])
def test_rows_whose_bucket_got_a_file_group_meanwhile_are_written_again_into_that_one(
    table: TestTable, restarted: bool
) -> None:
    bucket, attempt = bucket_of_k0(), table.attempt()
    with pytest.raises(InstantAborted) as aborted:
        attempt.run(offsets(0, 2), ROWS, lambda: foreign_commit(table, "eu", bucket))
    file_id = f"{bucket:08d}-a21b-4b6d-a4ef-90dafdb1c65e-0"
    assert f"another writer gave bucket {bucket} of partition 'eu' file group {file_id} meanwhile" in str(aborted.value)
    again = table.attempt() if restarted else attempt
    again.run(offsets(0, 2), ROWS)
    assert table.visible_rows()[0]["_hoodie_file_name"] == file_id
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_files_of_failed_tasks_are_not_kept_beside_a_file_group_that_appeared_since(table: TestTable) -> None:
    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 2), ROWS, die)
    foreign_commit(table, "eu", bucket_of_k0())
    table.attempt().run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_a_micro_batch_that_died_before_its_decision_gives_way_to_a_file_group_that_appeared_since(
    table: TestTable,
) -> None:
    storage = FlakyStorage(table.storage, lambda path: path.endswith("/decision"))
    with pytest.raises(StorageUnavailable):
        table.attempt(storage).run(offsets(0, 2), ROWS)
    foreign_commit(table, "eu", bucket_of_k0())
    table.attempt().run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_two_file_groups_of_other_writers_in_one_bucket_stop_the_commit(table: TestTable) -> None:
    def two_file_groups() -> None:
        foreign_commit(table, "de", 2, "a21b")
        foreign_commit(table, "de", 2, "b21b")

    attempt = table.attempt()
    with pytest.raises(DuplicateFileGroup) as refused:
        attempt.run(offsets(0, 2), ROWS, two_file_groups)
    assert refused.value.file_ids == (
        "00000002-a21b-4b6d-a4ef-90dafdb1c65e-0",
        "00000002-b21b-4b6d-a4ef-90dafdb1c65e-0",
    )
    assert table.visible_keys() == []


def test_a_file_group_of_another_writer_in_another_bucket_or_partition_does_no_harm(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS, lambda: foreign_commit(table, "us", bucket_of_k0()))
    assert table.visible_keys() == KEYS


def test_a_file_group_that_appeared_between_two_micro_batches_takes_their_rows(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("other", region="us")])
    file_id = foreign_commit(table, "eu", bucket_of_k0())
    attempt.run(offsets(1, 3), ROWS)
    assert table.visible_rows()[0]["_hoodie_file_name"] == file_id
    assert table.leftovers() == []
