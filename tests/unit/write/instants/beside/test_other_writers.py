"""Other writers on the table: what they do to an open instant is seen before its commit, and its rows are not lost."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.naming import TIMELINE_DIRECTORY
from bucketingest.hudi.rollback.rollback import roll_back
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import COMMIT, COMPACTION, DELTA_COMMIT, Instant, State
from bucketingest.hudi.timeline.timeline import complete, create_inflight, create_requested, path_of
from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Data
from bucketingest.write.coordinator_api import StartVerdict
from bucketingest.write.errors import ColumnsChanged, InstantAborted
from support.storage.crashing_storage import CrashingStorage
from support.storage.flaky_storage import FlakyStorage
from support.tables.instants.abandoned import Killed, die
from support.tables.other_writers import (
    KEYS,
    ROWS,
    add_column,
    archive,
    commit,
    foreign_commit,
    later,
    next_time,
    roll_back_completed,
    schedule_compaction,
    switch_on_metadata_table,
    upgrade_table,
)
from support.tables.table_runs import Attempt, TestTable, offsets
from support.tables.write_plans import row


def roll_back_all(table: TestTable) -> None:
    """What Hudi's EAGER single writer does at its start: it rolls back every pending instant, also a live one."""
    for instant in table.timeline().pending:
        roll_back(table.storage, instant.request_time)


def test_an_instant_that_another_writer_rolled_back_is_aborted_and_its_rows_are_written_again(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(InstantAborted) as aborted:
        attempt.run(offsets(0, 2), ROWS, lambda: roll_back_all(table))
    assert str(aborted.value).endswith("was aborted: another writer rolled it back; its rows are written again")
    assert table.visible_keys() == []
    attempt.run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


@pytest.mark.parametrize("ahead", [0, 1])
def test_an_instant_is_after_each_compaction_and_never_of_its_time(table: TestTable, ahead: int) -> None:
    """The attempt is paused between its look at the timeline and its request. Readers would show its files at once; or
    an incremental read that ends with it would miss its rows.
    """
    table.attempt().run(offsets(0, 2), ROWS)
    compactions: list[str] = []

    class Paused(CrashingStorage):
        def _change(self, path: str, act: Callable[[], None]) -> None:
            if path.endswith(".deltacommit.requested") and not compactions:
                time = path.rpartition("/")[2].partition(".")[0]
                compactions.append(schedule_compaction(table, time=str(int(time) + ahead)))
            super()._change(path, act)

    def look() -> None:
        (pending,) = [each for each in table.timeline().pending if each.action == DELTA_COMMIT]
        assert pending.request_time > compactions[0]

    attempt = table.attempt(Paused(table.storage, -1, after_effect=False))
    attempt.run(offsets(2, 4), [row("k9"), row("k8")], look)
    assert compactions[0] not in [each.request_time for each in table.timeline().completed_commits]
    assert {"k8", "k9"} <= set(table.visible_keys())


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


def test_a_compaction_that_is_complete_at_its_second_try_is_no_loss(table: TestTable) -> None:
    table.attempt().run(offsets(0, 2), ROWS)
    time = schedule_compaction(table)
    roll_back_completed(table, time, COMPACTION)  # its first try seemed to be dead; its plan stays
    create_inflight(table.storage, time, COMPACTION)
    complete(table.storage, time, later(table.timeline().newest_time or ""), CommitMetadata({}).encode(), COMMIT)
    undecided = FlakyStorage(table.storage, lambda path: path.endswith("/decision"))
    with pytest.raises(StorageUnavailable):
        table.attempt(undecided).run(offsets(2, 3), [row("k9")])
    assert "all its rows are in storage" in table.attempt().start.reason
    assert "k9" in table.visible_keys()


def test_an_instant_that_was_rolled_back_between_two_attempts_is_written_again(table: TestTable) -> None:
    with pytest.raises(Killed):
        table.attempt().run(offsets(0, 2), ROWS, die)
    roll_back_all(table)
    table.attempt().run(offsets(0, 2), ROWS)
    assert table.visible_keys() == KEYS
    assert table.leftovers() == []


def test_a_position_that_archival_took_off_the_timeline_is_still_known(table: TestTable) -> None:
    table.attempt().run(offsets(0, 2), ROWS)
    archive(table)
    foreign_commit(table, "us", 1)
    attempt = table.attempt()
    assert attempt.coordinator.position == offsets(0, 2)
    assert attempt.run(offsets(0, 2), ROWS).instant_time is None
    attempt.run(offsets(2, 3), [row("k2", at=1)])
    assert table.visible_keys() == [*KEYS, "k2"]


def test_a_rolled_back_instant_is_not_a_position_though_it_had_its_ledger_entry(table: TestTable) -> None:
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


def test_a_table_that_a_later_release_upgrades_meanwhile_stops_the_commit(table: TestTable) -> None:
    with pytest.raises(UnsupportedTable, match=r"hoodie\.table\.version=10: .* to_version => 'NINE'"):
        table.attempt().run(offsets(0, 2), ROWS, lambda: upgrade_table(table.storage))
    assert table.timeline().completed == ()


def test_a_metadata_table_that_is_switched_on_after_the_last_check_is_reported(table: TestTable) -> None:
    """The completed commit is hidden from readers until the metadata table is dropped, so an error is raised."""

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


def run_with_new_columns(
    table: TestTable, attempt: Attempt, rows: tuple[int, int], during: Callable[[], object]
) -> None:
    """As the running job does: a table whose columns another writer made more is opened again."""
    with pytest.raises(ColumnsChanged):
        attempt.run(offsets(*rows), ROWS[1:], during)
    table.attempt().run(offsets(*rows), ROWS[1:])


def test_a_column_that_another_writer_adds_stays_in_the_tables_schema(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), ROWS[:1])
    own = schema_of_newest(table)
    add_column(table, "note")
    run_with_new_columns(table, attempt, (1, 2), lambda: None)
    assert schema_of_newest(table) == [*own, "note"]
    table.attempt().run(offsets(2, 3), [row("k2")])
    assert schema_of_newest(table) == [*own, "note"]


