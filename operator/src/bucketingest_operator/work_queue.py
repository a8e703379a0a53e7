"""Says when each resource is due: each is at most once in the queue, and never processed twice at the same time."""

from __future__ import annotations

import asyncio
import heapq


class WorkQueue:
    """Keys with the time at which they are due. The earlier of two times counts."""

    def __init__(self) -> None:
        self._clock = asyncio.get_running_loop()
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._woken = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    @property
    def overdue(self) -> float:
        """Seconds by which the first key is late; 0 if none is late."""
        free = [due for key, due in self._due.items() if key not in self._busy]
        return max(0.0, self._clock.time() - min(free)) if free else 0.0

    def add(self, key: str, after: float = 0) -> None:
        """Make a key due after so many seconds, or earlier if it already is."""
        due = self._clock.time() + after
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, key))
        self._woken.set()

    def discard(self, key: str) -> None:
        """Remove a key."""
        self._due.pop(key, None)

    async def take(self) -> str:
        """The next key that is due and that no other worker has. `done` must follow."""
        while True:
            wait = self._next()
            if isinstance(wait, str):
                self._busy.add(wait)
                return wait
            self._woken.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def done(self, key: str) -> None:
        """The work on a key is done. It is queued again if it was added in the meantime."""
        self._busy.discard(key)
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], key))
            self._woken.set()

    def _next(self) -> str | float | None:
        """The key that is due, or the seconds until one is; None if there is no key."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) != due or key in self._busy:
                heapq.heappop(self._heap)
                continue
            wait = due - self._clock.time()
            if wait > 0:
                return wait
            heapq.heappop(self._heap)
            del self._due[key]
            return key
        return None
