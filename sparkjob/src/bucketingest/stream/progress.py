"""What a running query is doing, for whoever shows it: a terminal, a log, an HTTP endpoint."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Final

from bucketingest.write.coordinator import Outcome

_RATE_WINDOW: Final = 20
"""Micro-batches over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a running query. Times in seconds, counts since the start of this attempt unless said otherwise."""

    running_for: float
    batches: int = 0
    rows: int = 0
    """Rows received, rejected ones included."""
    deletes: int = 0
    rejected: int = 0
    size_bytes: int = 0
    rows_per_second: float = 0.0
    """Over the last micro-batches, from the start of the first to the commit of the last."""
    last: Outcome | None = None
    """The last micro-batch that was committed."""
    last_commit_age: float | None = None
    inflight_instant: str | None = None
    inflight_age: float | None = None
    lag_offsets: int | None = None
    """Kafka: offsets not yet read, as of the last micro-batch; None for other sources."""


class ProgressBoard:
    """Collects progress from the query's thread and shows it to any other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._progress = Progress(0.0)
        self._batch_started: float | None = None
        self._committed_at: float | None = None
        self._recent: deque[tuple[float, float, int]] = deque(maxlen=_RATE_WINDOW)

    def batch_started(self, instant: str) -> None:
        """The tasks of a micro-batch begin."""
        with self._lock:
            self._batch_started = time.monotonic()
            self._progress = replace(self._progress, inflight_instant=instant)

    def batch_ended(self, outcome: Outcome) -> None:
        """A micro-batch is committed, or was in the table already."""
        now = time.monotonic()
        with self._lock:
            self._recent.append((self._batch_started or now, now, outcome.rows))
            self._batch_started = None
            if outcome.instant_time is not None:
                self._committed_at = now
            before = self._progress
            self._progress = replace(
                before,
                batches=before.batches + 1,
                rows=before.rows + outcome.rows,
                deletes=before.deletes + outcome.deletes,
                rejected=before.rejected + outcome.rejected,
                size_bytes=before.size_bytes + outcome.size_bytes,
                last=outcome if outcome.instant_time is not None else before.last,
                inflight_instant=None,
            )

    def lag(self, offsets: int | None) -> None:
        """Offsets that the source has and the query has not read."""
        with self._lock:
            self._progress = replace(self._progress, lag_offsets=offsets)

    def snapshot(self) -> Progress:
        """Progress now."""
        now = time.monotonic()
        with self._lock:
            return replace(
                self._progress,
                running_for=now - self._started,
                rows_per_second=self._rate(),
                last_commit_age=None if self._committed_at is None else now - self._committed_at,
                inflight_age=None if self._batch_started is None else now - self._batch_started,
            )

    def _rate(self) -> float:
        if not self._recent:
            return 0.0
        seconds = self._recent[-1][1] - self._recent[0][0]
        return sum(rows for _, _, rows in self._recent) / seconds if seconds > 0 else 0.0


def kafka_lag(last_progress: Any) -> int | None:
    """Offsets behind the topic's end over all partitions, from Spark's progress of a query; None if it does not say."""
    if last_progress is None:
        return None
    for source in last_progress.sources:
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        if end is not None and latest is not None:
            return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())
    return None


def _offsets(text: str | None) -> dict[tuple[str, str], int] | None:
    try:
        topics = json.loads(text or "null")
        return {(topic, part): int(offset) for topic, parts in topics.items() for part, offset in parts.items()}
    except (ValueError, AttributeError):
        return None
