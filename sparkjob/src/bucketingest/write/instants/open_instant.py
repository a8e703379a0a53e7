"""The one instant that a coordinator has open, as far as it got: micro-batches that are whole, and one begun."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from bucketingest.hudi.timeline.instant import parse_time
from bucketingest.write.instants.records import LedgerEntry
from bucketingest.write.instants.source_range import SourceRange


@dataclass(slots=True)
class OpenInstant:
    """An instant between its request and its decision. Micro-batches are numbered from 1."""

    request_time: str
    opened: float
    """From when its interval counts: seconds by a clock that nobody sets. Its name is by one that others set, and ahead
    of it in a table that is."""
    entries: list[LedgerEntry] = field(default_factory=list)
    """Micro-batches whose rows are all in storage, in order."""
    begun: SourceRange | None = None
    """The micro-batch after them, if it was begun."""

    @property
    def sequence(self) -> int:
        """Number of the micro-batch that is written now or next."""
        return len(self.entries) + 1

    @property
    def first(self) -> SourceRange | None:
        """The range it begins with."""
        return self.entries[0].source_range if self.entries else self.begun

    @property
    def position(self) -> SourceRange | None:
        """The last range that is whole."""
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
        if not self.entries or self.begun is not None:
            return False
        return interval is None or self.age(now) >= interval or self.files >= files_max


def resumed_at(request_time: str, now: datetime, forward: float, interval: timedelta | None) -> float:
    """When an instant of an earlier attempt was opened, by this attempt's forward clock: its age by its name, as far as
    that can be true. A clock that steps or is wrong then delays its commit by one interval at most.
    """
    age = max(timedelta(), now - parse_time(request_time))
    return forward - min(age, interval or age).total_seconds()
