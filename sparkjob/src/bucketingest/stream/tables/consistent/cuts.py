"""Which commits of many tables belong together: each of them has all of the database's transactions up to one place,
and nothing behind it. No table waits for another one to find that out. Pure, but for a lock.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from bucketingest.decode.debezium.transactions import Run
from bucketingest.stream.tables.consistent.places import Named, Place

CUTS_MAX: Final = 64
"""Places, the newest, at which tables may still arrive."""
JOIN_TURNS: Final = 10
"""So many turns a place waits for tables that no set has had yet."""


@dataclass(frozen=True, slots=True)
class ConsistentSet:
    """Commits that belong together."""

    topic_id: str
    """Of the transaction topic."""
    last: Named
    """The last transaction that they have."""
    tables: Mapping[str, str | None]
    """Request time of the instant by topic; None: the table is empty."""

    def is_before(self, other: ConsistentSet | None) -> bool:
        """Whether the other one has more transactions, or the same."""
        return other is not None and self.topic_id == other.topic_id and self.last.offset <= other.last.offset


@dataclass(slots=True)
class At:
    """Where a table is."""

    offset: int
    """It has its topic's messages before that."""
    run: Run | None
    """The last of these, of a transaction if there is one."""
    instant: str | None
    turn: int = 0
    """Its topic had nothing more after that turn had begun."""


@dataclass(slots=True)
class _Cut:
    place: Place
    turn: int
    tables: dict[str, str | None] = field(default_factory=dict)

    def take(self, topic: str, at: At) -> None:
        """Take the table's instant, if it is of this place and the first one."""
        if topic not in self.tables and self.place.is_of(topic, at.run, has_all=self.turn <= at.turn):
            self.tables[topic] = at.instant


class Cuts:
    """Safe to share: tables say where they are, and one thread moves on and chooses."""

    def __init__(self) -> None:
        self.newest: ConsistentSet | None = None
        """The set that was chosen last."""
        self.turn = 0
        """How often tables may have gone on to a newer place; 0: there is none yet."""
        self._lock = threading.Lock()
        self._cuts: deque[_Cut] = deque(maxlen=CUTS_MAX)
        self._tables: dict[str, At] = {}

    def move(self, place: Place) -> None:
        """The tables may go on to this place."""
        with self._lock:
            self.turn += 1
            newest = self._cuts[-1].place if self._cuts else None
            is_new = newest is None or (newest.topic_id, newest.offset) != (place.topic_id, place.offset)
            if place.last is None or place.is_again or not is_new:
                return
            found = _Cut(place, self.turn)
            for topic, at in self._tables.items():
                found.take(topic, at)
            self._cuts.append(found)

    def at(self, topic: str, at: At) -> None:
        """A table is there."""
        with self._lock:
            self._tables[topic] = at
            for cut in self._cuts:
                cut.take(topic, at)

    def looked(self, turn: int, ends: Mapping[str, int]) -> None:
        """The topics end there, by a question that was asked after the turn had begun."""
        with self._lock:
            for topic, at in self._tables.items():
                if at.turn < turn and at.offset == ends.get(topic):
                    at.turn = turn
                    for cut in self._cuts:
                        cut.take(topic, at)

    def forget(self, topic: str) -> None:
        """Nobody knows which instants of the table there are."""
        with self._lock:
            self._tables.pop(topic, None)
            for cut in self._cuts:
                cut.tables.pop(topic, None)

    def choose(self, topics: Collection[str]) -> ConsistentSet | None:
        """A set with more transactions than the last one, if there is one now. `topics`: those that there are.

        What was in the last set is in this one, unless the topic is gone. A table that is new is waited for, but not
        for long.
        """
        with self._lock:
            known = set() if self.newest is None else self.newest.tables.keys() & set(topics)
            for cut in reversed(self._cuts):
                tables = {topic: cut.tables[topic] for topic in sorted(cut.tables.keys() & set(topics))}
                assert cut.place.last is not None, "others are no cuts"
                found = ConsistentSet(cut.place.topic_id, cut.place.last, tables)
                if found.is_before(self.newest):
                    return None
                waits = self.turn - cut.turn < JOIN_TURNS
                if tables and tables.keys() >= (set(topics) if waits else known):
                    self.newest = found
                    return found
            return None
