"""Chooses the number of executors by the load, so that nobody has to size a pipeline for its busiest hour.

The rule is pure: `Scale.after` makes the next state from the last one and from what a micro-batch has shown.

* More, if input waits longer than the patience: enough to ingest the new input and the backlog within `CATCH_UP`
  seconds. The speed of one executor is measured only while input waits: a small micro-batch takes as long as a larger
  one, so its speed is only the least that there is.
* Fewer, if no input has waited for `STEADY` seconds: as many as the busiest minute of that time needed, and a quarter
  more. By the speed of that time, if it was higher: a busy machine may have made executors slow while input waited.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol, Self

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.write.instants.source_range import SourceRange, kafka_offsets

log = logging.getLogger(__name__)

CATCH_UP: Final = 60.0
STEADY: Final = 300.0
SETTLING: Final = 60.0
"""New executors may take so long to start. Until then no more are asked for."""
_RATE_SECONDS: Final = 60.0
"""Time over which the rate of the source is measured."""
_RATE_SECONDS_MIN: Final = 10.0
_HEADROOM: Final = 1.25
_PATIENCE_SECONDS_MIN: Final = 10.0
_IDLE_SECONDS: Final = 10.0
"""Time between two looks at an idle source."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the resource allows."""

    least: int
    most: int
    patience: float
    """Seconds that input may wait."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a micro-batch has shown when it ended, or a look at an idle source. Times in seconds."""

    at: float
    """By a clock that is never set back."""
    busy: float
    """How long it took."""
    offsets: int
    """That it read."""
    behind: int
    """Offsets that the source is known to have beyond it."""
    executors: int
    """That were there."""
    rate: float = 0.0
    """Offsets a second that the source brought in the minute before."""
    waits: float = 0.0
    """Seconds that input waits: the length of the micro-batch, and the time in which the backlog came."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many executors are asked for, and what that was decided on."""

    wanted: int
    changed_at: float = -math.inf
    speed: float | None = None
    """Offsets a second of one executor, when input last waited."""
    seen: tuple[Seen, ...] = ()
    """Of the last `STEADY` seconds, and one before."""

    def after(self, look: Seen, limits: Limits) -> Scale:
        """The scale after a further look. Pure."""
        look = _with_rate(look, self.seen)
        recent = [each for each in self.seen if each.at > look.at - STEADY]
        before = [each for each in self.seen if each.at <= look.at - STEADY][-1:]
        state = replace(self, seen=(*before, *recent, look))
        if look.waits > limits.patience and look.busy > 0 and look.executors > 0:
            state = replace(state, speed=_mixed(self.speed, look.offsets / look.busy / look.executors))
        wanted = state._needed(look, limits)  # noqa: SLF001 - another state of the same class
        return state if wanted == self.wanted else replace(state, wanted=wanted, changed_at=look.at)

    def _needed(self, look: Seen, limits: Limits) -> int:
        if not self.speed:
            return self.wanted
        if look.waits > limits.patience:
            if look.executors < self.wanted and look.at - self.changed_at < SETTLING:
                return self.wanted
            waiting = look.behind + look.rate * look.busy
            return max(self.wanted, min(limits.most, math.ceil((look.rate + waiting / CATCH_UP) / self.speed)))
        was_steady = self.seen[0].at <= look.at - STEADY and look.at - self.changed_at >= STEADY
        if not was_steady or any(each.waits > limits.patience for each in self.seen):
            return self.wanted
        busiest = max(each.rate for each in self.seen)
        shown = [each.offsets / each.busy / each.executors for each in self.seen if each.busy and each.executors]
        speed = max(self.speed, sum(shown) / len(shown) if shown else 0.0)
        return min(self.wanted, max(limits.least, math.ceil(busiest * _HEADROOM / speed)))


def _with_rate(look: Seen, seen: tuple[Seen, ...]) -> Seen:
    first = next((each for each in reversed(seen) if each.at <= look.at - _RATE_SECONDS), seen[0] if seen else look)
    is_cold = not any(each.busy for each in seen)  # workers start, and load their code
    if is_cold or look.at - first.at < _RATE_SECONDS_MIN:
        return look
    read = look.offsets + sum(each.offsets for each in seen if each.at > first.at)
    rate = max(0.0, (read + look.behind - first.behind) / (look.at - first.at))
    return replace(look, rate=rate, waits=look.busy + look.behind / max(rate, 1.0))


def _mixed(before: float | None, now: float) -> float:
    return now if before is None else (before + now) / 2


class Executors(Protocol):
    """The executors of a session, as `SparkExecutors`."""

    def registered(self) -> int:
        """Number of those that work."""

    def ask_for(self, count: int) -> None:
        """Have `count` executors in all: start more, or end some."""


class ExecutorScaling:
    """Asks for executors between micro-batches. Called by one thread at a time."""

    def __init__(
        self,
        limits: Limits,
        executors: Executors,
        ends: Callable[[], Mapping[tuple[str, int], tuple[int, int]]],
        clock: Callable[[], float] = forward_seconds,
    ) -> None:
        """`ends`: (topic, partition) → (next offset to commit, the partition's end as last seen)."""
        self.limits = limits
        self._executors = executors
        self._ends = ends
        self._clock = clock
        self._read: Mapping[tuple[str, int], int] = {}
        self._scale = Scale(limits.least)

    @classmethod
    def of(cls, pipeline: Pipeline, executors: Executors | None, board: ProgressBoard) -> Self | None:
        """None where their number is fixed."""
        if pipeline.executors is None or executors is None or not isinstance(pipeline.trigger, timedelta):
            return None
        between = pipeline.trigger + (pipeline.commit_interval or timedelta())
        limits = Limits(*pipeline.executors, max(_PATIENCE_SECONDS_MIN, between.total_seconds()))
        return cls(limits, executors, board.offsets)

    @property
    def wanted(self) -> int:
        """Executors that are asked for."""
        return self._scale.wanted

    def batch_ended(self, started: float, source_range: SourceRange) -> None:
        """A micro-batch has ended that was started then, by `forward_seconds`."""
        start, end = kafka_offsets(source_range.start) or {}, kafka_offsets(source_range.end) or {}
        self._read = {**self._read, **end}
        now = self._clock()
        self._take(now, now - started, sum(max(0, offset - start.get(each, 0)) for each, offset in end.items()))

    def idle(self) -> None:
        """No micro-batch is being written."""
        now, seen = self._clock(), self._scale.seen
        if not seen or now - seen[-1].at >= _IDLE_SECONDS:
            self._take(now, 0.0, 0)

    def _take(self, now: float, busy: float, offsets: int) -> None:
        ends = {each: end for each, (_, end) in self._ends().items()}
        behind = sum(max(0, end - self._read.get(each, end)) for each, end in ends.items())
        before, look = self._scale, Seen(now, busy, offsets, behind, self._executors.registered())
        self._scale = before.after(look, self.limits)
        if self._scale.wanted == before.wanted:
            return
        last = self._scale.seen[-1]
        log.info(
            "number of executors changed",
            extra={
                "executors": self._scale.wanted,
                "before": before.wanted,
                "input_waits_seconds": round(last.waits, 1),
                "offsets_per_second": round(last.rate, 1),
                "offsets_per_second_of_one": round(self._scale.speed or 0.0, 1),
            },
        )
        self._executors.ask_for(self._scale.wanted)
