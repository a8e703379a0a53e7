from __future__ import annotations

import pickle

import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.index.bucket_index import BucketIndex
from bucketingest.index.errors import BucketLayoutMismatch, BucketOutOfRange, DuplicateFileGroup

RANDOM_3 = "00000003-a21b-4b6d-a4ef-90dafdb1c65e-0"
OTHER_3 = "00000003-ffff-4b6d-a4ef-90dafdb1c65e-0"
OURS_1 = deterministic_file_id(1)


def base(file_id: str, instant: str = "20261121081713004") -> str:
    return f"{file_id}_0-113-301_{instant}.parquet"


def index_of(*places: tuple[str, str], buckets: int = 4) -> BucketIndex:
    return BucketIndex.bootstrap(
        ((partition, file_id, base(file_id)) for partition, file_id in places), BucketCounts(buckets)
    )


def test_a_bucket_of_another_writer_keeps_its_file_id() -> None:
    assert index_of(("us", RANDOM_3)).file_id("us", 3) == RANDOM_3


def test_an_unknown_bucket_gets_the_deterministic_file_id() -> None:
    index = index_of(("us", RANDOM_3))
    assert index.file_id("us", 1) == "00000001-0000-0000-0000-000000000000-0"
    assert index.file_id("eu", 3) == "00000003-0000-0000-0000-000000000000-0"
    assert not index.exists("eu", 3)
    assert index.exists("us", 3)


def test_several_files_of_one_file_group_are_one_entry() -> None:
    files = [("us", RANDOM_3, base(RANDOM_3)), ("us", RANDOM_3, f".{RANDOM_3}_20261121081714512.log.1_0-0-0")]
    assert dict(BucketIndex.bootstrap(files, BucketCounts(4)).known) == {("us", 3): RANDOM_3}


def test_two_file_groups_of_one_bucket_are_refused_naming_both() -> None:
    with pytest.raises(DuplicateFileGroup) as caught:
        index_of(("us", RANDOM_3), ("us", OTHER_3))
    message = str(caught.value)
    assert RANDOM_3 in message
    assert OTHER_3 in message
    assert "bucket 3 of partition 'us'" in message
    assert "stop every writer" in message


def test_a_duplicate_crosses_a_process_boundary_with_its_fields() -> None:
    error = pickle.loads(pickle.dumps(DuplicateFileGroup("us", 3, (RANDOM_3, OTHER_3))))
    assert (error.partition_path, error.bucket, error.file_ids) == ("us", 3, (RANDOM_3, OTHER_3))


def test_the_same_bucket_in_two_partitions_is_not_a_duplicate() -> None:
    index = index_of(("us", RANDOM_3), ("eu", OTHER_3))
    assert (index.file_id("us", 3), index.file_id("eu", 3)) == (RANDOM_3, OTHER_3)


def test_a_bucket_beyond_the_count_says_that_the_table_has_another_count() -> None:
    with pytest.raises(
        BucketOutOfRange, match=r"belongs to bucket 3, but spec.table.index.buckets is 3 .* another bucket count"
    ):
        index_of(("us", RANDOM_3), buckets=3)


def test_asking_for_a_bucket_beyond_the_count_is_refused() -> None:
    index = index_of()
    for answer in (index.file_id, index.file_ids.file_id):
        with pytest.raises(BucketOutOfRange):
            answer("us", 4)


def test_a_file_group_without_a_bucket_is_refused() -> None:
    with pytest.raises(BucketLayoutMismatch, match=r"'eu' holds file group 'f1c9b1e8.* names no bucket"):
        index_of(("eu", "f1c9b1e8-8f4e-4d2b-9a55-0d7b0a2f7c11-0"))


def test_foreign_are_only_the_file_ids_that_are_not_deterministic() -> None:
    index = index_of(("us", RANDOM_3), ("us", OURS_1))
    assert dict(index.foreign) == {("us", 3): RANDOM_3}


def test_tasks_get_a_small_part_that_answers_for_every_bucket() -> None:
    index = index_of(("us", RANDOM_3), ("us", OURS_1), *((f"dt={day}", OURS_1) for day in range(1000)))
    at_task = pickle.loads(pickle.dumps(index.file_ids))
    assert len(pickle.dumps(index.file_ids)) < 1000
    assert [at_task.file_id("us", bucket) for bucket in range(4)] == [
        index.file_id("us", bucket) for bucket in range(4)
    ]


def test_a_completed_instant_adds_its_file_groups_and_leaves_the_old_index_alone() -> None:
    before = index_of(("us", OURS_1))
    after = before.with_commit([("us", RANDOM_3), ("us", OURS_1)])
    assert after.file_id("us", 3) == RANDOM_3
    assert not before.exists("us", 3)


def test_a_completed_instant_that_gives_our_bucket_a_second_file_group_is_refused() -> None:
    with pytest.raises(DuplicateFileGroup, match=OURS_1):
        index_of(("us", OURS_1)).with_commit([("us", "00000001-a21b-4b6d-a4ef-90dafdb1c65e-0")])


def test_a_commit_into_known_file_groups_costs_no_copy_of_the_index() -> None:
    index = index_of(("us", RANDOM_3), ("us", OURS_1))
    assert index.with_commit([("us", RANDOM_3)]) is index
    assert index.without([("us", OTHER_3)]) is index


def test_a_commit_copies_only_the_partitions_it_adds_to() -> None:
    before = index_of(("us", RANDOM_3), ("eu", OURS_1))
    after = before.with_commit([("us", OURS_1)])
    assert after.groups["eu"] is before.groups["eu"]
    assert after.file_ids is before.file_ids


def test_foreign_file_ids_change_the_fingerprint_and_our_own_do_not() -> None:
    before = index_of(("us", OURS_1))
    assert before.with_commit([("eu", OURS_1)]).file_ids.fingerprint == before.file_ids.fingerprint
    assert before.with_commit([("eu", RANDOM_3)]).file_ids.fingerprint != before.file_ids.fingerprint


def test_a_replaced_file_group_of_another_writer_is_no_longer_passed_to_tasks() -> None:
    index = index_of(("us", RANDOM_3)).without([("us", RANDOM_3)])
    assert dict(index.foreign) == {}
    assert not index.exists("us", 3)
