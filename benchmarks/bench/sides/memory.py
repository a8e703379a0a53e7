"""Memory of the machine before a measured run, because a virtual machine's host takes back what is free for seconds.

With free page reporting (Linux 5.7), pages that a side freed are the host's again before its next turn. Touching them
then took twelve times as long as touching pages that the machine has: a second for what a run reads and writes,
which a stream without turns never pays. So each side finds its memory there.
"""

from __future__ import annotations

import contextlib
import mmap
from pathlib import Path
from typing import Final

_BYTES_MAX: Final = 2 << 30
"""More than what a run reads, shuffles and writes."""
_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE of Linux 5.14: touch all pages, without a loop over them."""


def take_free_memory(available: int) -> None:
    """Touch free memory and give it to the kernel's free list, for whoever needs it next.

    `available`: bytes that processes could have; a quarter is touched, at most 2 GiB. Without effect on older kernels.
    """
    size = min(_BYTES_MAX, available // 4) // mmap.PAGESIZE * mmap.PAGESIZE
    if size == 0:
        return
    with (
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory,
        contextlib.suppress(OSError),
    ):
        memory.madvise(_POPULATE_WRITE)


def available_memory() -> int:
    """Bytes that processes could have without swapping, as the kernel estimates them; 0 if it does not say."""
    with Path("/proc/meminfo").open(encoding="ascii") as lines:
        found = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return found[0] * 1024 if found else 0
