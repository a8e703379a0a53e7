"""File groups that other writers replaced: removed from the index and never written again, or rows would be lost."""

from __future__ import annotations

import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts
from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.index.bucket_index import BucketIndex

OLD = "00000002-1111-4111-8111-111111111111-0"
NEW = "00000002-2222-4222-8222-222222222222-0"


def index_of(*file_groups: tuple[str, str]) -> BucketIndex:
    return BucketIndex.bootstrap(((partition, file_id, "") for partition, file_id in file_groups), BucketCounts(4))


def test_a_replaced_file_group_and_its_replacement_are_not_duplicates() -> None:
    before = index_of(("eu", OLD))
    after = before.without({("eu", OLD)}).with_commit([("eu", NEW)])
    assert after.file_id("eu", 2) == NEW
    assert after.avoiding({("eu", OLD)}).file_id("eu", 2) == NEW


def test_a_replaced_file_group_of_another_partition_stays() -> None:
    index = index_of(("eu", OLD), ("us", OLD))
    assert index.without({("eu", OLD)}).file_id("us", 2) == OLD


@pytest.mark.parametrize("used_up", [1, 2])
def test_rows_of_a_bucket_whose_file_groups_were_all_replaced_make_a_new_one(used_up: int) -> None:
    replaced = {("eu", deterministic_file_id(2, number)) for number in range(used_up)}
    index = BucketIndex.bootstrap([], BucketCounts(4)).avoiding(replaced)
    assert index.file_id("eu", 2) == deterministic_file_id(2, used_up)
    assert index.file_id("us", 2) == deterministic_file_id(2), "the other partition's was not replaced"
    assert index.with_commit([("eu", index.file_id("eu", 2))]).file_id("eu", 2) == index.file_id("eu", 2)


def test_tasks_that_were_given_the_replaced_file_group_do_not_count_as_the_same_work() -> None:
    before = BucketIndex.bootstrap([], BucketCounts(4))
    assert before.avoiding({("eu", deterministic_file_id(2))}).file_ids.fingerprint != before.file_ids.fingerprint


def test_a_replaced_file_group_that_names_no_bucket_is_ignored() -> None:
    index = BucketIndex.bootstrap([], BucketCounts(4))
    assert index.avoiding({("eu", "not-of-a-bucket-0"), ("eu", "00000009-1111-4111-8111-111111111111-0")}) is index
