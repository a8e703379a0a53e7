"""A database that is played, its connector, and the topics they make: what many tables of one resource read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.topics.brokers import Topic
from bucketingest.stream.topics.ends import Message
from bucketingest.write.instants.source_range import Offsets

ENDS: Final = "shop.transaction"
STEP_MS: Final = 1_000
"""Between two events of the source."""
Rows = dict[str, int]


def topic_of(table: str) -> str:
    """Of a table of the database."""
    return f"shop.{table}"


@dataclass
class Kafka:
    """Topics with one partition each. Of each some of the newest messages may be on their way: nobody sees them yet."""

    logs: dict[str, list[tuple[int, bytes | None]]] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    begin: dict[str, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)

    def send(self, topic: str, at: int, value: Any) -> None:
        self.logs.setdefault(topic, []).append((at, None if value is None else json.dumps(value).encode()))

    def end(self, topic: str) -> int:
        return len(self.logs.get(topic, [])) - self.late.get(topic, 0)

    # -- as `Brokers` of the transaction topic ---------------------------------------------------------------------

    def topics(self) -> dict[str, Topic]:
        return {ENDS: Topic(self.ids.get(ENDS, "id"), (0,))}

    def begins(self, topics: Any) -> Offsets:
        return {(name, 0): self.begin.get(name, 0) for name in topics}

    def ends(self, topics: Any, *, stable: bool) -> Offsets:
        assert stable
        return {(name, 0): self.end(name) for name in topics}

    def since(self, topics: Any, timestamp_ms: int) -> Offsets:
        return {
            (name, 0): next((at for at in range(self.end(name)) if self.logs[name][at][0] >= timestamp_ms), 0)
            for name in topics
        }

    def close(self) -> None:
        pass

    def messages(self, wanted: TopicRange) -> Iterator[Message]:
        assert wanted.start >= self.begin.get(wanted.topic, 0), "they are gone"
        assert wanted.until <= self.end(wanted.topic), "nobody can have read these"
        for offset in range(wanted.start, wanted.until):
            yield (offset, *self.logs[wanted.topic][offset])


@dataclass
class Database:
    """Transactions over tables; each row is a number. The connector sends them, and may send the last ones again."""

    kafka: Kafka
    source: Random
    tables: list[str]
    rows: dict[str, Rows] = field(default_factory=dict)
    states: dict[str, dict[str, Rows]] = field(default_factory=dict)
    """All tables after each transaction."""
    _sent: list[tuple[str, list[tuple[str, str, int | None]]]] = field(default_factory=list)
    _repeats: list[tuple[str, list[tuple[str, str, int | None]]]] = field(default_factory=list)
    _now: int = STEP_MS

    def snapshot(self) -> None:
        """Rows that there are before the first transaction."""
        for table in self.tables:
            self.rows[table] = {str(key): 0 for key in range(self.source.randint(0, 4))}
            for key in self.rows[table]:
                self._event(table, key, 0, None)

    def transaction(self) -> None:
        """Some rows of some tables change; or an older transaction is sent again, if there are some to come."""
        if self._repeats:
            self._send(*self._repeats.pop(0))
            return
        id_, changes = str(len(self._sent) + 1), list[tuple[str, str, int | None]]()
        chosen = self.source.sample(self.tables, self.source.randint(1, min(3, len(self.tables))))
        for _ in range(self.source.randint(1, 4)):
            table, key = self.source.choice(chosen), str(self.source.randint(0, 5))
            value = self.source.choice([int(id_), int(id_), None])
            if value is None and key not in self.rows[table]:
                value = int(id_)
            changes.append((table, key, value))
            if value is None:
                del self.rows[table][key]
            else:
                self.rows[table][key] = value
        self.states[id_] = {table: dict(rows) for table, rows in self.rows.items()}
        self._sent.append((id_, changes))
        self._send(id_, changes)

    def again(self) -> None:
        """The connector has crashed: it is going to send its last transactions again."""
        self._now += 5 * STEP_MS
        self._repeats = self._sent[-max(self.source.randint(1, 4), len(self._repeats)) :]  # nothing is left out

    def settle(self) -> None:
        """Send what is to be sent again."""
        while self._repeats:
            self.transaction()

    def _send(self, id_: str, changes: list[tuple[str, str, int | None]]) -> None:
        counts: dict[str, int] = {}
        for table, key, value in changes:
            counts[table] = counts.get(table, 0) + 1
            self._event(table, key, value, (id_, counts[table]))
        said = [{"data_collection": f"inv.{table}", "event_count": count} for table, count in counts.items()]
        self._now += self.source.choice([0, STEP_MS])
        self.kafka.send(ENDS, self._now, {"status": "END", "id": id_, "data_collections": said})

    def _event(self, table: str, key: str, value: int | None, said: tuple[str, int] | None) -> None:
        self._now += self.source.choice([0, STEP_MS])
        event = {
            "op": "r" if said is None else "d" if value is None else "u",
            "key": key,
            "value": value,
            "source": {"connector": "mysql", "db": "inv", "table": table, "snapshot": "false" if said else "true"},
            "transaction": said and {"id": said[0], "total_order": 1, "data_collection_order": said[1]},
        }
        self.kafka.send(topic_of(table), self._now, event)
        if value is None:
            self.kafka.send(topic_of(table), self._now, None)


def rows_before(kafka: Kafka, topic: str, offset: int) -> Rows:
    """What a table has that has a topic's messages up to an offset."""
    rows: Rows = {}
    for _, value in kafka.logs.get(topic, [])[:offset]:
        if value is None:
            continue
        event = json.loads(value)
        if event["op"] == "d":
            rows.pop(event["key"], None)
        else:
            rows[event["key"]] = event["value"]
    return rows
