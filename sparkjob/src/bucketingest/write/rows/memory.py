"""One memory budget per write task, because with a limit per file group memory grows with the number of file groups."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Final, Protocol

ROW_SHARE: Final = 0.3
"""Share of a task's budget for buffered rows. The same share is for the copy that encoding makes; the rest is for
blocks that wait for the storage and for the batch of messages from Spark.
"""
BLOCK_SHARE: Final = 0.2
"""Share that encoded blocks may fill while they wait for the storage."""
_ROWS_BYTES_MAX: Final = 1024**3
"""A flush makes one Arrow array of each column, and an array of strings holds at most 2 GiB."""
_MALLOPT_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 4 * 1024**2
_MALLOPT_TRIM_THRESHOLD: Final = -1
_KEPT_BYTES: Final = 8 * 1024**2


@functools.cache
def keep_no_large_blocks() -> None:
    """Make this process return large blocks to the system as soon as they are freed, and keep a few MiB of small ones.

    Spark's batches arrive as blocks of many MiB from malloc. After the first one is freed, glibc keeps such blocks
    (mallopt(3), M_MMAP_THRESHOLD): 70 MiB beyond the budget were seen. With that option it would also return more than
    128 KiB of free memory at once, and new pages for each temporary array of a block of messages take longer than what
    is done with it. Without glibc nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MALLOPT_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)
        mallopt(_MALLOPT_TRIM_THRESHOLD, _KEPT_BYTES)


class Flushable(Protocol):
    """A holder of buffered rows that can free its memory."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of Arrow buffers held."""
        ...

    def flush(self) -> None:
        """Turn the buffered rows into a block outside of this memory."""
        ...


class MemoryBudget:
    """Bytes that one write task may hold: rows in open handles and encoded blocks that wait for the storage.

    Flushing the largest buffer frees rows; waiting for the storage frees blocks. Not shared between threads:
    `charge_blocks` and its release run on the task's own thread.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._holders: list[Flushable] = []
        self.blocks_bytes = 0
        """Bytes of encoded blocks that wait for the storage."""
        self.highest_bytes = 0
        """The peak of rows and blocks held."""

    @property
    def rows_limit_bytes(self) -> int:
        """Bytes of rows above which the largest buffer is flushed."""
        return min(int(self.limit_bytes * ROW_SHARE), _ROWS_BYTES_MAX)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows in all open handles."""
        return sum(holder.buffered_bytes for holder in self._holders)

    def join(self, holder: Flushable) -> None:
        """Count the holder's buffer from now on."""
        self._holders.append(holder)

    def enforce(self) -> None:
        """Flush the largest buffer repeatedly until the rows are within their share."""
        held = self.buffered_bytes
        self._note(held)
        while held > self.rows_limit_bytes:
            largest = max(self._holders, key=lambda holder: holder.buffered_bytes)
            largest.flush()
            assert largest.buffered_bytes == 0, "a flushed handle must hold no rows"
            held = self.buffered_bytes

    def charge_blocks(self, size_bytes: int, wait_for_one: Callable[[], int]) -> None:
        """Account for blocks handed to the storage; first wait until they fit.

        `wait_for_one` blocks until one earlier upload is done and returns its size in bytes, 0 if it held no memory. It
        is called only while there is one.
        """
        while self.blocks_bytes and self.blocks_bytes + size_bytes > self.limit_bytes * BLOCK_SHARE:
            self.release_blocks(wait_for_one())
        self.blocks_bytes += size_bytes
        self._note(self.buffered_bytes)

    def _note(self, rows_bytes: int) -> None:
        self.highest_bytes = max(self.highest_bytes, rows_bytes + self.blocks_bytes)

    def release_blocks(self, size_bytes: int) -> None:
        """Blocks of this size are in the storage now."""
        self.blocks_bytes -= size_bytes
        assert self.blocks_bytes >= 0, "more bytes released than charged"
