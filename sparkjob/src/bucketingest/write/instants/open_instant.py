"""The one instant that a coordinator has open: its complete micro-batches, and the one that was started."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.write.instants.records import LedgerEntry
from bucketingest.write.instants.source_range import SourceRange


@dataclass(slots=True)
class OpenInstant:
    """An instant between its request and its decision. Micro-batches are numbered from 1."""

    request_time: str
    opened: float
    """When its interval starts: seconds by a clock that cannot be set. Its request time is by the wall clock, which can
    be set, and may be ahead of it."""
    entries: list[LedgerEntry] = field(default_factory=list)
    """Micro-batches whose rows are all in storage, in order."""
    started: SourceRange | None = None
    """The micro-batch after them, if it was started."""

    @property
    def sequence(self) -> int:
        """Number of the micro-batch that is written now or next."""
        return len(self.entries) + 1

    @property
    def first(self) -> SourceRange | None:
        """Its first range."""
        return self.entries[0].source_range if self.entries else self.started

    @property
    def position(self) -> SourceRange | None:
        """The last complete range."""
        return self.entries[-1].source_range if self.entries else None

    def age(self, now: float) -> timedelta:
        """Time since `opened`."""
        return timedelta(seconds=now - self.opened)

    @property
    def files(self) -> int:
        """Number of write statuses that its commit will list."""
        return sum(len(entry.statuses) for entry in self.entries)

    def is_due(self, now: float, interval: timedelta | None, files_max: int) -> bool:
        """Whether it can and should be committed; interval None: after each micro-batch."""
        if not self.entries or self.started is not None:
            return False
        return interval is None or self.age(now) >= interval or self.files >= files_max


def resumed_at(request_time: str, now: datetime, forward: float, interval: timedelta | None) -> float:
    """When an instant of an earlier attempt was opened, by this attempt's forward clock. Its age is from its request
    time, at most one interval: a clock that steps or is wrong delays its commit by one interval at most.
    """
    age = max(timedelta(), now - parse_time(request_time))
    return forward - min(age, interval or age).total_seconds()
