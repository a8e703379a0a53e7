"""Free memory is touched before a run, and is free again."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.sides.memory import available_memory, take_free_memory

MIB = 1024**2
TOUCH = """
import os, sys
from bench.sides.memory import take_free_memory
from bench.sides.process_tree import peak_rss_bytes
take_free_memory(int(sys.argv[1]))
print(peak_rss_bytes(os.getpid()))
"""


def test_the_kernels_estimate_is_that_of_meminfo() -> None:
    assert MIB < available_memory() < 1 << 50


def peak_of_process_that_touches(available: int) -> int:
    """Bytes. A process of its own, as a peak never falls."""
    command = [sys.executable, "-c", TOUCH, str(available)]
    ended = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    return int(ended.stdout)


def test_a_quarter_of_the_memory_is_touched() -> None:
    assert 256 * MIB <= peak_of_process_that_touches(1024 * MIB) < 512 * MIB


def test_where_nothing_is_available_nothing_is_touched() -> None:
    take_free_memory(0)
