"""Other writers on the table: what they do to an open instant is seen before its commit, and its rows are not lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import PROPERTIES_PATH, TIMELINE_DIRECTORY, LogFileName
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.table import properties as java_properties
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import Instant, State, format_time, parse_time
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.hudi.timeline.write_stat import WriteStat
from bucketingest.index.errors import DuplicateFileGroup
from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Data
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import InstantAborted
from support.crashing_storage import Crash
from support.flaky_storage import FlakyStorage
from support.other_writers import add_column, archive, commit, replace_file_groups
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
        requested = path_of(Instant(instant.request_time, "deltacommit", State.REQUESTED))
        content = table.storage.get(requested)
        roll_back(table.storage, instant.request_time)
        # As if that writer had died after its plan: the instant and its rollback are both pending.
        for info in list(table.storage.list(".hoodie/timeline")):
            if info.path.endswith((".rollback", ".rollback.inflight")):
                table.storage.delete(info.path)
        table.storage.create(requested, content)

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


def test_a_metadata_table_that_is_switched_on_after_the_last_check_is_not_passed_over(table: TestTable) -> None:
    """What is complete then is hidden from readers until it is dropped: silence would be the worst."""

    class SwitchesOn(FlakyStorage):
        def create(self, path: str, data: Data) -> None:
            if path.endswith(".deltacommit"):
                switch_on_metadata_table(table)
            super().create(path, data)

    attempt = table.attempt(SwitchesOn(table.storage, lambda _: False))
    with pytest.raises(UnsupportedTable, match="Hudi's metadata table is on"):
        attempt.run(offsets(0, 2), ROWS)
    assert [instant.action for instant in table.timeline().completed] == ["deltacommit"]


def schema_of_newest(table: TestTable) -> list[str]:
    path = path_of(table.timeline().completed_commits[-1])
    schema = CommitMetadata.decode_extra(table.storage.get(path), path)["schema"]
    return [field["name"] for field in json.loads(schema)["fields"]]


def test_a_column_that_another_writer_adds_stays_in_the_tables_schema(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), ROWS[:1])
    own = schema_of_newest(table)
    add_column(table, "note")
    attempt.run(offsets(1, 2), ROWS[1:])
    assert schema_of_newest(table) == [*own, "note"]
    table.attempt().run(offsets(2, 3), [row("k2")])
    assert schema_of_newest(table) == [*own, "note"]


def test_a_column_that_is_added_while_an_instant_is_open_stays_too(table: TestTable) -> None:
    table.attempt().run(offsets(0, 1), ROWS[:1])
    table.attempt().run(offsets(1, 2), ROWS[1:], lambda: add_column(table, "note"))
    assert schema_of_newest(table)[-1] == "note"


def test_a_compaction_that_carries_an_old_schema_along_takes_no_column_away(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), ROWS[:1])
    path = path_of(table.timeline().completed_commits[-1])
    old = CommitMetadata.decode_extra(table.storage.get(path), path)["schema"]
    add_column(table, "note")
    commit(table, CommitMetadata(extra_metadata={"schema": old}, operation_type="COMPACT"))
    attempt.run(offsets(1, 2), ROWS[1:])
    assert schema_of_newest(table)[-1] == "note"
    table.attempt().run(offsets(2, 3), [row("k2")])
    assert schema_of_newest(table)[-1] == "note"


def test_a_column_that_another_writer_gives_another_type_stops_the_commit(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), ROWS[:1])
    path = path_of(table.timeline().completed_commits[-1])
    schema = CommitMetadata.decode_extra(table.storage.get(path), path)["schema"].replace('"long"', '"string"')
    commit(table, CommitMetadata(extra_metadata={"schema": schema}))
    with pytest.raises(UnsupportedTable, match="is string in the table but long in the input"):
        attempt.run(offsets(1, 2), ROWS[1:])


def test_another_writers_instant_of_the_same_millisecond_is_left_to_it(table: TestTable) -> None:
    """Both asked the clock, neither holds a lock, and the other one's request came first. Its file is empty."""
    requested: list[str] = []

    class SameTime(FlakyStorage):
        def create(self, path: str, data: Data) -> None:
            if path.endswith(".deltacommit.requested") and not requested:
                requested.append(path)
                table.storage.create(path, b"")
            super().create(path, data)

    attempt = table.attempt(SameTime(table.storage, lambda _: False))
    outcome = attempt.run(offsets(0, 2), ROWS)
    (theirs,) = table.timeline().pending
    assert outcome.instant_time != theirs.request_time
    table.attempt()
    assert [path_of(instant) for instant in table.timeline().pending] == requested, "it was begun for another writer"
    assert table.visible_keys() == KEYS


def test_a_partition_that_another_writer_deleted_gets_its_metadata_again(table: TestTable) -> None:
    """Hudi's clean deletes a partition whole when all of it was replaced; readers skip one without its metadata."""
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    table.storage.delete("eu/.hoodie_partition_metadata")
    time = later(table.timeline().newest_time or "")
    complete(table.storage, time, later(time), b"", "clean")
    attempt.run(offsets(2, 4), ROWS)
    assert table.storage.exists("eu/.hoodie_partition_metadata")


def test_a_partition_that_is_deleted_while_an_instant_is_open_gets_its_metadata_again(table: TestTable) -> None:
    def delete() -> None:
        table.storage.delete("eu/.hoodie_partition_metadata")
        time = later(table.timeline().newest_time or "")
        complete(table.storage, time, later(time), b"", "clean")

    table.attempt().run(offsets(0, 2), ROWS, delete)
    assert table.storage.exists("eu/.hoodie_partition_metadata")


def test_a_deleted_partition_that_is_written_no_more_disturbs_nobody_and_one_that_is_gets_new_file_groups(
    table: TestTable,
) -> None:
    table.attempt().run(offsets(0, 2), [row("k0", region="us"), row("k1")])
    replaced = {each["_hoodie_partition_path"]: [each["_hoodie_file_name"]] for each in table.visible_rows()}
    attempt = table.attempt()
    replace_file_groups(table, replaced)
    attempt.run(offsets(2, 3), [row("k1", amount=2)])
    table.attempt().run(offsets(3, 4), [row("k1", amount=3)])
    names = {each["_hoodie_file_name"] for each in table.visible_rows() if each["amount"] in (2, 3)}
    assert len(names) == 1
    assert not names & {name for each in replaced.values() for name in each}


def test_a_savepoint_that_keeps_an_old_instant_does_not_look_like_a_hole(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), ROWS)
    (kept,) = table.timeline().completed_commits
    attempt.run(offsets(2, 4), ROWS)
    attempt.run(offsets(4, 6), ROWS)
    saved = path_of(Instant(kept.request_time, "savepoint", State.COMPLETED, later(table.timeline().newest_time or "")))
    table.storage.create(saved, b"")
    middle = table.timeline().completed_commits[1]
    for info in list(table.storage.list_level(TIMELINE_DIRECTORY).objects):
        if middle.request_time in info.path:
            table.storage.delete(info.path)  # archived, as the savepoint's instant is not
    again = table.attempt()
    assert again.start.verdict is StartVerdict.IN_STEP
    assert again.coordinator.position == offsets(4, 6)
