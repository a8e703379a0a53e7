"""What the board is given: micro-batches, Spark's reports, time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from bucketingest.write.coordinator_api import Commit, MicroBatchOutcome

BEGIN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FIRST, SECOND, THIRD = "20261121120000000", "20261121120010000", "20261121120020000"


class Clock:
    """Seconds that pass only when a test says so, on both clocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def forward(self) -> float:
        return 1000.0 + self.seconds


def commit(instant: str, rows: int = 10, open_seconds: float = 2.0) -> Commit:
    return Commit(instant, instant, 1, rows, 1, 100, open_seconds, commit_seconds=0.5)


def outcome(instant: str, rows: int = 10, *, committed: bool = True) -> MicroBatchOutcome:
    return MicroBatchOutcome(instant, rows=rows, commit=commit(instant, rows) if committed else None)
