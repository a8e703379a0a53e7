"""When the next micro-batch of an instant starts: each one makes a file in every file group that it has rows for, and
none of them is visible before the commit, so there are as few as its time and the view of the source allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.stream.pipeline import Pipeline
from bucketingest.write.instants.source_range import SourceRange, kafka_offsets

_SHARE_WITHOUT_LOOK: Final = 1 / 3
"""Of the commit interval: Spark looks so often at what the source has, and the lag is as old as the last look."""
_SHARE_BUSY: Final = 1 / 10
"""Of the commit interval: a micro-batch is expected to take no longer, so a commit or a stop never waits for long."""
_SHARE_OF_OFFSETS: Final = 1 / 2
"""Of the most offsets of a micro-batch: if the source doubles its rate, one still takes all."""
_SHARE_FULL: Final = 0.9
"""A micro-batch with so much of the most offsets has left some behind: Spark rounds its share of each partition."""
_LOOK_SECONDS_MIN: Final = 0.1
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """What a pause must keep. Times in seconds."""

    interval: float
    """Between commits."""
    trigger: float
    """Between micro-batches, at least."""
    offsets_max: int
    """Of one micro-batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch that has just ended. Times are seconds by a clock that cannot be set."""

    since: float
    """Its input came from then on, ..."""
    started: float
    """... until then."""
    ended: float
    offsets: int


def next_start(batch: Batch, due: float, limits: Limits) -> float:
    """When the micro-batch after this one should start; in the past: at once. `due`: when the commit is. Pure.

    Input is expected to come as before, and to take as long for each second of it; as every micro-batch also takes some
    time that does not grow with its rows, a longer one takes less than that.
    """
    if batch.offsets >= _SHARE_FULL * limits.offsets_max:
        return batch.ended
    came_in = max(batch.started - batch.since, _LOOK_SECONDS_MIN)
    load = max(batch.ended - batch.started, 0.0) / came_in
    longest = min(
        limits.interval * _SHARE_WITHOUT_LOOK,
        came_in * limits.offsets_max * _SHARE_OF_OFFSETS / max(batch.offsets, 1),
        max(limits.trigger, limits.interval * _SHARE_BUSY) / max(load, 1e-9),
    )
    last = (due - batch.started) / (1 + load)  # of the instant: so that it ends when the commit is due
    return batch.started + min(longest, last)


class Pace:
    """Holds Spark back after a micro-batch. Called by the thread that writes them."""

    def __init__(
        self,
        limits: Limits,
        due: Callable[[], float | None],
        *,
        clock: Callable[[], float] = forward_seconds,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`due`: when the open instant is to be committed, by the clock; None if none is open."""
        self._limits = limits
        self._due = due
        self._clock = clock
        self._sleep = sleep
        self._started: float | None = None
        self._before: float | None = None
        self._returned: float | None = None

    @classmethod
    def of(cls, pipeline: Pipeline, due: Callable[[], float | None]) -> Self | None:
        """None where each micro-batch is an instant, or where it is not known how much a micro-batch leaves behind."""
        interval, trigger, offsets_max = pipeline.commit_interval, pipeline.trigger, pipeline.offsets_max
        if interval is None or offsets_max is None or not isinstance(trigger, timedelta):
            return None
        return cls(Limits(interval.total_seconds(), trigger.total_seconds(), offsets_max), due)

    def begin(self) -> None:
        """A query starts: of its first micro-batch nobody knows since when its input has come."""
        self._started = self._before = self._returned = None

    def batch_started(self) -> None:
        """Spark has decided on what a micro-batch reads."""
        self._before, self._started = self._started, self._clock()

    def pause(self, source_range: SourceRange, *, gives_way: Callable[[], bool], waits: Callable[[], None]) -> None:
        """The micro-batch has ended: return when Spark should look for the next one; at once if the query ends or the
        instant is committed. `waits` is called again and again.
        """
        batch = self._ended(source_range)
        due = self._due()
        if batch is not None and due is not None:
            until = next_start(batch, due, self._limits)
            while (left := until - self._clock()) > 0 and not gives_way() and self._due() is not None:
                waits()
                self._sleep(min(left, _POLL_SECONDS))
        self._returned = self._clock()

    def _ended(self, source_range: SourceRange) -> Batch | None:
        start, end = kafka_offsets(source_range.start), kafka_offsets(source_range.end)
        if self._started is None or self._before is None or self._returned is None or start is None or end is None:
            return None
        # Where Spark has waited, it has looked every trigger and found nothing.
        look = max(self._limits.trigger, _LOOK_SECONDS_MIN)
        since = self._before if self._started - self._returned <= look else self._started - look
        offsets = sum(max(0, offset - start.get(partition, 0)) for partition, offset in end.items())
        return Batch(since, self._started, self._clock(), offsets)
