"""The job of many tables as far as it matters for sets: tables whose commits are played, and all that decides where
they stop and what is said of them. Nothing runs beside anything: a seed decides what comes next.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, cast

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.storage import Storage
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.tables.consistent.ends import EndsInOrder
from bucketingest.stream.tables.consistent.keeper import SetKeeper, TableCuts
from bucketingest.stream.tables.consistent.set_file import SetFile
from bucketingest.stream.tables.shares import TopicOffsets, next_range
from bucketingest.stream.topics.continuity import offsets_of, text_of
from bucketingest.stream.topics.transactions import WholeTransactions
from bucketingest.write.coordinator_api import Commit
from bucketingest.write.instants.source_range import SourceRange
from support.consistent.database import ENDS, Kafka

PATH: Final = "/lake/{topic}"


@dataclass
class Table:
    """What outlives a job: the instants, each with the offset up to which it has the topic."""

    topic: str
    instants: dict[str, int] = field(default_factory=dict)

    @property
    def position(self) -> SourceRange | None:
        if not self.instants:
            return None
        end = text_of({(self.topic, 0): self.instants[max(self.instants)]})
        return SourceRange("kafka", None, end, "played", len(self.instants))


class Clock:
    """Makes the times of instants."""

    def __init__(self) -> None:
        self.now = 0

    def instant(self) -> str:
        self.now += 1
        return f"{20270101000000000 + self.now}"


@dataclass
class Open:
    """A table that the job has open, and its board, which stays."""

    cuts: TableCuts
    board: ProgressBoard
    is_open: bool = False


class Job:
    """One attempt of the driver."""

    def __init__(self, kafka: Kafka, tables: dict[str, Table], storage: Storage, clock: Clock) -> None:
        self.kafka, self.tables, self.clock = kafka, tables, clock
        ends = EndsInOrder(cast("Any", kafka), kafka.messages, json.loads, stable=True)
        self.keeper = SetKeeper(
            ENDS, ends, SetFile(storage, PATH), interval=0.0, read=kafka.messages, clock=lambda: float(clock.now)
        )
        self.opened: dict[str, Open] = {}

    def look(self) -> None:
        """The main thread looks at the topics."""
        self.keeper.seen({topic: self._now(topic) for topic in (*self.tables, ENDS)})

    def step(self, topic: str, most: int) -> None:
        """A table's thread writes its next micro-batch, if there is one."""
        table, opened = self.tables[topic], self._open(topic)
        if opened.cuts.is_done:
            return
        now = self._now(topic)
        wanted = opened.cuts.whole(table.position, next_range(table.position, topic, now, most, 0), now)
        end = offsets_of(wanted).get((topic, 0), 0)
        if end > offsets_of(table.position).get((topic, 0), 0):
            instant = self.clock.instant()
            table.instants[instant] = end
            opened.board.committed(Commit(instant, instant, 1, 1, 1, 1, 0.0, 0.0))
            opened.cuts.reached(table.position, now)

    def crash_in_commit(self, topic: str, most: int) -> None:
        """As `step`, but the job ends between the commit and all that follows."""
        table, opened = self.tables[topic], self._open(topic)
        if not opened.cuts.is_done:
            now = self._now(topic)
            wanted = opened.cuts.whole(table.position, next_range(table.position, topic, now, most, 0), now)
            end = offsets_of(wanted).get((topic, 0), 0)
            if end > offsets_of(table.position).get((topic, 0), 0):
                table.instants[self.clock.instant()] = end

    def park(self, topic: str) -> None:
        """The table is in trouble, and is opened again with its next step."""
        if topic in self.opened:
            self.opened[topic].is_open = False
            self.opened[topic].cuts.lost()

    def roll_back(self, topic: str) -> None:
        """Another writer rolls the newest instant back; the table is parked with that."""
        if self.tables[topic].instants:
            del self.tables[topic].instants[max(self.tables[topic].instants)]
        self.park(topic)

    def _open(self, topic: str) -> Open:
        table = self.tables[topic]
        if topic not in self.opened:
            board = ProgressBoard(clock=utc_now)
            keeper = self.keeper
            whole = WholeTransactions(keeper.ends, self.kafka.messages, json.loads, wait_seconds=1e9)
            self.opened[topic] = Open(TableCuts(keeper, topic, whole, board), board)
        opened = self.opened[topic]
        if not opened.is_open:
            opened.cuts.opened(max(table.instants, default=None))
            opened.cuts.reached(table.position, self._now(topic))
            opened.is_open = True
        return opened

    def _now(self, topic: str) -> TopicOffsets:
        return TopicOffsets("id", {0: 0}, {0: self.kafka.end(topic)})


def pick(source: Random, weights: dict[str, int]) -> str:
    """What comes next."""
    return source.choices(list(weights), list(weights.values()))[0]
