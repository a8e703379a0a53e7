"""New keys in log files: small file groups are filled, a commit takes several micro-batches, and each key stays in one
file group.
"""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import pytest

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.hudi.table.table import InsertMode
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import path_of
from bucketingest.index.state import loading
from bucketingest.index.state.key_columns import keys_of_rows
from bucketingest.index.state.store import forget_state
from bucketingest.services.handover import hand_over
from bucketingest.storage import AlreadyExists, Storage
from bucketingest.write.errors import InstantAborted
from support.storage.crashing_storage import Crash
from support.tables.other_writers import roll_back_completed
from support.tables.services.compactions import compact, execute, finish, holder, started
from support.tables.state.tables import (
    BOTH,
    FIRST,
    SECOND,
    THEIRS,
    check,
    data_files,
    groups_of_keys,
    insert_by_another,
    state_table,
)
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import WITH_DELETES, row

HOUR = timedelta(hours=1)


@pytest.fixture
def table(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> TestTable:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return state_table(inserts="log")


@pytest.fixture
def read() -> Iterator[list[str]]:
    """Paths of the files whose keys are read."""
    found: list[str] = []

    def keys(storage: Storage, files: FileSlice) -> object:
        found.extend(each.path for each in (files.base_file, *files.log_files) if each is not None)
        return keys_of_rows(storage, files)

    with patch.object(loading, "keys_of_rows", keys):
        yield found


def die() -> None:
    raise Crash


def of_mode(table: TestTable, inserts: InsertMode) -> TestTable:
    """The same table with another spec."""
    state = table.definition.state
    assert state is not None
    table.definition = replace(table.definition, state=replace(state, inserts=inserts))
    return table


def test_new_keys_go_to_log_files_and_fill_small_file_groups(table: TestTable) -> None:
    attempt = table.attempt()
    first = attempt.run(offsets(0, 6), FIRST)
    before = set().union(*groups_of_keys(table).values())
    second = attempt.run(offsets(6, 12), SECOND)
    assert (first.inserts, second.inserts, second.upserts) == (6, 3, 6)

    check(table, BOTH)
    assert {".log." in path for path in data_files(table)} == {True}
    assert set().union(*groups_of_keys(table).values()) == before, "they have room"
    metadata = [CommitMetadata.decode(table.storage.get(path_of(i)), "") for i in table.timeline().completed_commits]
    stats = [stat for each in metadata for of_path in each.write_stats.values() for stat in of_path]
    assert sum(stat.num_inserts for stat in stats) == 9
    assert sum(stat.num_update_writes for stat in stats) == 3


def test_a_key_that_is_new_in_two_micro_batches_of_an_instant_has_one_file_group(table: TestTable) -> None:
    attempt = table.attempt(commit_interval=HOUR)
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 12), SECOND)
    assert table.timeline().completed_commits == ()
    attempt.coordinator.commit_open()
    assert len(table.timeline().completed_commits) == 1
    check(table, BOTH)


def test_also_if_another_attempt_wrote_the_first_one(table: TestTable) -> None:
    """It knows other file groups by then: the recorded plan counts."""
    attempt = table.attempt(commit_interval=HOUR)
    attempt.run(offsets(0, 6), FIRST)
    with pytest.raises(Crash):
        attempt.run(offsets(6, 12), SECOND, die)
    resumed = table.attempt(commit_interval=HOUR)
    resumed.run(offsets(6, 12), SECOND)
    resumed.run(offsets(12, 18), FIRST)
    resumed.coordinator.commit_open()
    assert len(table.timeline().completed_commits) == 1
    check(table, BOTH)


def test_a_delete_of_an_unknown_key_is_written(table: TestTable) -> None:
    """A row of that key may be in an earlier micro-batch of the instant, or come late."""
    attempt = table.attempt(commit_interval=HOUR)
    attempt.run(offsets(0, 1), [row("k0", at=1)])
    outcome = attempt.run(
        offsets(1, 3), [row("k0", at=2, deleted=True), row("k1", at=2, deleted=True)], schema=WITH_DELETES
    )
    assert (outcome.deletes, outcome.dropped) == (2, 0)
    attempt.coordinator.commit_open()
    table.attempt().run(offsets(3, 5), [row("k1", at=1), row("k2", at=1)])
    assert len(groups_of_keys(table)["k1"]) == 1
    assert compact(table.storage)
    check(table, {"k2": 0})


