"""Instants of a table whose keys are looked up in a state: each key stays in one file group, whoever else writes, and
whenever an attempt ends.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable
from datetime import timedelta

import pytest

from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.index.errors import DuplicateKeys
from bucketingest.index.state.store import STATE_DIRECTORY, forget_state
from bucketingest.storage import AlreadyExists, StorageUnavailable
from bucketingest.write.errors import InstantAborted
from support.storage.crashing_storage import Crash
from support.storage.flaky_storage import FlakyStorage
from support.tables.clusterings import request_clustering
from support.tables.other_writers import finish_clean, next_time, plan_clean, roll_back_completed
from support.tables.services.compactions import compact
from support.tables.state.tables import (
    BOTH,
    FIRST,
    SECOND,
    THEIRS,
    amounts,
    check,
    data_files,
    groups_of_keys,
    insert_by_another,
    state_table,
)
from support.tables.table_runs import TASKS, TestTable, offsets
from support.tables.write_plans import WITH_DELETES, row


@pytest.fixture
def table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> TestTable:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return state_table()


def _emptied(_: bytes) -> bytes:
    return b""


def _with_another_bit(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def test_new_keys_go_to_base_files_and_known_ones_to_logs(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    assert {path.rpartition(".")[2] for path in data_files(table)} == {"parquet"}
    attempt.run(offsets(6, 12), SECOND)

    check(table, BOTH)
    metadata = [CommitMetadata.decode(table.storage.get(path_of(i)), "") for i in table.timeline().completed_commits]
    stats = [stat for each in metadata for of_path in each.write_stats.values() for stat in of_path]
    assert sum(stat.num_inserts for stat in stats) == 9
    assert sum(stat.num_update_writes for stat in stats) == 3
    assert {stat.prev_commit for stat in stats if stat.num_inserts} == {"null"}


def test_an_outcome_says_how_many_keys_were_new_and_how_large_the_state_is(table: TestTable) -> None:
    attempt = table.attempt()
    first = attempt.run(offsets(0, 6), FIRST)
    assert (first.inserts, first.upserts) == (6, 6)
    groups = len(data_files(table))
    second = attempt.run(offsets(6, 12), SECOND)
    assert (second.inserts, second.upserts) == (3, 6)
    assert second.state is not None
    assert (second.state.keys, second.state.partitions, second.state.file_groups) == (6, 2, groups)
    assert second.state.size_bytes > 16 * second.state.keys
    gone = [row("k0", deleted=True, at=3), row("never", deleted=True, at=3)]
    last = table.attempt().run(offsets(12, 14), gone, schema=WITH_DELETES)
    assert (last.inserts, last.deletes, last.dropped) == (0, 1, 1)
    assert last.state is not None
    assert (last.state.keys, last.state.loaded_keys) == (9, 3), "what the state of the attempt before has is not read"


@pytest.mark.parametrize("lose", ["nothing", "all", "runs", "manifests", "a bit"])
def test_a_restart_finds_the_keys_whatever_is_left_of_the_state(
    table: TestTable, lose: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    attempt = table.attempt()
    attempt.run(offsets(6, 7), [row("k0", amount=0, at=1)])
    objects = [info.path for info in table.storage.list(STATE_DIRECTORY)]
    if lose == "all":
        forget_state(table.storage)
    elif lose == "a bit":
        path = next(path for path in objects if "/run/" in path)
        content = bytearray(table.storage.get(path))
        content[70] ^= 1
        table.storage.put(path, bytes(content))
    else:
        table.storage.delete_many([path for path in objects if f"/{lose.removesuffix('s')}/" in path])
    another_machine = tmp_path / "another-machine"
    another_machine.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(another_machine))

    table.attempt().run(offsets(7, 13), SECOND)
    check(table, BOTH)


def test_keys_that_another_writer_inserts_are_updated(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    insert_by_another(table, [row("new", amount=1, at=1)])
    attempt.run(offsets(6, 7), [row("new", amount=2, at=2)])

    check(table, {f"k{number}": number for number in range(6)} | {"new": 2})
    assert groups_of_keys(table)["new"] == {THEIRS}


def test_keys_that_another_writer_inserts_before_the_commit_abort_it(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(InstantAborted, match=f"into {THEIRS} of partition 'eu' meanwhile"):
        attempt.run(offsets(0, 1), [row("new", amount=2, at=2)], lambda: insert_by_another(table, [row("new", at=1)]))
    attempt.run(offsets(0, 1), [row("new", amount=2, at=2)])
    check(table, {"new": 2})


def test_keys_that_another_writer_put_into_two_file_groups_are_refused(table: TestTable) -> None:
    table.attempt().run(offsets(0, 6), FIRST)
    insert_by_another(table, [row("k0", at=1)])
    with pytest.raises(DuplicateKeys, match="'k0' in"):
        table.attempt().run(offsets(6, 12), SECOND)


def test_or_only_reported(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = state_table(report_duplicates=True)
    table.attempt().run(offsets(0, 6), FIRST)
    insert_by_another(table, [row("k0", at=1)])
    table.attempt().run(offsets(6, 7), [row("k0", amount=5, at=2)])
    written = [path for path in data_files(table) if ".log." in path]
    assert [THEIRS in path for path in written] == [True]


def test_a_key_that_a_compaction_removed_goes_to_a_base_file_again(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    before = groups_of_keys(table)["k0"]
    gone = [row("k0", at=2, deleted=True), row("never", at=2, deleted=True)]
    outcome = attempt.run(offsets(6, 8), gone, schema=WITH_DELETES)
    assert (outcome.deletes, outcome.upserts) == (1, 0)
    assert "never" not in groups_of_keys(table)
    assert compact(table.storage)
    attempt.run(offsets(8, 9), [row("k0", amount=9, at=3)])

    check(table, {f"k{number}": number for number in range(1, 6)} | {"k0": 9})
    assert groups_of_keys(table)["k0"] != before


def test_each_micro_batch_is_an_instant_whatever_the_commit_interval(table: TestTable) -> None:
    attempt = table.attempt(commit_interval=timedelta(hours=1))
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 12), SECOND)
    check(table, BOTH)
    assert len(table.timeline().completed_commits) == 2


def test_a_base_file_that_another_writer_deleted_does_not_come_back(table: TestTable) -> None:
    """Its rows came again in a new file group; a paused task of the instant that counts as complete puts it back."""
    table.attempt().run(offsets(0, 6), FIRST)
    (first,) = (each.request_time for each in table.timeline().completed_commits)
    deleted, *_ = data_files(table)
    content = table.storage.get(deleted)
    roll_back_completed(table, first)
    table.storage.delete(deleted)

    again = table.attempt()
    assert again.start.verdict.value == "rewound"
    again.run(offsets(0, 6), FIRST)
    with pytest.raises(AlreadyExists):
        table.storage.create(deleted, content)
    table.attempt().run(offsets(6, 12), SECOND)
    check(table, BOTH)


def test_no_file_that_another_writer_deleted_comes_back(table: TestTable) -> None:
    """An update, too, would show its key in a file group of which all else is gone; the key has another one by now."""
    table.attempt().run(offsets(0, 6), FIRST)
    table.attempt().run(offsets(6, 12), SECOND)
    clean = plan_clean(table, "eu", "us")
    lost = {path: table.storage.get(path) for path in data_files(table)}
    assert {path.rpartition(".")[2] == "parquet" for path in lost} == {True, False}
    table.storage.delete_many([info.path for region in ("eu", "us") for info in table.storage.list(region)])
    finish_clean(table, clean)

    again = table.attempt()
    assert again.start.verdict.value == "rewound"
    again.run(offsets(0, 6), FIRST)
    again.run(offsets(6, 12), SECOND)
    for path, content in lost.items():
        with pytest.raises(AlreadyExists):  # what a paused task of these instants does now
            table.storage.create(path, content)
    table.attempt().run(offsets(12, 13), [row("k9", amount=9, at=3)])
    check(table, {**BOTH, "k9": 9})


def test_a_file_group_that_is_being_clustered_takes_no_rows(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    (group,) = groups_of_keys(table)["k0"]
    time = next_time(table)
    request_clustering(table.storage, time, [("eu", group)])
    with pytest.raises(InstantAborted, match=f"{group} of partition 'eu' is in the pending clustering {time}"):
        attempt.run(offsets(6, 7), [row("k0", amount=9, at=2)])
    attempt.run(offsets(6, 7), [row("other", region="us", amount=6)])
    assert amounts(table)["other"] == 6


def test_a_started_micro_batch_is_repeated_by_its_plan(table: TestTable) -> None:
    """The state that the next attempt finds has more keys: without the plan it would place rows elsewhere."""

    def fail() -> None:
        raise Crash

    attempt = table.attempt()
    with pytest.raises(Crash):
        attempt.run(offsets(0, 6), FIRST, fail)
    files = data_files(table)
    resumed = table.attempt()
    assert resumed.start.verdict.value == "resumed"
    resumed.run(offsets(0, 6), FIRST)
    assert sorted(data_files(table)) == sorted(files)
    check(table, {f"k{number}": number for number in range(6)})


@pytest.mark.parametrize("damage", [_emptied, _with_another_bit], ids=["emptied", "another bit"])
def test_without_its_plan_it_is_aborted_and_written_in_a_new_instant(
    table: TestTable, damage: Callable[[bytes], bytes]
) -> None:
    def fail() -> None:
        raise Crash

    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 6), FIRST, fail)
    files = data_files(table)
    (plan,) = [info.path for info in table.storage.list(".hoodie/.bucketingest") if "/assign/" in info.path]
    table.storage.put(plan, damage(table.storage.get(plan)))
    table.attempt().run(offsets(0, 6), FIRST)
    assert not set(data_files(table)) & set(files)
    check(table, {f"k{number}": number for number in range(6)})


def test_with_another_number_of_tasks_it_is_aborted_and_written_in_a_new_instant(table: TestTable) -> None:
    """They read the source in other pieces, so other rows may win."""

    def fail() -> None:
        raise Crash

    with pytest.raises(Crash):
        table.attempt().run(offsets(0, 6), FIRST, fail)
    files = data_files(table)
    table.attempt(tasks=TASKS + 1).run(offsets(0, 6), FIRST)
    assert not set(data_files(table)) & set(files)
    check(table, {f"k{number}": number for number in range(6)})
    assert table.leftovers() == []


def test_what_another_name_decided_to_commit_is_completed_before_new_keys_are_placed(table: TestTable) -> None:
    """Its keys are in no completed instant yet: they would become new keys of this pipeline, too."""

    def completes(path: str) -> bool:
        return path.endswith(".deltacommit") and "/timeline/" in path

    with pytest.raises(StorageUnavailable):
        table.attempt(FlakyStorage(table.storage, completes)).run(offsets(0, 6), FIRST)
    with pytest.raises(StorageUnavailable):
        table.attempt(FlakyStorage(table.storage, completes), pipeline="shop/orders-2")
    table.attempt(pipeline="shop/orders-2").run(offsets(0, 12), [*FIRST, *SECOND])
    check(table, BOTH)
