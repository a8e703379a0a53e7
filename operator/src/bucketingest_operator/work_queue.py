"""Says which resource is due: each at most once, never twice at the same time, and each namespace gets its turn."""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, defaultdict
from collections.abc import Callable


class WorkQueue:
    """Keys with the time at which they are due. The earlier of two times counts.

    Of those that are due, one of the group that the fewest workers work for comes first: a group with many keys, or
    with slow ones, does not make the others wait.
    By default all keys are in one group.
    """

    def __init__(self, group_of: Callable[[str], str] = lambda _key: "") -> None:
        self.group_of = group_of
        self._clock = asyncio.get_running_loop()
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._ready: dict[str, dict[str, None]] = defaultdict(dict)
        self._busy: dict[str, str] = {}
        self._workers: Counter[str] = Counter()
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
            wait = self._sort()
            key = self._next()
            if key is not None:
                return key
            self._woken.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def done(self, key: str) -> None:
        """The work on a key is done. It is queued again if it was added in the meantime."""
        group = self._busy.pop(key)
        self._workers[group] -= 1
        if not self._workers[group]:
            del self._workers[group]
        if key in self._due:
            heapq.heappush(self._heap, (self._due[key], key))
            self._woken.set()

    def _sort(self) -> float | None:
        """Put what is due to its group. Returns the seconds until more is; None if nothing waits."""
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due and key not in self._busy:
                wait = due - self._clock.time()
                if wait > 0:
                    return wait
                self._ready[self.group_of(key)][key] = None
            heapq.heappop(self._heap)
        return None

    def _next(self) -> str | None:
        """Take a key that is due, for one more worker; None if none is."""
        while self._ready:
            group = min(
                self._ready, key=lambda each: (self._workers[each], self._due.get(next(iter(self._ready[each])), 0))
            )
            keys = self._ready[group]
            key = next(iter(keys))
            del keys[key]
            if not keys:
                del self._ready[group]
            if key in self._busy or self._due.get(key, self._clock.time() + 1) > self._clock.time():
                continue  # removed, or taken by another since
            del self._due[key]
            self._busy[key] = group
            self._workers[group] += 1
            return key
        return None