def test_a_late_row_goes_to_the_file_group_with_its_delete(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("k0", at=1)])
    attempt.run(offsets(1, 2), [row("k0", at=2)])  # after it the file group is known
    before = set(data_files(table))
    attempt.run(offsets(2, 3), [row("k1", at=2, deleted=True)], schema=WITH_DELETES)
    (deletes,) = set(data_files(table)) - before
    started(table.storage)  # so no file group takes new keys
    before.add(deletes)
    attempt.run(offsets(3, 4), [row("k1", at=1)])
    (late,) = set(data_files(table)) - before
    assert late.rpartition("/")[2][1:37] == deletes.rpartition("/")[2][1:37]


def test_keys_that_another_writer_inserts_before_the_commit_abort_it(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(InstantAborted, match=f"into {THEIRS} of partition 'eu' meanwhile"):
        attempt.run(offsets(0, 1), [row("new", amount=2, at=2)], lambda: insert_by_another(table, [row("new", at=1)]))
    attempt.run(offsets(0, 1), [row("new", amount=2, at=2)])
    check(table, {"new": 2})


def test_also_if_they_are_only_deleted_here(table: TestTable) -> None:
    attempt = table.attempt()
    with pytest.raises(InstantAborted, match=f"into {THEIRS} of partition 'eu' meanwhile"):
        attempt.run(
            offsets(0, 1),
            [row("new", at=2, deleted=True)],
            lambda: insert_by_another(table, [row("new", at=1)]),
            schema=WITH_DELETES,
        )
    attempt.run(offsets(0, 1), [row("new", at=2, deleted=True)], schema=WITH_DELETES)
    assert compact(table.storage)
    check(table, {})


def test_a_row_of_another_writer_counts_and_not_an_older_delete(table: TestTable) -> None:
    """Hudi's writer does not see the delete. Both file groups have the key, only one has a row."""
    attempt = table.attempt()
    attempt.run(offsets(0, 2), [row("new", at=1, deleted=True), row("k0", at=1)], schema=WITH_DELETES)
    insert_by_another(table, [row("new", at=2)])
    attempt.run(offsets(2, 3), [row("new", amount=7, at=3)])
    assert groups_of_keys(table)["new"] == {THEIRS}
    forget_state(table.storage)
    table.attempt().run(offsets(3, 4), [row("new", amount=8, at=4)])
    assert groups_of_keys(table)["new"] == {THEIRS}
    check(table, {"k0": 0, "new": 8})


def test_a_file_group_that_is_being_compacted_takes_no_new_keys(table: TestTable) -> None:
    table.attempt().run(offsets(0, 1), [row("k0", at=1)])
    (group,) = groups_of_keys(table)["k0"]
    work = started(table.storage)
    attempt = table.attempt()
    attempt.run(offsets(1, 3), [row("k1", at=1), row("k0", amount=3, at=2)])
    assert groups_of_keys(table)["k1"] != {group}
    execute(table.storage, work)
    assert finish(table.storage)
    attempt.run(offsets(3, 4), [row("k2", at=1)])
    check(table, {"k0": 3, "k1": 0, "k2": 0})
    assert groups_of_keys(table)["k2"] in ({group}, groups_of_keys(table)["k1"])


def test_only_new_log_files_are_read(table: TestTable, read: list[str]) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 12), SECOND)
    attempt.run(offsets(12, 13), [row("one", at=3)])
    read.clear()
    known = set(data_files(table))
    attempt.run(offsets(13, 14), [row("other", at=1)])
    attempt.run(offsets(14, 15), [row("k0", amount=2, at=4)])
    assert len(read) == len(set(read))
    assert set(read) <= set(data_files(table))
    assert len(set(read) & known) == 1, "the one of the commit before"


