"""Made-up orders for the Kafka demo, the same for the same seed; what a table must hold after them; and a thread that
fills a topic with them at an even pace, beside the ingestion.
"""

from __future__ import annotations

import json
import random
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bucketingest.cli.errors import CommandError
from bucketingest.exit_codes import ExitCode

REGIONS = ("north", "south", "east", "west")
_DELETED_SHARE = 0.02
_NEW_SHARE = 0.4


@dataclass
class Orders:
    """Makes messages and keeps the rows that result from them: order id -> (amount, version)."""

    seed: int = 1
    made: int = 0
    rows: dict[str, tuple[float, int]] = field(default_factory=dict)
    _known: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - made-up rows

    def messages(self, count: int) -> Iterator[tuple[bytes, bytes]]:
        """Key and JSON value of the next messages: new orders, later versions of known ones, and deletes."""
        for _ in range(count):
            yield self._next()

    def _next(self) -> tuple[bytes, bytes]:
        if not self._known or self._random.random() < _NEW_SHARE:
            number, self._known = self._known, self._known + 1
        else:
            number = self._random.randrange(self._known)
        order_id, version = f"order-{number:07d}", self.made
        self.made += 1
        amount = round(self._random.uniform(1, 500), 2)
        deleted = self._random.random() < _DELETED_SHARE
        if deleted:
            self.rows.pop(order_id, None)
        else:
            self.rows[order_id] = (amount, version)
        value = {
            "order_id": order_id,
            "amount": amount,
            "version": version,
            "region": REGIONS[number % len(REGIONS)],
            "deleted": deleted,
        }
        return order_id.encode(), json.dumps(value).encode()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows of a table held against the rows that must be in it."""

    expected: int
    read: int
    missing: int
    unexpected: int
    different: int

    @property
    def equal(self) -> bool:
        """Whether the table is exactly as it must be."""
        return self.read == self.expected and not (self.missing or self.unexpected or self.different)


def compare(expected: dict[str, tuple[float, int]], read: list[tuple[str, float, int]]) -> Comparison:
    """Hold what was read (id, amount, version; one entry per row) against what must be there."""
    found = {order_id: (amount, version) for order_id, amount, version in read}
    return Comparison(
        expected=len(expected),
        read=len(read),
        missing=len(expected.keys() - found.keys()),
        unexpected=len(found.keys() - expected.keys()),
        different=sum(1 for key in expected.keys() & found.keys() if expected[key] != found[key]),
    )


PARTITIONS: Final = 4
_STEPS_PER_SECOND: Final = 10
REQUEST_SECONDS: Final = 20.0
"""How long the broker may take to answer."""


class BrokerUnavailable(CommandError):
    """The Kafka broker does not answer or does not take messages."""

    exit_code = ExitCode.MISSING_DEPENDENCY


class OrderProducer(threading.Thread):
    """Produces `rows_per_second` orders per second for some seconds; `orders` then knows what must be in the table."""

    def __init__(self, bootstrap_servers: str, rows_per_second: int, seconds: int) -> None:
        """Create the topic. Raises BrokerUnavailable."""
        super().__init__(name="order-producer", daemon=True)
        self.topic = f"bucketingest-demo-{uuid.uuid4().hex[:8]}"
        self.orders = Orders()
        self.failure: str | None = None
        self._ended = threading.Event()
        self._rows_per_second = rows_per_second
        self._steps = seconds * _STEPS_PER_SECOND
        admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        try:
            topics = admin.create_topics([NewTopic(self.topic, num_partitions=PARTITIONS, replication_factor=1)])
            topics[self.topic].result(REQUEST_SECONDS)
        except (KafkaException, TimeoutError) as error:
            raise BrokerUnavailable(
                f"the Kafka broker at {bootstrap_servers} takes no topic: {error}; `make demo-kafka` brings one along"
            ) from error
        # Idempotent: a retry neither doubles nor reorders what the table is compared with.
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 3})

    @property
    def ended(self) -> bool:
        """Whether all messages are acknowledged, or none will come any more."""
        return self._ended.is_set()

    def stop(self) -> None:
        """Make no further messages."""
        self._steps = 0

    def run(self) -> None:
        """Produce in small steps, then wait until the broker has everything."""
        pace = threading.Event()
        done = 0
        while done < self._steps:
            done += 1
            target = self._rows_per_second * done // _STEPS_PER_SECOND
            for key, value in self.orders.messages(target - self.orders.made):
                self._producer.produce(self.topic, value, key, on_delivery=self._delivered)
            self._producer.poll(0)
            pace.wait(1 / _STEPS_PER_SECOND)
        if left := self._producer.flush(REQUEST_SECONDS):
            self.failure = f"{left} messages were not acknowledged"
        self._ended.set()

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.failure = str(error)
