from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.task_routing import PartitionNumbers, route


def load(partitions: list[str], known: list[str], buckets: int, tasks: int) -> list[int]:
    """File groups per task when every bucket of every partition has rows."""
    numbers = PartitionNumbers.of(known).numbers(partitions)
    ids = np.tile(np.arange(buckets, dtype=np.int32), len(partitions))
    return np.bincount(route(np.repeat(numbers, buckets), ids, buckets, tasks), minlength=tasks).tolist()


DAYS = [f"dt=2026-01-{day:02d}" for day in range(64)]


@pytest.mark.parametrize("known", [[], ["dt=2026-01-05"], DAYS], ids=["unknown", "known", "one of many"])
def test_128_buckets_on_128_tasks_are_one_each(known: list[str]) -> None:
    assert load(["dt=2026-01-05"], known, 128, 128) == [1] * 128


@pytest.mark.parametrize("tasks", [2, 3, 32])
def test_4_known_partitions_of_8_buckets_are_even(tasks: int) -> None:
    counts = load(DAYS[:4], DAYS[:4], 8, tasks)
    assert sum(counts) == 32
    assert max(counts) - min(counts) <= 1


def test_64_known_partitions_of_one_bucket_do_not_pile_up() -> None:
    assert load(DAYS, DAYS, 1, 16) == [4] * 16


def test_64_unknown_partitions_of_one_bucket_reach_every_task() -> None:
    counts = load(DAYS, [], 1, 16)
    assert min(counts) >= 1
    assert max(counts) <= 12


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 70))
def test_known_partitions_are_even_whatever_the_sizes(partitions: int, buckets: int, tasks: int) -> None:
    counts = load(DAYS[:partitions], DAYS[:partitions], buckets, tasks)
    assert sum(counts) == partitions * buckets
    assert max(counts) - min(counts) <= 1


@given(st.text(max_size=10), st.integers(1, 300), st.integers(1, 300))
def test_one_unknown_partition_is_even_by_itself(path: str, buckets: int, tasks: int) -> None:
    counts = load([path], [], buckets, tasks)
    assert max(counts) - min(counts) <= 1


def test_the_largest_bucket_counts_and_numbers_do_not_overflow() -> None:
    tasks = route(np.array([2**33 - 1], np.int64), np.array([99_999_998], np.int32), 99_999_999, 1009)
    assert tasks.tolist() == [((2**33 - 1) * 99_999_999 + 99_999_998) % 1009]


def test_numbers_do_not_depend_on_the_order_in_which_partitions_became_known() -> None:
    assert PartitionNumbers.of(["b", "a", "b"]) == PartitionNumbers.of(["a", "b"])


@pytest.mark.parametrize(("buckets", "tasks"), [(0, 1), (1, 0)])
def test_no_buckets_or_no_tasks_are_refused(buckets: int, tasks: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        route(np.array([0]), np.array([0], np.int32), buckets, tasks)


def test_partitions_of_two_bucket_counts_reach_every_task_and_each_place_has_one() -> None:
    numbers = PartitionNumbers.of(DAYS).numbers(DAYS)
    counts = np.where(np.arange(64) < 32, 4, 16).astype(np.int32)
    ids = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
    tasks = route(np.repeat(numbers, counts), ids, np.repeat(counts, counts), 16)
    assert np.bincount(tasks, minlength=16).tolist() == [40] * 16
