"""Reads the ENDs of the transaction topic in their order, up to a place that moves when it is told to. Tables end their
micro-batches at transactions that ended before that place: so all of them stop at the same one, each at its own time.
"""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from bucketingest.decode.debezium.transactions import Counts, Run, count_of, of_postgresql
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.errors import SourceOptionsRefused, SourceUnreachable
from bucketingest.stream.tables.consistent.places import Named, Place
from bucketingest.stream.topics.brokers import Brokers, Topic
from bucketingest.stream.topics.ends import COUNTS_MAX, MARGIN_MS, READ_AT_ONCE, READ_MAX, Ends, Message, Parse, Read
from bucketingest.write.instants.source_range import Offsets

TABLES_OF_DATABASE_MAX: Final = 20_000
_SEVERAL: Final = (
    "the topic {} has several partitions: nothing says in which order transactions ended. Make it again with one "
    "partition, or set spec.commit.at to any"
)
_BACK: Final = (
    "the topic {} ends at offset {}, and was read up to {}: it was truncated, as by an unclean leader election. "
    "It goes on when there is more"
)
_TOO_MANY: Final = "the topic {} has transactions of more than {} tables: that is too many to say which are consistent"


class _EndsBefore(Ends):
    """Those before a place, as far as they are asked for."""

    offset: int = 0

    def until(self, topics: Mapping[str, Topic]) -> Offsets:
        return {place: min(end, self.offset) for place, end in super().until(topics).items()}


class EndsInOrder:
    """As `KnownEnds`, for any thread; `begin` and `read_on` are called by one."""

    def __init__(self, brokers: Brokers, read: Read, parse: Parse, *, stable: bool) -> None:
        """As `Ends`. `brokers`: they have the transaction topic alone."""
        self._brokers, self._read, self._parse, self._stable = brokers, read, parse, stable
        self._recent: dict[str, Mapping[str, int]] = {}
        self._times: dict[str, int] = {}
        self._since: float = float("inf")
        """From this time on, in ms, all of them are in `_recent`."""
        self._older = _EndsBefore(brokers, read, parse, stable=stable)
        self._asking = threading.Lock()
        """The brokers take one question at a time."""
        self.counts: Counts = ChainMap[str, Mapping[str, int]](self._recent, self._older.counts)
        self._place = Place()
        self._named: dict[str, Named] = {}
        self._is_remembered = False
        self.is_behind = False
        """Whether there was more than it has read."""

    @property
    def place(self) -> Place:
        """How far it has read."""
        return replace(self._place, named=dict(self._named))

    def begin(self, place: Place) -> None:
        """Go on from there."""
        self._place, self._named = place, dict(place.named)

    def read_on(self) -> None:
        """Read what has come, but not too much. Raises SourceUnreachable, SourceOptionsRefused."""
        with self._asking:
            self._read_on()

    def _read_on(self) -> None:
        topics = self._brokers.topics()
        ((name, topic),) = topics.items()
        if len(topic.partitions) != 1:
            raise SourceOptionsRefused(_SEVERAL.format(name))
        at = (name, 0)
        begin, end = self._brokers.begins(topics)[at], self._brokers.ends(topics, stable=self._stable)[at]
        if self._place.topic_id != topic.id:
            self.begin(Place(topic.id, begin))
            self._recent.clear()
        if end < self._place.offset:
            raise SourceUnreachable(_BACK.format(name, end, self._place.offset))
        if not self._is_remembered:
            for _, timestamp, value in self._read_from(at, max(begin, self._place.offset - COUNTS_MAX)):
                if (ended := self._ended(value)) is not None:
                    self._keep(*ended, timestamp)
            self._is_remembered = True
        if begin > self._place.offset:  # whose they were, nobody knows
            self.begin(replace(self._place, offset=begin, since=0, named={}))
        self._older.offset = self._place.offset
        until = min(end, self._place.offset + READ_MAX)
        while (start := self._place.offset) < until:
            upto = min(until, start + READ_AT_ONCE)
            for offset, timestamp, value in list(self._read(TopicRange(name, 0, start, upto))):  # whole, or not
                self._note(offset, timestamp, value)
            self._place = replace(self._place, offset=upto)
            self._older.offset = upto
        if len(self._named) > TABLES_OF_DATABASE_MAX:
            raise SourceOptionsRefused(_TOO_MANY.format(name, TABLES_OF_DATABASE_MAX))
        self.is_behind = until < end

    def look_for(self, run: Run) -> None:
        """As `KnownEnds`."""
        if run.id is None or run.id in self.counts or run.timestamp - MARGIN_MS >= self._since:
            return
        with self._asking:
            self._older.look_for(run)

    def look(self) -> str:
        """As `KnownEnds`."""
        with self._asking:
            return self._older.look()

    def close(self) -> None:
        """As `KnownEnds`."""
        self._older.close()

    def _read_from(self, at: tuple[str, int], start: int) -> list[Message]:
        found: list[Message] = []
        for first in range(start, self._place.offset, READ_AT_ONCE):
            found += self._read(TopicRange(*at, first, min(first + READ_AT_ONCE, self._place.offset)))
        return found

    def _note(self, offset: int, timestamp: int, value: bytes | None) -> None:
        """A message, in order."""
        now = self._place
        if not now.since:
            now = replace(now, since=timestamp)
        if (ended := self._ended(value)) is not None:
            id_, counts = ended
            found = Named(id_, 0, offset, timestamp)
            is_again = id_ in self._recent and not (now.last is not None and now.last.id == id_)
            self._keep(id_, counts, timestamp)
            self._named |= {table: replace(found, count=count) for table, count in counts.items()}
            now = replace(now, last=now.last if is_again else found, is_again=is_again)
        self._place = now

    def _ended(self, value: bytes | None) -> tuple[str, dict[str, int]] | None:
        """The transaction whose END it is, and its events by table."""
        said = {} if value is None else count_of(self._parse(value))
        return next(reversed(said.items()), None)

    def _keep(self, id_: str, counts: dict[str, int], timestamp: int) -> None:
        if not self._recent:
            self._since = timestamp
        for name in (of_postgresql(id_), id_):
            self._recent.pop(name, None)
            self._recent[name], self._times[name] = counts, timestamp
        while len(self._recent) > 2 * COUNTS_MAX:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            self._since = self._times.pop(oldest) + 1
