"""File groups that other writers replaced: forgotten, or refused where rows would vanish in them."""

from __future__ import annotations

import pytest

from bucketingest.hudi.naming import deterministic_file_id
from bucketingest.index.bucket import BucketIndex
from bucketingest.index.errors import ReplacedFileGroup

OLD = "00000002-1111-4111-8111-111111111111-0"
NEW = "00000002-2222-4222-8222-222222222222-0"


def index_of(*file_groups: tuple[str, str]) -> BucketIndex:
    return BucketIndex.bootstrap(((partition, file_id, "") for partition, file_id in file_groups), 4)


def test_a_replaced_file_group_and_the_one_that_took_its_place_are_no_duplicate() -> None:
    before = index_of(("eu", OLD))
    after = before.without({("eu", OLD)}).with_commit([("eu", NEW)])
    assert after.file_id("eu", 2) == NEW
    after.check_replaced([("eu", OLD)])


def test_a_replaced_file_group_of_another_partition_stays() -> None:
    index = index_of(("eu", OLD), ("us", OLD))
    assert index.without({("eu", OLD)}).file_id("us", 2) == OLD


def test_a_bucket_whose_deterministic_file_group_was_replaced_is_refused() -> None:
    ours = deterministic_file_id(2)
    index = index_of(("eu", ours)).without({("eu", ours)})
    with pytest.raises(
        ReplacedFileGroup, match=r"00000002-0000.* in partition 'eu' was replaced .* would be invisible"
    ):
        index.check_replaced([("eu", ours)])
