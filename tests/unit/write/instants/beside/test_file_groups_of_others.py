"""File groups of another writer in the buckets of an open instant: one bucket never has two."""

from __future__ import annotations

import pytest

from bucketingest.index.errors import DuplicateFileGroup
from bucketingest.storage import StorageUnavailable
from bucketingest.write.errors import InstantAborted
from support.storage.flaky_storage import FlakyStorage
from support.tables.instants.abandoned import Killed, die
from support.tables.other_writers import (
    KEYS,
    ROWS,
    foreign_commit,
    replace_file_groups,
)
from support.tables.table_runs import TestTable, offsets
from support.tables.write_plans import row


def bucket_of_k0() -> int:
    """The bucket of key k0, as a table of its own shows it."""
    other = TestTable()
    other.attempt().run(offsets(0, 1), [row("k0")])
    return int(other.visible_rows()[0]["_hoodie_file_name"][:8])


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


def test_files_of_failed_tasks_are_not_kept_next_to_a_file_group_that_appeared_since(table: TestTable) -> None:
    with pytest.raises(Killed):
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


def test_a_deleted_partition_stays_deleted_until_it_is_written_and_then_gets_new_file_groups(
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
