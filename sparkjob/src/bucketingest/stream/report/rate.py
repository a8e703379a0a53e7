"""Rows per second over the last micro-batches."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

_WINDOW: Final = 20
"""Micro-batches over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Times are seconds by a clock that is never set back."""

    _recent: deque[tuple[float, float, int]] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def add(self, started: float, ended: float, rows: int) -> None:
        """A micro-batch."""
        self._recent.append((started, ended, rows))

    @property
    def rows_per_second(self) -> float:
        """From the start of the first to the end of the last; 0 before the first one."""
        if not self._recent:
            return 0.0
        seconds = self._recent[-1][1] - self._recent[0][0]
        return sum(rows for _, _, rows in self._recent) / seconds if seconds > 0 else 0.0
