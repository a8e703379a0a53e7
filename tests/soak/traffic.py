"""What goes into the topic while the faults happen, and the table that must come of it.

Every row carries its Kafka partition and offset as columns, so that files can be checked for each offset by itself.
"""

from __future__ import annotations

import functools
import json
import random
import threading
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Message, Producer

TOPIC = "soak"
PARTITIONS = 2
REGIONS = 3
KEYS = 600
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.int64()),
        ("note", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("deleted", pa.bool_()),
    ]
)
DDL = (
    "id STRING, region STRING, ts BIGINT, amount BIGINT, note STRING, kafka_partition INT, kafka_offset BIGINT, "
    "deleted BOOLEAN"
)
_CHUNK_SECONDS = 0.1
_FLUSH_SECONDS = 60.0


@dataclass(slots=True)
class _Key:
    """The state of one key after everything that was sent for it."""

    ts: int
    row: dict[str, Any] | None
    """None: deleted."""


class Traffic(threading.Thread):
    """Sends upserts, deletes, late rows and rows of equal ordering value, until `finish`."""

    def __init__(self, bootstrap_servers: str, seed: int, rows_per_second: int, topic: str = TOPIC) -> None:
        super().__init__(name="traffic", daemon=True)
        self._topic = topic
        self._chance = random.Random(f"traffic {seed}")
        self.rows_per_second = rows_per_second
        """It may be changed while rows are sent."""
        self._producer = Producer(
            {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        self._keys: dict[int, _Key] = {}
        self._ends = [0] * PARTITIONS
        self._over = threading.Event()
        self._failures: list[str] = []
        self.counts = {"upsert": 0, "delete": 0, "late": 0, "equal": 0}

    def run(self) -> None:
        """Send a chunk, wait a moment, and so on."""
        while not self._over.is_set():
            for _ in range(max(1, int(self.rows_per_second * _CHUNK_SECONDS))):
                self._send(*self._next_row())
            self._producer.poll(0)
            self._over.wait(_CHUNK_SECONDS)

    def finish(self) -> None:
        """Stop sending, and wait until the broker has all. Raises RuntimeError if it has not."""
        self._over.set()
        self.join()
        left = self._producer.flush(_FLUSH_SECONDS)
        if left or self._failures:
            raise RuntimeError(f"{left} messages not acknowledged, {len(self._failures)} failed: {self._failures[:3]}")

    @property
    def ends(self) -> dict[str, int]:
        """Next offset of each partition, keyed as Spark does."""
        return {str(partition): end for partition, end in enumerate(self._ends)}

    def expected(self) -> pa.Table:
        """The table that results from all rows sent."""
        rows = [key.row for key in self._keys.values() if key.row is not None]
        return pa.Table.from_pylist(rows, SCHEMA)

    def _next_row(self) -> tuple[int, dict[str, Any]]:
        number = self._chance.randrange(KEYS)
        known = self._keys.get(number)
        what = self._chance.choices(("upsert", "delete", "late", "equal"), (80, 8, 8, 4))[0]
        if known is None or (what == "late" and (known.ts < 2 or known.row is None)):
            what = "upsert"  # a late row of a deleted key comes back if a compaction has forgotten the delete meanwhile
        newest = 0 if known is None else known.ts
        if what == "late":
            ts = self._chance.randrange(1, newest)
        elif what == "equal":
            ts = newest
        else:
            ts = newest + self._chance.randint(1, 3)
        self.counts[what] += 1
        partition = number % PARTITIONS
        row = {
            "id": f"key-{number:05d}",
            "region": f"r{number % REGIONS}",
            "ts": ts,
            "amount": self._chance.randrange(1_000_000),
            "note": f"{what} {self._chance.randrange(1000)}",
            "kafka_partition": partition,
            "kafka_offset": self._ends[partition],
            "deleted": what == "delete",
        }
        if known is None or ts >= known.ts:
            self._keys[number] = _Key(ts, None if row["deleted"] else row)
        return partition, row

    def _send(self, partition: int, row: dict[str, Any]) -> None:
        self._ends[partition] += 1
        self._producer.produce(
            self._topic,
            key=row["id"].encode(),
            value=json.dumps(row).encode(),
            partition=partition,
            on_delivery=functools.partial(self._delivered, row["kafka_offset"]),
        )

    def _delivered(self, offset: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
        elif message.offset() != offset:
            self._failures.append(f"a row that says offset {offset} has offset {message.offset()}")


def hudi_rows(number: int, count: int = 20) -> pa.Table:
    """Rows that Hudi's own writer upserts: keys that no message has; each write updates half of the one before."""
    first = number * count // 2
    rows = [
        {
            "id": f"hudi-{key:05d}",
            "region": f"r{key % REGIONS}",
            "ts": number,
            "amount": number * 1000 + key,
            "note": f"write {number} of Hudi",
            "kafka_partition": -1,
            "kafka_offset": -1,
            "deleted": False,
        }
        for key in range(first, first + count)
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
