"""Tables whose bucket rules change: what a test edits, and where the rows must be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.bucket_rules.hashing_config import (
    load_rules,
)
from bucketingest.hudi.naming import bucket_of_file_id
from bucketingest.index.bucket_hash import bucket_of_hash
from bucketingest.index.layout_check import hashes_of_record_keys
from support.tables.table_runs import TestTable
from support.tables.write_plans import row

DEFAULT = 4
ALL = BucketRule(".*", DEFAULT)
NEVER = 10**9


def rows(region: str, count: int = 20, start: int = 0) -> list[dict[str, Any]]:
    return [row(f"{region}-{number}", region=region, amount=number) for number in range(start, start + count)]


def with_rules(table: TestTable, *rules: tuple[str, int]) -> None:
    """The user edits the spec."""
    wanted = tuple(BucketRule(pattern, buckets) for pattern, buckets in rules)
    table.definition = replace(table.definition, bucket_rules=wanted)


def counts_of(table: TestTable) -> BucketCounts:
    return load_rules(table.storage, DEFAULT).counts


def places(table: TestTable) -> dict[str, set[int]]:
    """Partition -> buckets of its rows."""
    found: dict[str, set[int]] = {}
    for each in table.visible_rows():
        found.setdefault(each["region"], set()).add(bucket_of_file_id(each["_hoodie_file_name"]))
    return found


def check(table: TestTable, keys: int) -> None:
    """Every key is there once, in the bucket of the rules in force, and nothing is left over."""
    visible, counts = table.visible_rows(), counts_of(table)
    rule = table.attempt().opened.rules.record_key
    for each in visible:
        hashed = hashes_of_record_keys([each["_hoodie_record_key"]], rule)
        expected = int(bucket_of_hash(hashed, counts.of(each["region"]))[0])
        assert bucket_of_file_id(each["_hoodie_file_name"]) == expected, each
    assert len({each["_hoodie_record_key"] for each in visible}) == len(visible) == keys
    assert table.leftovers() == []
