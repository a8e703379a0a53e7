"""Which messages of a topic partition are read, and whether those that are missing are lost: offsets are not dense, as
compaction and transactions leave gaps, and a gap looks alike if the topic's beginning was deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bucketingest.decode.kafka.errors import TopicInDoubt


class TopicRange(NamedTuple):
    """Messages of a topic partition, by their offsets."""

    topic: str
    partition: int
    start: int
    until: int
    """The first one that is not read."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.start} to {self.until}"


class Cursor:
    """How far a range is read. Pure."""

    def __init__(self, wanted: TopicRange) -> None:
        self.wanted = wanted
        self.next = wanted.start
        self.gap: int | None = None
        """The first offset that had no message."""

    @property
    def at_end(self) -> bool:
        """Whether no more messages are of the range."""
        return self.next >= self.wanted.until

    def take(self, count: int, offset_of: Callable[[int], int]) -> int:
        """So many messages came; so many of them are of the range. `offset_of`: of one of them, by its place; mostly
        only the first and the last are asked for. Raises TopicInDoubt.
        """
        if not count:
            return 0
        if offset_of(0) == self.next and offset_of(count - 1) == self.next + count - 1 < self.wanted.until:
            self.next += count
            return count
        for at in range(count):
            if self.at_end:  # a gap behind the range is none of it
                return at
            offset = offset_of(at)
            if offset < self.next:
                raise TopicInDoubt(f"{self.wanted}: offset {offset} came when {self.next} was due")
            self._skip_to(offset)
            if self.at_end:
                return at
            self.next += 1
        return count

    def ended_at(self, offset: int) -> None:
        """The topic has no message from here on, for now."""
        self._skip_to(offset)

    def check(self, beginning: int) -> None:
        """The range is read, and the topic begins here now. Raises TopicInDoubt if messages may be lost."""
        if self.gap is not None and self.gap < beginning:
            raise TopicInDoubt(f"{self.wanted}: no message at {self.gap}, and the topic begins at {beginning} now")

    def _skip_to(self, offset: int) -> None:
        if offset > self.next:
            if self.gap is None:
                self.gap = self.next
            self.next = offset
