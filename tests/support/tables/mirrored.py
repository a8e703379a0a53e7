"""A database as one dictionary, the change events that Debezium makes of its changes, and a table that takes them."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import DELETED, EventRules, TruncatedAt
from bucketingest.decode.debezium.placeholders import PLACEHOLDER
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.storage import open_storage
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.write.coordinator_api import Assignment
from bucketingest.write.rows.emptied import deletes_of, slices_to_empty
from bucketingest.write.rows.write_status import WriteStatus
from support.tables.local_writer import LocalWriter

COLUMNS: Final = pa.schema([("id", pa.int64()), ("part", pa.int64()), ("n", pa.int64()), ("big", pa.string())])
_KEYS: Final = 14
_AGAIN_MAX: Final = 12
"""So many events come again after a crash of Debezium."""
Message = tuple[bytes | None, bytes | None]


@dataclass
class ChangingDatabase:
    """Its changes are in the topic: the place of a message is its offset."""

    seed: int
    toasts: bool
    """Whether values may not be sent."""
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    topic: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def change(self) -> None:
        """One change, or a crash of Debezium after some."""
        draw, number = self._random.random(), self._random.randrange(_KEYS)
        old = self.rows.get(number)
        if draw < 0.06:
            self.rows.clear()
            self.topic.append((None, json.dumps({"op": "t", "before": None, "after": None}).encode()))
        elif draw < 0.1:
            self.topic += self.topic[-self._random.randint(1, _AGAIN_MAX) :]
        elif old is None:
            self._insert(number, f"first {len(self.topic)}")
        elif draw < 0.25:
            self._delete(number)
        elif draw < 0.4:
            self._delete(number)
            other = self._random.randrange(_KEYS)
            if other not in self.rows:  # a changed key
                self._insert(other, old["big"])
        else:
            row = {**old, "n": len(self.topic)}
            keeps = self.toasts and self._random.random() < 0.6
            row |= {} if keeps else {"big": f"later {len(self.topic)}"}
            self.rows[number] = row
            self._event("u", number, row | ({"big": PLACEHOLDER} if keeps else {}))

    def _insert(self, number: int, big: str) -> None:
        self.rows[number] = {"id": number, "part": number % 3, "n": len(self.topic), "big": big}
        self._event(self._random.choice("cr"), number, self.rows[number])

    def _delete(self, number: int) -> None:
        before = {"id": number, "part": number % 3, "n": 0, "big": ""}
        del self.rows[number]
        self._event("d", number, None, before)
        self.topic.append((_key(number), None))

    def _event(self, op: str, number: int, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> None:
        event = {"before": before, "after": after, "source": {"lsn": None}, "op": op}
        self.topic.append((_key(number), json.dumps(event, separators=(",", ":")).encode()))


def _key(number: int) -> bytes:
    return json.dumps({"id": number, "part": number % 3}).encode()


class Crash(Exception):
    """The driver is gone: all tasks of a micro-batch have written, and nobody knows."""


class Mirror(LocalWriter):
    """The table, and how it reads the topic."""

    def take(self, topic: Sequence[Message], ends: list[int], *, crashes: bool = False) -> None:
        """One micro-batch of all that is new. `ends`: where each micro-batch so far has ended; gets this one's. Raises
        Crash.
        """
        done = self.coordinator.position
        number = 0 if done is None else done.batch_id + 1
        del ends[number:]
        start = ends[-1] if ends else 0
        keys, values = (pa.array(each, pa.binary()) for each in zip(*topic[start:], strict=True))
        offsets = pa.array(range(start, len(topic)), pa.int64())
        self._messages = pa.RecordBatch.from_arrays([keys, values, offsets], ["key", "value", "offset"])
        self._crashes = crashes
        self.commit(pa.table({}))
        ends.append(len(topic))

    def write(self, rows: pa.Table, assignment: Assignment) -> list[WriteStatus]:
        """As the driver does it: a truncate is found while messages are decoded."""
        messages, deletes = self._messages, pa.table({})
        plan = self.plan(assignment)
        storage = open_storage(str(self.path))
        while True:
            try:
                decoded = _decoder(self.definition).decode(messages)
            except TruncatedAt as found:
                first = messages.column("offset")[0].as_py() if messages.num_rows else 0
                messages = messages.slice(found.offset + 1 - first)
                files = slices_to_empty(storage, plan.pipeline, plan.instant_time, plan.sequence)
                deletes = pa.Table.from_batches(
                    chain.from_iterable(deletes_of(each, plan) for each in files), plan.schema
                )
            else:
                break
        assert decoded.refused == []
        rows = pa.Table.from_batches([decoded.rows])
        if deletes.num_rows:
            gone = deletes.select(COLUMNS.names).append_column(DELETED, pa.array([True] * deletes.num_rows))
            rows = pa.concat_tables([gone, rows])
        statuses = super().write(rows, assignment)
        if self._crashes:
            raise Crash
        return statuses


def _decoder(definition: TableDefinition) -> MessageDecoder:
    keeps = frozenset({"big"}) if definition.fills_unavailable else frozenset[str]()
    rules = EventRules(full=False, stops=False, key=definition.record_key, keeps=keeps)
    blocks = DebeziumDecoder(COLUMNS.append(pa.field(DELETED, pa.bool_())), 1, rules)
    return replace(MessageDecoder(blocks, "", ""), decoded=("value", "key"), empties=True)
