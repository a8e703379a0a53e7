"""One memory budget per write task, because a limit per file group would grow with the number of file groups."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Final, Protocol

ROW_SHARE: Final = 0.3
"""Share of a task's budget that buffered rows may fill. As much again is for the copy that encoding makes, and the rest
for blocks on their way out and for the batch of messages that Spark hands over.
"""
BLOCK_SHARE: Final = 0.2
"""Share that encoded blocks may fill while they wait for the storage."""
_ROWS_BYTES_MAX: Final = 1024**3
"""A flush makes one Arrow array of each column, and one of strings ends at 2 GiB."""
_MALLOPT_MMAP_THRESHOLD: Final = -3
_LARGE_BLOCK_BYTES: Final = 4 * 1024**2


@functools.cache
def keep_no_large_blocks() -> None:
    """Let this process give large blocks back to the system as soon as they are freed.

    Spark's batches arrive as blocks of many MiB from malloc. glibc learns from the first one freed to keep their like
    (mallopt(3), M_MMAP_THRESHOLD), and what it keeps came to 70 MiB beyond the budget. Without glibc nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MALLOPT_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


class Flushable(Protocol):
    """A holder of buffered rows that can give its memory back."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of Arrow buffers held."""
        ...

    def flush(self) -> None:
        """Turn the buffered rows into a block outside of this memory."""
        ...


class MemoryBudget:
    """Bytes that one write task may hold: rows in open handles and encoded blocks that wait for the storage.

    Rows are given back by flushing the largest buffer, blocks by waiting for the storage to take them. Not shared
    between threads: `charge_blocks` and its release run on the task's own thread.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._holders: list[Flushable] = []
        self._blocks_bytes = 0
        self.highest_bytes = 0
        """The most that was ever held at a time, rows and blocks."""

    @property
    def rows_limit_bytes(self) -> int:
        """Bytes of rows above which the largest buffer is flushed."""
        return min(int(self.limit_bytes * ROW_SHARE), _ROWS_BYTES_MAX)

    @property
    def buffered_bytes(self) -> int:
        """Bytes of rows in all open handles."""
        return sum(holder.buffered_bytes for holder in self._holders)

    @property
    def blocks_bytes(self) -> int:
        """Bytes of encoded blocks that wait for the storage."""
        return self._blocks_bytes

    def join(self, holder: Flushable) -> None:
        """Count the holder's buffer from now on."""
        self._holders.append(holder)

    def leave(self, holder: Flushable) -> None:
        """Count the holder no longer; it has nothing buffered."""
        self._holders.remove(holder)

    def enforce(self) -> None:
        """Flush the largest buffer, and again, until the rows are within their share."""
        self._note(self.buffered_bytes)
        while self.buffered_bytes > self.rows_limit_bytes:
            largest = max(self._holders, key=lambda holder: holder.buffered_bytes)
            largest.flush()
            assert largest.buffered_bytes == 0, "a flushed handle must hold no rows"

    def charge_blocks(self, size_bytes: int, wait_for_one: Callable[[], int]) -> None:
        """Account for blocks handed to the storage; first wait until they fit.

        `wait_for_one` blocks until one earlier hand-over is done and returns its size in bytes, 0 for one that held no
        memory. It is called only while there is one.
        """
        while self._blocks_bytes and self._blocks_bytes + size_bytes > self.limit_bytes * BLOCK_SHARE:
            self.release_blocks(wait_for_one())
        self._blocks_bytes += size_bytes
        self._note(self.buffered_bytes)

    def _note(self, rows_bytes: int) -> None:
        self.highest_bytes = max(self.highest_bytes, rows_bytes + self._blocks_bytes)

    def release_blocks(self, size_bytes: int) -> None:
        """Blocks of this size are in the storage now."""
        self._blocks_bytes -= size_bytes
        assert self._blocks_bytes >= 0, "more bytes released than charged"
