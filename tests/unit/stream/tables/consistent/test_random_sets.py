"""Every set that is said is the database at one moment, whatever crashes, waits, is sent again or comes late."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bucketingest.storage import Storage, open_storage
from bucketingest.stream.tables.consistent.cuts import ConsistentSet
from bucketingest.stream.tables.consistent.set_file import SetFile
from support.consistent.database import ENDS, Database, Kafka, rows_before, topic_of
from support.consistent.job import PATH, Clock, Job, Table, pick

SCHEDULES = int(os.environ.get("BUCKETINGEST_EXAMPLES", "40"))
STEPS = 150
EVENTS = {
    "transaction": 20,
    "step": 60,
    "turn": 25,
    "look": 20,
    "late": 6,
    "comes": 12,
    "again": 2,
    "park": 3,
    "roll back": 1,
    "crash": 2,
    "crash in commit": 2,
    "stale driver": 2,
    "leaves": 1,
    "comes back": 3,
}


class Play:
    """One schedule."""

    def __init__(self, seed: int, storage: Storage) -> None:
        self.source, self.storage = Random(seed), storage
        self.kafka, self.clock = Kafka(), Clock()
        self.database = Database(self.kafka, self.source, [f"t{n}" for n in range(self.source.randint(2, 5))])
        self.kafka.logs = {ENDS: [], **{topic_of(name): [] for name in self.database.tables}}
        self.tables = {topic_of(name): Table(topic_of(name)) for name in self.database.tables}
        self.away: dict[str, Table] = {}
        self.stale: Job | None = None
        self.judged = 0
        self.last: ConsistentSet | None = None
        self.dead: set[tuple[str, str]] = set()
        self.database.snapshot()
        self.job = self.start()

    def start(self) -> Job:
        return Job(self.kafka, self.tables, self.storage, self.clock)

    def play(self, event: str) -> None:
        topic, most = self.source.choice(sorted(self.tables)), self.source.choice([1, 3, 1000])
        simple: dict[str, Callable[[], object]] = {
            "transaction": self.database.transaction,
            "again": self.database.again,
            "step": lambda: self.job.step(topic, most),
            "turn": self.job.keeper.turn,
            "look": self.job.look,
            "late": lambda: self.kafka.late.setdefault(self.source.choice([topic, ENDS]), 0),
            "comes": self.kafka.late.clear,
            "park": lambda: self.job.park(topic),
            "roll back": lambda: self.roll_back(topic),
            "crash": self.crash,
            "crash in commit": lambda: self.crash_in_commit(topic, most),
            "stale driver": (self.stale or self.job).keeper.turn,
            "leaves": lambda: self.leave(topic),
            "comes back": self.come_back,
        }
        simple[event]()

    def crash_in_commit(self, topic: str, most: int) -> None:
        self.job.crash_in_commit(topic, most)
        self.crash()

    def crash(self) -> None:
        self.stale, self.job = self.job, self.start()

    def roll_back(self, topic: str) -> None:
        """By another writer."""
        if self.tables[topic].instants:
            self.dead.add((topic, max(self.tables[topic].instants)))
        self.job.roll_back(topic)

    def leave(self, topic: str) -> None:
        """The table moves to another resource."""
        if len(self.tables) > 2:
            self.away[topic] = self.tables.pop(topic)
            self.job = self.start()

    def come_back(self) -> None:
        """That one's commits may have ended anywhere."""
        if not self.away:
            return
        topic, table = self.away.popitem()
        known, end = max(table.instants.values(), default=0), self.kafka.end(topic)
        if self.source.random() < 0.5 and end > known:
            table.instants[self.clock.instant()] = self.source.randint(known, end)
        self.tables[topic] = table
        self.job = self.start()

    def run(self) -> None:
        for _ in range(STEPS):
            grew = {topic: len(log) for topic, log in self.kafka.logs.items()}
            event = pick(self.source, EVENTS)
            self.play(event)
            for topic in self.kafka.late:
                self.kafka.late[topic] += len(self.kafka.logs[topic]) - grew[topic]
            self.judge(by_stale=event == "stale driver" and self.stale is not None)
        self.kafka.late.clear()
        self.database.settle()
        for _ in range(30):
            for topic in sorted(self.tables):
                self.job.step(topic, 1000)
            self.job.look()
            self.job.keeper.turn()
            self.judge()

    def judge(self, *, by_stale: bool = False) -> None:
        said = SetFile(self.storage, PATH).newest()
        found = None if said is None else said.newest
        if found is None:
            assert self.last is None, "it was taken back"
            return
        assert self.last is None or self.last.is_before(found), "it went back"
        if found == self.last:
            return
        self.last = found
        self.judged += 1
        for topic, instant in found.tables.items():
            if instant is not None and (topic, instant) in self.dead:
                assert by_stale, "nobody else may take it for complete"
                continue  # readers see that it is not on the timeline
            offset = 0 if instant is None else (self.tables | self.away)[topic].instants[instant]
            wanted = self.database.states[found.last.id][topic.removeprefix("shop.")]
            assert rows_before(self.kafka, topic, offset) == wanted, (topic, found)


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_a_set_is_the_database_at_one_moment(seed: int, tmp_path: Path) -> None:
    play = Play(seed, open_storage(str(tmp_path)))
    play.run()
    if play.database.states:
        assert play.last is not None, "it is never said"
        assert play.last.last.id == max(play.database.states, key=int), "at rest it is the newest transaction"
        assert play.last.tables.keys() == play.tables.keys()
