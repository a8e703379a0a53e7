"""What one task may hold: rows are given back by flushing, encoded blocks by waiting for the storage."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from bucketingest.write.rows.memory import MemoryBudget


@dataclass
class Buffer:
    """A holder that remembers what its flushes gave back."""

    buffered_bytes: int = 0
    flushed: list[int] = field(default_factory=list)

    def flush(self) -> None:
        self.flushed.append(self.buffered_bytes)
        self.buffered_bytes = 0


class Uploads:
    """Uploads to the storage, the oldest first; counts how often the task waited for one."""

    def __init__(self) -> None:
        self.running: deque[int] = deque()
        self.waits = 0

    def await_one(self) -> int:
        self.waits += 1
        return self.running.popleft()

    def start(self, budget: MemoryBudget, size_bytes: int) -> None:
        budget.charge_blocks(size_bytes, self.await_one)
        self.running.append(size_bytes)


def budget_of(limit_bytes: int, *sizes: int) -> tuple[MemoryBudget, list[Buffer]]:
    budget = MemoryBudget(limit_bytes)
    holders = [Buffer(size) for size in sizes]
    for holder in holders:
        budget.join(holder)
    return budget, holders


def test_rows_within_their_share_stay_where_they_are() -> None:
    budget, holders = budget_of(1000, 100, 200)
    budget.enforce()
    assert [holder.flushed for holder in holders] == [[], []]


def test_the_largest_buffer_is_flushed_and_no_other() -> None:
    budget, holders = budget_of(1000, 100, 301, 0)
    budget.enforce()
    assert [holder.flushed for holder in holders] == [[], [301], []]


def test_buffers_are_flushed_until_the_rest_is_within_the_share() -> None:
    budget, holders = budget_of(1000, 300, 500, 200, 150)
    budget.enforce()
    assert [holder.flushed for holder in holders] == [[300], [500], [200], []]
    assert budget.buffered_bytes == 150


def test_rows_have_three_tenths_of_the_budget_but_never_more_than_a_gibibyte() -> None:
    assert MemoryBudget(1000).rows_limit_bytes == 300
    assert MemoryBudget(64 * 1024**3).rows_limit_bytes == 1024**3


@given(st.lists(st.integers(0, 2000), max_size=20))
def test_after_enforcing_rows_never_exceed_their_share(sizes: list[int]) -> None:
    budget, _ = budget_of(1000, *sizes)
    budget.enforce()
    assert budget.buffered_bytes <= budget.rows_limit_bytes


def test_blocks_that_fit_do_not_wait() -> None:
    budget, uploads = MemoryBudget(1000), Uploads()
    uploads.start(budget, 120)
    uploads.start(budget, 80)
    assert (uploads.waits, budget.blocks_bytes) == (0, 200)


def test_a_block_waits_for_earlier_ones_until_it_fits() -> None:
    budget, uploads = MemoryBudget(1000), Uploads()
    for size in (100, 50, 50):
        uploads.start(budget, size)
    uploads.start(budget, 120)
    assert (uploads.waits, budget.blocks_bytes) == (2, 170)


def test_a_hand_over_without_memory_does_not_end_the_waiting() -> None:
    budget, uploads = MemoryBudget(1000), Uploads()
    uploads.start(budget, 0)  # a scratch file
    uploads.start(budget, 150)
    uploads.start(budget, 150)
    assert (uploads.waits, budget.blocks_bytes) == (2, 150)


def test_a_block_larger_than_the_whole_share_waits_for_all_others_only() -> None:
    budget, uploads = MemoryBudget(1000), Uploads()
    uploads.start(budget, 100)
    uploads.start(budget, 5000)
    assert (uploads.waits, budget.blocks_bytes, list(uploads.running)) == (1, 5000, [5000])


@given(st.lists(st.integers(0, 300), max_size=30))
def test_blocks_never_exceed_their_share_except_one_alone(sizes: list[int]) -> None:
    budget, uploads = MemoryBudget(1000), Uploads()
    for size in sizes:
        uploads.start(budget, size)
        assert budget.blocks_bytes == sum(uploads.running)
        assert budget.blocks_bytes <= max(200, size)
