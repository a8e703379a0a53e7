"""Tables in which a key is in one partition only: it moves when a newer row has another partition, whatever else writes
to the table, and whenever an attempt ends.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.table import StateRules
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.index.errors import DuplicateKeys
from bucketingest.index.state.store import StateStore, forget_state
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.errors import ConflictingAttempt, InstantAborted
from bucketingest.write.rows.write_status import WriteStatus
from support.storage.crashing_storage import Crash
from support.storage.passing_storage import PassingStorage
from support.tables.other_writers import roll_back_completed
from support.tables.services.clustered import cluster
from support.tables.state.tables import (
    THEIRS,
    data_files,
    groups_of_keys,
    insert_by_another,
    places,
    state_table,
)
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import definition, row, write


@pytest.fixture(autouse=True)
def local_disk(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def extra(table: TestTable) -> dict[str, str]:
    newest = path_of(table.timeline().completed_commits[-1])
    return CommitMetadata.decode_extra(table.storage.get(newest), newest)


def counts(table: TestTable) -> tuple[int, int]:
    found = extra(table)
    return int(found["bucketingest.keys.moved"]), int(found["bucketingest.rows.older"])


@pytest.fixture
def table() -> TestTable:
    return state_table(is_global=True)


def test_a_newer_row_of_another_partition_moves_its_key(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("a", amount=1, at=1), row("b", amount=1, at=1)])
    outcome = attempt.run(offsets(2, 3), [row("a", region="us", amount=2, at=2)])
    assert places(table) == {"a": ("us", 2), "b": ("eu", 1)}
    assert (outcome.upserts, outcome.deletes, outcome.moved, outcome.older) == (1, 1, 1, 0)
    assert counts(table) == (1, 0)
    attempt.run(offsets(3, 4), [row("a", region="us", amount=3, at=3)])
    attempt.run(offsets(4, 5), [row("a", region="eu", amount=4, at=4)])
    assert places(table) == {"a": ("eu", 4), "b": ("eu", 1)}


def test_an_older_row_of_another_partition_is_dropped_and_counted(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a", amount=1, at=5)])
    outcome = attempt.run(offsets(1, 2), [row("a", region="us", amount=2, at=4)])
    assert places(table) == {"a": ("eu", 1)}
    assert (outcome.moved, outcome.older, outcome.files) == (0, 1, 0)
    assert counts(table) == (0, 1)
    attempt.run(offsets(2, 3), [row("a", region="us", amount=3, at=5)])
    assert places(table) == {"a": ("us", 3)}, "of equal ordering values the later row wins"


def test_an_older_row_does_not_come_back_where_its_key_was_deleted(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a", amount=1, at=1)])
    outcome = attempt.run(offsets(1, 2), [row("a", region="us", at=5, deleted=True)])
    assert places(table) == {}, "a delete deletes its key in whichever partition it is"
    assert (outcome.deletes, outcome.moved, outcome.dropped) == (1, 0, 0)
    attempt.run(offsets(2, 3), [row("a", region="us", amount=2, at=4)])
    assert places(table) == {}
    attempt.run(offsets(3, 4), [row("a", region="us", amount=3, at=6)])
    assert places(table) == {"a": ("us", 3)}


def test_of_a_micro_batchs_rows_in_several_partitions_only_the_newest_lives(table: TestTable) -> None:
    attempt = table.attempt()
    first = [row("a", region="us", amount=1, at=2), row("a", region="eu", amount=2, at=1), row("b", region="eu", at=1)]
    attempt.run(offsets(0, 4), [*first, row("b", region="us", amount=4, at=1)])
    assert places(table) == {"a": ("us", 1), "b": ("us", 4)}
    attempt.run(
        offsets(4, 7), [row("a", region=to, amount=at, at=at) for to, at in (("us", 3), ("eu", 5), ("asia", 4))]
    )
    assert places(table)["a"] == ("eu", 5)
    attempt.run(offsets(7, 9), [row("a", region="us", amount=6, at=6), row("a", region="eu", amount=7, at=7)])
    assert places(table)["a"] == ("eu", 7)
    attempt.run(offsets(9, 11), [row("a", region="us", amount=8, at=8), row("a", region="us", at=9, deleted=True)])
    assert "a" not in places(table)


def test_a_row_that_another_writer_updates_before_the_commit_does_not_move(table: TestTable) -> None:
    """Its new row may be newer than the delete: it would live in both partitions."""
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a", amount=1, at=1)])
    (group,) = groups_of_keys(table)["a"]

    def update() -> None:
        insert_by_another(table, [row("a", amount=5, at=5)], file_id=group)

    moving = [row("a", region="us", amount=2, at=2)]
    with pytest.raises(InstantAborted, match=f"wrote to file group {group} of partition 'eu', which keys leave"):
        attempt.run(offsets(1, 2), moving, update)
    assert attempt.run(offsets(1, 2), moving).older == 1
    assert places(table) == {"a": ("eu", 5)}


class DiesBeforeItDecides(PassingStorage):
    """Of a process whose micro-batch is in storage."""

    def _change(self, path: str, act: Callable[[], None]) -> None:
        if path.endswith("/decision"):
            raise Crash
        act()


def test_nor_does_one_that_a_writer_updates_whose_clock_is_behind(table: TestTable) -> None:
    """The attempt that planned the move ended, and its plan says by a time only which commits it knew."""

    def ahead() -> datetime:
        return utc_now() + timedelta(minutes=3)

    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    (group,) = groups_of_keys(table)["a"]
    moving = [row("a", region="us", amount=2, at=2)]
    table.attempt(clock=ahead).run(offsets(1, 2), [row("b", amount=1, at=1)])
    with pytest.raises(Crash):
        table.attempt(DiesBeforeItDecides(table.storage), clock=ahead).run(offsets(2, 3), moving)
    insert_by_another(table, [row("a", amount=5, at=5)], file_id=group, time=format_time(utc_now()))
    again = table.attempt(clock=ahead)
    assert again.start.verdict.value == "rewound"
    assert again.run(offsets(2, 3), moving).older == 1
    assert places(table) == {"a": ("eu", 5), "b": ("eu", 1)}


def test_a_key_that_another_writer_inserts_elsewhere_before_the_commit_moves_afterwards(table: TestTable) -> None:
    attempt = table.attempt()
    new = [row("new", region="us", amount=2, at=2)]
    with pytest.raises(InstantAborted, match=f"into {THEIRS} of partition 'eu' meanwhile"):
        attempt.run(offsets(0, 1), new, lambda: insert_by_another(table, [row("new", at=1)]))
    assert attempt.run(offsets(0, 1), new).moved == 1
    assert places(table) == {"new": ("us", 2)}


def test_an_instant_of_which_another_writer_deleted_a_file_before_the_commit_is_written_again(table: TestTable) -> None:
    attempt = table.attempt()
    before = set(data_files(table))

    def meanwhile() -> None:
        insert_by_another(table, [row("x", at=1)])
        [written] = [path for path in data_files(table) if path.startswith("us/") and path not in before]
        table.storage.delete(written)  # as a clean of the whole partition does

    rows = [row("b", region="us", amount=2, at=2)]
    with pytest.raises(InstantAborted, match="another writer deleted a file of it"):
        attempt.run(offsets(0, 1), rows, then=meanwhile)
    attempt.run(offsets(0, 1), rows)
    assert places(table)["b"] == ("us", 2)


def test_what_another_writer_does_to_other_keys_does_not_abort(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a", amount=1, at=1)])

    def insert() -> None:
        insert_by_another(table, [row("b", amount=5, at=5)])

    attempt.run(offsets(1, 2), [row("a", region="us", amount=2, at=2)], insert)
    assert places(table) == {"a": ("us", 2), "b": ("eu", 5)}


def test_a_key_that_readers_show_in_two_partitions_is_refused(table: TestTable) -> None:
    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    insert_by_another(table, [row("a", region="us", at=1)], region="us")
    with pytest.raises(DuplicateKeys, match=f"'a' in eu/.* and us/{THEIRS}.*GLOBAL_"):
        table.attempt().run(offsets(1, 2), [row("b")])


def test_or_reported_and_the_newer_row_is_updated() -> None:
    table = state_table(is_global=True, report_duplicates=True)
    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    insert_by_another(table, [row("a", region="us", amount=2, at=1)], region="us")
    outcome = table.attempt().run(offsets(1, 2), [row("a", region="us", amount=3, at=2)])
    assert (outcome.moved, outcome.inserts) == (0, 0)


def test_a_micro_batch_that_was_started_is_repeated_by_its_plan(table: TestTable) -> None:
    def fail() -> None:
        raise Crash

    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    before = set(data_files(table))
    moving = [row("a", region="us", amount=2, at=2), row("b", region="us", amount=2, at=2)]
    with pytest.raises(Crash):
        table.attempt().run(offsets(1, 3), moving, fail)
    started = set(data_files(table)) - before
    insert_by_another(table, [row("c", amount=3, at=3)])
    resumed = table.attempt()
    assert resumed.start.verdict.value == "resumed"
    resumed.run(offsets(1, 3), moving)
    assert started < set(data_files(table))
    assert places(table) == {"a": ("us", 2), "b": ("us", 2), "c": ("eu", 3)}


def test_a_state_that_identifies_keys_with_their_partition_is_loaded_anew(table: TestTable) -> None:
    StateStore.open(table.storage)
    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    found = StateStore.find(table.storage)
    assert found is not None
    assert found.identity == "key"


@pytest.mark.parametrize("was_global", [True, False])
def test_a_table_keeps_what_it_was_made_with(was_global: bool) -> None:
    table = TestTable(definition(state=StateRules(is_global=was_global)))
    table.attempt()
    table.definition = definition(state=StateRules(is_global=not was_global))
    with pytest.raises(UnsupportedTable, match=f"made with table.index.global {str(was_global).lower()}"):
        table.attempt()


def test_new_keys_in_log_files_are_refused() -> None:
    with pytest.raises(UnsupportedTable, match="need new keys in base files: take inserts base"):
        state_table(is_global=True, inserts="log").attempt()


def test_a_rolled_back_move_is_made_again(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a", amount=1, at=1)])
    before = set(data_files(table))
    moving = [row("a", region="us", amount=2, at=2)]
    attempt.run(offsets(1, 2), moving)
    roll_back_completed(table, table.timeline().completed_commits[-1].request_time)
    table.storage.delete_many(sorted(set(data_files(table)) - before))
    again = table.attempt()
    assert again.start.verdict.value == "rewound"
    assert again.run(offsets(1, 2), moving).moved == 1
    assert places(table) == {"a": ("us", 2)}


def test_a_merge_of_small_file_groups_keeps_the_key_where_it_lives(table: TestTable) -> None:
    attempt = table.attempt()
    for at, region in enumerate(("eu", "us", "eu", "us", "eu"), start=1):
        attempt.run(offsets(at - 1, at), [row("a", region=region, amount=at, at=at)])
    assert len(groups_of_keys(table)["a"]) == 5
    cluster(table.storage)
    assert places(table) == {"a": ("eu", 5)}
    attempt.run(offsets(5, 6), [row("a", region="us", amount=6, at=6)])
    assert places(table) == {"a": ("us", 6)}


def test_a_repeated_task_reads_what_the_first_one_read(table: TestTable) -> None:
    """Another writer's newer row came between: it decides in the next instant, not in half of this one's tasks."""

    def fail() -> None:
        raise Crash

    table.attempt().run(offsets(0, 1), [row("a", amount=1, at=1)])
    (group,) = groups_of_keys(table)["a"]
    moving = [row("a", region="us", amount=2, at=2)]
    with pytest.raises(Crash):
        table.attempt().run(offsets(1, 2), moving, fail)
    insert_by_another(table, [row("a", amount=5, at=5)], file_id=group)
    resumed = table.attempt()
    with pytest.raises(InstantAborted, match=f"wrote to file group {group}"):
        resumed.run(offsets(1, 2), moving)
    assert resumed.run(offsets(1, 2), moving).older == 1
    assert places(table) == {"a": ("eu", 5)}


def test_files_that_the_last_run_of_the_tasks_did_not_write_stop_the_commit(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("a", amount=1, at=1)])

    def twice(assignment: Assignment) -> list[WriteStatus]:
        write([row("a", region="us", amount=2, at=2)], attempt.plan(assignment), table.storage)
        return write([row("a", region="us", amount=2, at=0)], attempt.plan(assignment), table.storage)

    with pytest.raises(ConflictingAttempt, match="an earlier run of micro-batch 1"):
        attempt.coordinator.run(offsets(1, 2), twice)
    assert places(table) == {"a": ("eu", 1)}


def test_of_a_key_that_was_deleted_twice_the_newer_deletion_counts(table: TestTable) -> None:
    """Also when the state is lost, and the file group with the older one has the newest file."""
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("a", amount=1, at=1), row("b", amount=1, at=1)])
    attempt.run(offsets(2, 3), [row("a", region="us", amount=2, at=2)])
    attempt.run(offsets(3, 4), [row("a", region="us", at=9, deleted=True)])
    attempt.run(offsets(4, 5), [row("b", amount=3, at=3)])
    forget_state(table.storage)
    late = table.attempt().run(offsets(5, 6), [row("a", region="asia", amount=4, at=8)])
    assert late.older == 1
    assert places(table) == {"b": ("eu", 3)}
