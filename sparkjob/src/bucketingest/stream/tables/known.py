"""A table of a running job, and what its topic has now."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.stream.tables.one_table import OneTable
from bucketingest.stream.tables.shares import TopicOffsets, waiting


@dataclass(slots=True)
class KnownTable:
    """What the job's main thread knows of it."""

    table: OneTable
    now: TopicOffsets
    busy: Future[None] | None = None
    began: float = 0.0
    """When it became busy with a micro-batch."""
    input_at: float = field(default_factory=forward_seconds)
    """When it had input last."""
    is_awake: bool = False
    """Whether it was idle, and is open for its table services."""

    @property
    def is_busy(self) -> bool:
        """Whether a thread works on it."""
        return self.busy is not None and not self.busy.done()

    def waiting(self) -> int:
        """How many offsets it lacks."""
        found = waiting(self.table.position, self.table.topic, self.now)
        if found:
            self.input_at, self.is_awake = forward_seconds(), False
        return found

    @property
    def is_done(self) -> bool:
        """Whether it may not have what waits, as that is behind the place where all tables stop."""
        return self.table.cuts is not None and self.table.cuts.is_done

    def messages(self) -> int:
        """How many the topic has: of which table the most may wait, before its position is known."""
        return sum(self.now.ends.values()) - sum(self.now.begins.values())


def closed(known: KnownTable) -> None:
    """Wait for what the table does, and close it."""
    if known.busy is not None:
        known.busy.exception()
    known.table.close()