def test_log_files_of_known_keys_are_not_read(table: TestTable, read: list[str]) -> None:
    attempt = table.attempt(commit_interval=HOUR)
    attempt.run(offsets(0, 1), [row("k0", at=1)])
    attempt.coordinator.commit_open()
    attempt.run(offsets(1, 2), [row("k0", amount=1, at=2)])
    attempt.run(offsets(2, 3), [row("k0", amount=2, at=3), row("k1", at=3)])
    attempt.run(offsets(3, 4), [row("k0", amount=3, at=4)])
    attempt.coordinator.commit_open()
    read.clear()
    attempt.run(offsets(4, 5), [row("k1", amount=4, at=5)])
    (found,) = read
    assert ".log.2" in found, "only the one with k1"
    attempt.coordinator.commit_open()
    check(table, {"k0": 3, "k1": 4})


def test_also_after_a_restart(table: TestTable, read: list[str]) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 12), SECOND)  # its plan is made of the state with the first commit, and stores that
    known = set(data_files(table))
    attempt.run(offsets(12, 13), [row("other", at=1)])  # stores the state with the second one
    newest = set(data_files(table)) - known
    read.clear()
    table.attempt().run(offsets(13, 14), [row("k0", amount=2, at=4)])
    assert set(read) == newest
    check(table, BOTH | {"other": 0, "k0": 2})


def test_a_table_may_change_between_the_modes(table: TestTable) -> None:
    attempt = table.attempt()
    attempt.run(offsets(0, 6), FIRST)
    attempt.run(offsets(6, 12), SECOND)  # its new keys are in log files of file groups that the stored state knows
    again = [*SECOND, row("k9", amount=9, at=5)]
    with pytest.raises(UnsupportedTable, match="run `bucketingest handover` first"):
        of_mode(table, "base").attempt().run(offsets(12, 19), again)
    hand_over(table.storage, holder(table.storage), utc_now)
    of_mode(table, "base").attempt().run(offsets(12, 19), again)
    assert any(path.endswith(".parquet") for path in data_files(table))
    check(table, BOTH | {"k9": 9})
    of_mode(table, "log").attempt().run(offsets(19, 21), [row("k0", amount=20, at=5), row("k9", amount=10, at=6)])
    check(table, BOTH | {"k0": 20, "k9": 10})


def test_a_table_with_the_delete_of_a_key_that_it_never_had_may_change_to_base(table: TestTable) -> None:
    """The key is new, and only in a log file, but no reader sees a row of it: a handover leaves it there."""
    attempt = table.attempt()
    attempt.run(offsets(0, 1), [row("k0", at=1)])
    assert hand_over(table.storage, holder(table.storage), utc_now)
    attempt.run(offsets(1, 3), [row("k0", amount=1, at=2), row("never", at=2, deleted=True)], schema=WITH_DELETES)
    assert hand_over(table.storage, holder(table.storage), utc_now) == []
    of_mode(table, "base").attempt().run(offsets(3, 5), [row("k0", amount=2, at=3), row("never", amount=1, at=3)])
    check(table, {"k0": 2, "never": 1})


def test_a_log_file_that_another_writer_deleted_does_not_come_back(table: TestTable) -> None:
    """Its rows came again in other file groups; a paused task of the instant that counts as complete puts it back."""
    table.attempt().run(offsets(0, 6), FIRST)
    (first,) = (each.request_time for each in table.timeline().completed_commits)
    contents = {path: table.storage.get(path) for path in data_files(table)}
    roll_back_completed(table, first)
    table.storage.delete_many(list(contents))

    again = table.attempt()
    assert again.start.verdict.value == "rewound"
    again.run(offsets(0, 6), FIRST)
    for path, content in contents.items():
        with pytest.raises(AlreadyExists):
            table.storage.create(path, content)
    table.attempt().run(offsets(6, 12), SECOND)
    check(table, BOTH)
