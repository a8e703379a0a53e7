"""Rows that are not where the bucket rules say are found at a start: rules came late, or a writer has old ones."""

from __future__ import annotations

import pytest

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import FIRST_INSTANT, HashingConfig
from bucketingest.index.errors import BucketLayoutMismatch
from support.tables.bucket_rules import ALL, DEFAULT, check, rows, with_rules
from support.tables.table_runs import TestTable, offsets

LATE = r"partition 'new1', whose 8 buckets are from .* delete that file"
NEW_HAS_EIGHT = HashingConfig(FIRST_INSTANT, BucketCounts(DEFAULT, (BucketRule("new.*", 8), ALL)))


def test_rules_that_come_after_a_partition_and_do_not_keep_it_are_refused(table: TestTable) -> None:
    """A process stands inside the request that creates them; the spec is reverted, and another start writes."""
    table.attempt().run(offsets(0, 20), rows("new1"))
    table.storage.create(NEW_HAS_EIGHT.path, NEW_HAS_EIGHT.encode())
    for _ in range(2):
        with pytest.raises(BucketLayoutMismatch, match=LATE):
            table.attempt()
    table.storage.delete(NEW_HAS_EIGHT.path)
    table.attempt().run(offsets(20, 40), rows("new1", start=20))
    check(table, 40)


def test_a_writer_that_cached_older_rules_is_noticed(table: TestTable) -> None:
    plain = table.definition
    table.attempt().run(offsets(0, 20), rows("eu"))
    with_rules(table, ("new.*", 8))
    table.attempt()
    content = table.storage.get(NEW_HAS_EIGHT.path)
    ruled, table.definition = table.definition, plain
    table.storage.delete(NEW_HAS_EIGHT.path)  # what that writer knows
    table.attempt(pipeline="another").run(offsets(0, 20), rows("new1"))
    table.storage.create(NEW_HAS_EIGHT.path, content)
    table.definition = ruled
    with pytest.raises(BucketLayoutMismatch, match="another writer used older rules"):
        table.attempt()


def test_partitions_that_the_rules_place_are_taken(table: TestTable) -> None:
    table.attempt().run(offsets(0, 20), rows("eu"))
    with_rules(table, ("new.*", 8))
    table.attempt().run(offsets(20, 40), rows("new1"))
    table.attempt().run(offsets(40, 80), [*rows("new1", start=20), *rows("new2")])
    with_rules(table, ("new.*", 2))
    table.attempt().run(offsets(80, 120), [*rows("new1", start=40), *rows("new3")])
    table.attempt()
    check(table, 120)
