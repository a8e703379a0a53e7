"""The lag: how far the table is behind its source, in offsets and in seconds, estimated from what a query sees."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from bucketingest.write.instants.source_range import Offsets, kafka_offsets

_SIGHTINGS_MAX: Final = 1000


class Lag:
    """Input that the source is known to have and the table does not. Times are a monotonic clock's seconds.

    Seconds: the time since offsets beyond the last commit were first seen, when Spark reported the source's end or
    started a micro-batch that reaches beyond it. The oldest row that is not committed is older: by up to the time
    between two looks at the source, and, if it waited before this process started, by that wait.
    """

    def __init__(self) -> None:
        self._committed: Offsets | None = None
        self._end: Offsets = {}
        self._sightings: list[tuple[float, Offsets]] = []

    def begin_at(self, offsets: Offsets) -> None:
        """Everything before `offsets` counts as committed, for partitions of which nothing is known yet."""
        self._committed = {**offsets, **(self._committed or {})}

    def seen(self, at: float, offsets: Offsets) -> None:
        """The source has rows up to `offsets`."""
        end = {**self._end, **{each: max(offset, self._end.get(each, 0)) for each, offset in offsets.items()}}
        if end == self._end:
            return
        self._end = end
        self._sightings.append((at, end))
        if len(self._sightings) > _SIGHTINGS_MAX:  # no commit comes: every other one is enough
            del self._sightings[1::2]

    def ends_at(self, offsets: Offsets) -> bool:
        """Whether these ends were seen before."""
        return self._end == offsets

    def committed(self, offsets: Offsets) -> None:
        """The table has the rows up to `offsets`."""
        self._committed = {**(self._committed or {}), **offsets}
        self._sightings = [(at, end) for at, end in self._sightings if self._beyond(end)]

    @property
    def position(self) -> Offsets:
        """The next offset to commit of each partition that is known."""
        return dict(self._committed or {})

    @property
    def offsets(self) -> int | None:
        """Offsets between the last commit and the source's end as last seen; None while either is unknown."""
        return None if self._committed is None or not self._end else self._beyond(self._end)

    def seconds(self, now: float) -> float | None:
        """Time since rows that are not committed were first seen, 0 if there are none; None before a first look."""
        if self._committed is None or not self._end:
            return None
        return now - self._sightings[0][0] if self._sightings and self._beyond(self._end) else 0.0

    def partitions(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(topic, partition) → (next offset to commit, the source's end as last seen); empty before a first look."""
        committed = self._committed or {}
        return {each: (committed.get(each, 0), end) for each, end in self._end.items()}

    def _beyond(self, end: Offsets) -> int:
        committed = self._committed or {}
        return sum(max(0, offset - committed.get(partition, 0)) for partition, offset in end.items())


def source_end(last_progress: Any) -> Offsets | None:
    """The topics' end in Spark's progress of a query; None if it does not say, as for every source but Kafka."""
    for source in () if last_progress is None else last_progress.sources:
        if kafka_offsets(source.endOffset) is not None and (latest := kafka_offsets(source.latestOffset)) is not None:
            return latest
    return None


_WINDOW: Final = 20
"""Micro-batches over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Times are seconds by a clock that is never set back."""

    _recent: deque[tuple[float, float, int]] = field(default_factory=lambda: deque(maxlen=_WINDOW))

    def add(self, started: float, ended: float, rows: int) -> None:
        """Note a micro-batch that has ended."""
        self._recent.append((started, ended, rows))

    @property
    def rows_per_second(self) -> float:
        """From the start of the first to the end of the last; 0 before the first one."""
        if not self._recent:
            return 0.0
        seconds = self._recent[-1][1] - self._recent[0][0]
        return sum(rows for _, _, rows in self._recent) / seconds if seconds > 0 else 0.0
