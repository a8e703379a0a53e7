"""The bucket count of a partition: the first rule that is found, else the default."""

from __future__ import annotations

import pickle

import pytest

from bucketingest.hudi.bucket_rules import counts as counts_module
from bucketingest.hudi.bucket_rules.counts import BucketCounts, BucketRule
from bucketingest.hudi.errors import InvalidTable
from bucketingest.spec.partition_pattern import literal_pattern

PATHS = ["us", "eu", "us-east", "jp"]


def test_without_rules_every_partition_has_the_default() -> None:
    counts = BucketCounts(7)
    assert counts.of("us") == 7
    assert counts.of_all(PATHS).tolist() == [7, 7, 7, 7]
    assert counts.of_all([]).tolist() == []


@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_first_rule_that_is_found_wins_also_among_rules_for_one_path(position: int) -> None:
    rules = [BucketRule("^us", 2), BucketRule("p", 3)]
    rules.insert(position, BucketRule(literal_pattern("us"), 5))
    us = 5 if position == 0 else 2
    assert BucketCounts(1, tuple(rules)).of_all(PATHS).tolist() == [us, 1, 2, 3]


def test_one_of_two_rules_for_the_same_path_wins() -> None:
    rules = (BucketRule(literal_pattern("us"), 2), BucketRule(literal_pattern("us"), 3))
    assert BucketCounts(1, rules).of("us") == 2


def test_counts_stay_the_same_when_more_partitions_were_asked_for_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts_module, "FOUND_MAX", 2)
    counts = BucketCounts(1, (BucketRule("^us", 2),))
    assert [counts.of(path) for path in (*PATHS, *PATHS)] == [2, 1, 2, 1] * 2
    assert counts.of_all(PATHS).tolist() == [2, 1, 2, 1]


def test_tasks_get_the_rules_only() -> None:
    counts = BucketCounts(1, (BucketRule("^us", 2),))
    fresh = len(pickle.dumps(counts))
    counts.of_all(PATHS)
    assert len(pickle.dumps(counts)) == fresh
    assert pickle.loads(pickle.dumps(counts)) == counts


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (BucketRule(r"\bus", 2), r"bucket rule .*bus': the pattern has \\b"),
        (BucketRule("(a{1000}){1000}", 2), "Invalid regular expression"),
        (BucketRule("us", 0), "has 0 buckets"),
        (BucketRule("us", 100_000_001), "has 100000001 buckets"),
    ],
)
def test_a_rule_that_cannot_be_applied_is_refused_by_its_name(rule: BucketRule, why: str) -> None:
    with pytest.raises(InvalidTable, match=why):
        BucketCounts(1, (BucketRule("eu", 2), rule)).check()
