"""How many file groups are open, which ones, and what sizes they get in the long run."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.hudi.table.table import InsertMode
from bucketingest.index.assignment.open_groups import (
    GROUPS_MAX,
    HASHES,
    InsertRules,
    OpenGroup,
    PartitionProfile,
    WriteProfile,
    open_groups,
    ranges,
    unknown_partition_groups,
)

TARGET = 1000


def new(path: str, number: int) -> str:
    return f"new-{path}-{number}"


def open_ids(
    mode: InsertMode, insert_bytes: int, groups: Mapping[str, int] | None = None, *, tasks: int = 4
) -> list[str]:
    """Of a table with one partition."""
    profile = WriteProfile({"p": PartitionProfile(1, groups or {})}, insert_bytes)
    return [each.file_id for each in open_groups(profile, "p", InsertRules(mode, TARGET, tasks), new)]


def test_mode_base_opens_new_groups_only_and_none_for_less_than_a_quarter_of_the_target() -> None:
    groups = {"half": 500}
    assert open_ids("base", 0, groups) == ["new-p-0"]
    assert open_ids("base", 250, groups) == ["new-p-0"]
    assert open_ids("base", 251, groups) == ["new-p-0", "new-p-1"]
    assert len(open_ids("base", 3600, groups)) == 4
    assert len(open_ids("base", 4000, groups)) == 5


def test_mode_log_fills_the_fullest_groups_that_are_not_full_before_it_opens_new_ones() -> None:
    groups = {"full": 900, "large": 899, "small": 10, "half": 500}
    assert open_ids("log", 60, groups) == ["large"]
    assert open_ids("log", 120, groups) == ["large", "half"]
    assert open_ids("log", 4 * 62, groups) == ["large", "half", "small", "new-p-0"]
    assert open_ids("log", 300, groups, tasks=1) == ["large", "half"]
    assert open_ids("log", 120, {"b": 10, "a": 10}, tasks=1) == ["a"]


def test_a_micro_batch_a_quarter_larger_than_expected_fills_no_group_far_beyond_the_target() -> None:
    for insert_bytes in range(0, 20_000, 100):
        profile = WriteProfile({"p": PartitionProfile(1, {"a": 700, "b": 100})}, insert_bytes)
        chosen = open_groups(profile, "p", InsertRules("log", TARGET, 2), new)
        ends = [*(each.first for each in chosen[1:]), HASHES]
        sizes = {"a": 700, "b": 100}
        for each, end in zip(chosen, ends, strict=True):
            added = math.ceil(1.25 * insert_bytes * (end - each.first) / HASHES)
            assert sizes.get(each.file_id, 0) + added <= 1.15 * TARGET + 1


def test_an_expectation_beyond_reason_opens_a_bounded_number_of_groups() -> None:
    assert len(open_ids("log", 10**18)) == GROUPS_MAX


def test_hashes_are_divided_in_proportion_to_the_room() -> None:
    assert ranges([("a", 1), ("b", 2), ("c", 1)]) == (
        OpenGroup("a", 0),
        OpenGroup("b", HASHES // 4),
        OpenGroup("c", HASHES // 4 * 3),
    )


@pytest.mark.parametrize("mode", ["base", "log"])
@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.3, 3.0])
def test_64_tasks_and_1000_partitions_have_at_most_1064_open_groups(mode: InsertMode, exponent: float) -> None:
    rows = {f"p{number}": int(1e9 / (number + 1) ** exponent) for number in range(1000)}
    profile = WriteProfile({path: PartitionProfile(count) for path, count in rows.items()}, 50 * 120_000_000)
    rules = InsertRules(mode, 120_000_000, 64)
    total = sum(len(open_groups(profile, path, rules, new)) for path in rows)
    assert 1000 <= total <= 1064


@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 10**9), min_size=1, max_size=60),
    st.integers(1, 64),
    st.sampled_from(["base", "log"]),
)
def test_open_groups_are_never_more_than_tasks_and_partitions_if_there_is_room(
    rows: dict[str, int], tasks: int, mode: InsertMode
) -> None:
    profile = WriteProfile({path: PartitionProfile(count) for path, count in rows.items()}, tasks * TARGET // 2)
    total = sum(len(open_groups(profile, path, InsertRules(mode, TARGET, tasks), new)) for path in rows)
    assert total <= tasks + len(rows)


def test_a_partition_that_nobody_wrote_to_has_one_group_unless_few_are_active() -> None:
    assert [unknown_partition_groups(count, 64) for count in (0, 8, 9)] == [8, 8, 1]
    assert unknown_partition_groups(1, 2) == 2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("batch_mib", [20, 500, 4000])
def test_closed_groups_are_within_a_fifth_of_the_target_after_100_commits(seed: int, batch_mib: int) -> None:
    """Mode log; rows spread by Zipf over partitions, and each micro-batch differs from the one that its plan knows."""
    chance = np.random.default_rng(seed)
    partitions, target, row_bytes = 60, 120 * 1024**2, 1000
    batch_rows = batch_mib * 1024**2 // row_bytes
    weights = 1 / np.arange(1, partitions + 1) ** 1.1
    sizes: dict[str, dict[str, int]] = {f"p{number}": {} for number in range(partitions)}
    recent = chance.multinomial(batch_rows, weights / weights.sum())
    rules = InsertRules("log", target, 64)
    for commit in range(100):
        profile = WriteProfile(
            {
                path: PartitionProfile(int(rows), groups)
                for (path, groups), rows in zip(sizes.items(), recent, strict=True)
            },
            batch_rows * row_bytes,
        )
        drift = weights * chance.lognormal(0, 0.05, partitions)
        recent = chance.multinomial(batch_rows, drift / drift.sum())
        for (path, groups), rows in zip(sizes.items(), recent.tolist(), strict=True):
            chosen = open_groups(profile, path, rules, lambda p, n, c=commit: f"{p}-{c}-{n}")  # type: ignore[misc]
            ends = np.array([*(each.first for each in chosen[1:]), HASHES], float)
            shares = (ends - np.array([each.first for each in chosen], float)) / HASHES
            for each, added in zip(chosen, chance.multinomial(rows, shares / shares.sum()).tolist(), strict=True):
                groups[each.file_id] = groups.get(each.file_id, 0) + added * row_bytes
    everything = [size for groups in sizes.values() for size in groups.values()]
    closed = [size for size in everything if size >= 0.9 * target]
    assert max(everything) <= 1.2 * target
    assert min(closed) >= 0.8 * target
    # And keys go into closed groups in the end: few groups are left open.
    assert sum(closed) >= 0.6 * sum(everything) or batch_mib == 20
    assert len(everything) - len(closed) <= partitions + 64