def test_a_column_that_is_added_while_an_instant_is_open_stays_too(table: TestTable) -> None:
    table.attempt().run(offsets(0, 1), ROWS[:1])
    run_with_new_columns(table, table.attempt(), (1, 2), lambda: add_column(table, "note"))
    assert schema_of_newest(table)[-1] == "note"


def test_a_compaction_that_carries_an_old_schema_along_takes_no_column_away(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), ROWS[:1])
    path = path_of(table.timeline().completed_commits[-1])
    old = CommitMetadata.decode_extra(table.storage.get(path), path)["schema"]
    add_column(table, "note")
    commit(table, CommitMetadata(extra_metadata={"schema": old}, operation_type="COMPACT"))
    run_with_new_columns(table, attempt, (1, 2), lambda: None)
    assert schema_of_newest(table)[-1] == "note"
    table.attempt().run(offsets(2, 3), [row("k2")])
    assert schema_of_newest(table)[-1] == "note"


@pytest.mark.parametrize("until", ["running", "start"])
def test_a_writer_that_could_not_see_a_new_column_takes_it_not_away(table: TestTable, until: str) -> None:
    """It began before the column was added, and completes after it with the columns of then."""
    attempt = table.attempt()
    attempt.run(offsets(0, 1), ROWS[:1])
    path = path_of(table.timeline().completed_commits[-1])
    old = CommitMetadata.decode_extra(table.storage.get(path), path)["schema"]
    slow = next_time(table)
    create_requested(table.storage, slow)
    create_inflight(table.storage, slow)
    add_column(table, "note")
    complete(table.storage, slow, next_time(table), CommitMetadata(extra_metadata={"schema": old}).encode())
    if until == "running":
        run_with_new_columns(table, attempt, (1, 2), lambda: None)
    else:
        table.attempt().run(offsets(1, 2), ROWS[1:])
    assert schema_of_newest(table)[-1] == "note"
    commit(table, CommitMetadata(extra_metadata={"schema": old}))  # this one saw the column
    table.attempt().run(offsets(2, 3), [row("k2")])
    assert "note" not in schema_of_newest(table)


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
    (foreign,) = table.timeline().pending
    assert outcome.instant_time != foreign.request_time
    table.attempt()
    assert [path_of(instant) for instant in table.timeline().pending] == requested, "it was started for another writer"
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
