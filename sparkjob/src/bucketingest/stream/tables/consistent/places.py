"""What the ENDs on Debezium's transaction topic say up to a place: which transaction was the last one of each table of
the database. A table that has that transaction, and nothing behind it, is as the database was there. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bucketingest.decode.debezium.transactions import Run, of_postgresql

SLACK_MS: Final = 500
"""So much may an END have an older time than an event of its transaction: brokers may write the time."""
_NO_LETTER: Final = re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Named:
    """The last transaction that changed a table of the database."""

    id: str
    count: int
    """Of its events of the table."""
    offset: int
    """Of its END."""
    timestamp: int
    """Of that message, ms."""

    def ends_with(self, run: Run) -> bool:
        """Whether these are its last events. Those that Debezium sends again after a crash come later than the END."""
        is_same = run.id in {self.id, of_postgresql(self.id)} and run.order == self.count
        return is_same and run.timestamp <= self.timestamp + SLACK_MS


@dataclass(frozen=True, slots=True)
class Place:
    """How far the transaction topic was read, and what it said."""

    topic_id: str = ""
    offset: int = 0
    """Messages before it were read."""
    since: int = 0
    """Time of the first message of which nothing after it is unknown, ms."""
    named: Mapping[str, Named] = field(default_factory=dict)
    """By the database's name of a table. One that is absent had no transaction since then."""
    last: Named | None = None
    """The last transaction, of whatever tables; its count is 0."""
    is_again: bool = False
    """Whether Debezium is sending older transactions again: tables go back, and forth, one after the other."""

    def is_of(self, topic: str, run: Run | None, *, has_all: bool) -> bool:
        """Whether a table is as the database was here. `run`: the last events that it has, of a transaction if it has
        any. `has_all`: whether it has all that its topic had of transactions up to here, and of none.
        """
        found = [self.named[name] for name in self._names(topic, run) if name in self.named]
        if not found:
            return has_all and (run is None or run.id is None or run.timestamp <= self.since)
        return run is not None and max(found, key=lambda each: each.offset).ends_with(run)

    def _names(self, topic: str, run: Run | None) -> list[str]:
        """What ENDs may call the table: the events say it, else the topic's name, which ends with it."""
        if run is not None and run.tables:
            return list(run.tables)
        plain = _NO_LETTER.sub("_", topic)
        return [name for name in self.named if plain.endswith("_" + _NO_LETTER.sub("_", name))]
