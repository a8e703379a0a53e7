"""Table services of many tables, one table at a time: they work in a process beside the job, and there is CPU and
memory for one. After a table's turn there is a rest, longer than the turn was.

A table that writes all the time has its turn too: its steps are between two of its micro-batches. One that hangs
loses it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.stream.tables.one_table import OneTable

REST_SECONDS: Final = 1.0
REST_SHARE: Final = 2.0
"""A rest is so many times as long as the turn before it."""
PATIENCE_SECONDS: Final = 60.0
"""So long a turn waits for the micro-batch that its table writes."""
IDLE_SECONDS: Final = 1800.0
"""A table without a commit since its last turn has the next one after so long."""


class ServiceTurns:
    """Says whose turn it is. Called by one thread, but for `takes`."""

    def __init__(self, clock: Callable[[], float] = forward_seconds) -> None:
        self._clock = clock
        self._topic: str | None = None
        self._since = 0.0
        self._steps = threading.Lock()
        """Held while a turn is taken away, and while a step is begun: no step of a table is after its turn."""
        self._is_stepping = False
        self._rests_until = clock() + REST_SECONDS
        self._last: dict[str, tuple[float, int]] = {}
        """When a table had its last turn, and how many commits it had then."""

    def is_of(self, topic: str) -> bool:
        """Whether it is this table's turn."""
        return self._topic == topic

    def takes(self, topic: str) -> bool:
        """Whether it is this table's turn; then it takes a step now. Any thread may ask."""
        with self._steps:
            if not self.is_of(topic):
                return False
            self._is_stepping = True
            return True

    def next(self, tables: Sequence[OneTable]) -> OneTable | None:
        """The table whose services take their next step as soon as it has nothing else to do. `tables`: all that are
        open.
        """
        if self._topic is not None:
            mine = next((table for table in tables if self.is_of(table.topic)), None)
            if mine is None or mine.service_pid is not None or self._clock() - self._since < PATIENCE_SECONDS:
                return None if mine is None or not mine.services_due else mine
            with self._steps:
                if not self._is_stepping:
                    self._end()
            return None
        if self._clock() < self._rests_until:
            return None
        due = [table for table in tables if table.services_due and self._is_due(table)]
        if not due:
            return None
        chosen = min(due, key=lambda table: self._last.get(table.topic, (0.0, 0))[0])
        self._topic, self._since = chosen.topic, self._clock()
        self._last[chosen.topic] = (self._since, chosen.board.snapshot().commits)
        return chosen

    def stepped(self, table: OneTable) -> None:
        """A table has ended what it did. Its turn ends if its services have nothing more to do."""
        if not self.is_of(table.topic):
            return
        self._is_stepping = False
        if not table.services_due and table.service_pid is None:
            self._end()

    def _end(self) -> None:
        now = self._clock()
        self._rests_until = now + max(REST_SECONDS, REST_SHARE * (now - self._since))
        self._topic, self._is_stepping = None, False

    def closed(self, topic: str) -> None:
        """A table is closed: its turn ends."""
        if self.is_of(topic):
            self._end()

    def forget(self, topic: str) -> None:
        """The table is not known any more."""
        self._last.pop(topic, None)

    def is_served(self, table: OneTable) -> bool:
        """Whether the table has had a turn since its last commit, or needs none."""
        return not table.services_due or not self._is_due(table)

    def is_due_again(self, table: OneTable) -> bool:
        """Whether it is time to open an idle table for a turn."""
        return table.has_services and self._is_due(table)

    def _is_due(self, table: OneTable) -> bool:
        at, commits = self._last.get(table.topic, (None, 0))
        return at is None or self._clock() - at >= IDLE_SECONDS or table.board.snapshot().commits != commits
