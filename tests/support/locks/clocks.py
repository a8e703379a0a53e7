"""Time that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """The wall clock and the clock that only runs forward of one machine; sleeping moves both."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
        self.seconds = 1000.0
        self.slept: list[float] = []

    def wall(self) -> datetime:
        """What the wall clock shows."""
        return self.now

    def forward(self) -> float:
        """Seconds that only grow."""
        return self.seconds

    def advance(self, duration: timedelta) -> None:
        """Time goes by."""
        self.now += duration
        self.seconds += duration.total_seconds()

    def sleep(self, seconds: float) -> None:
        """Time goes by while the caller waits."""
        self.slept.append(seconds)
        self.advance(timedelta(seconds=seconds))
