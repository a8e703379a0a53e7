"""Fills a topic of its own at an even pace, in a thread beside the ingestion."""

from __future__ import annotations

import threading
import uuid
from typing import Any, Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bucketingest.cli.demo.orders import Orders
from bucketingest.cli.errors import CommandError
from bucketingest.exit_codes import ExitCode

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
