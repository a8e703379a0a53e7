"""Free memory is touched before a run, and is free again."""

from __future__ import annotations

import resource

from bench.sides.memory import available_memory, take_free_memory


def test_the_kernels_estimate_is_that_of_meminfo() -> None:
    assert 1 << 20 < available_memory() < 1 << 50


def test_a_quarter_of_the_memory_is_touched() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wanted = 2 * before * 1024

    take_free_memory(4 * wanted)

    # In KiB; the highest that this process ever had, so it holds although the memory is free again.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >= min(wanted, 2 << 30) // 1024


def test_where_nothing_is_available_nothing_is_touched() -> None:
    take_free_memory(0)
