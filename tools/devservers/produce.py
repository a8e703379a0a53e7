"""Fill a Kafka topic fast: millions of messages in seconds, from one Python thread."""

from collections.abc import Iterable
from itertools import islice

from confluent_kafka import KafkaError, Message, Producer

QUEUE_MESSAGES = 1_000_000
BATCH_MESSAGES = 20_000
POLL_S = 0.1
FLUSH_TIMEOUT_S = 120.0
CHOOSE_PARTITION = -1
"""Kafka's partitioner decides, by the key."""


class ProduceError(Exception):
    """Messages did not arrive."""


def produce(
    bootstrap_servers: str,
    topic: str,
    messages: Iterable[tuple[bytes | None, bytes | None]],
    *,
    partition: int = CHOOSE_PARTITION,
    timestamp_ms: int | None = None,
) -> int:
    """Send `(key, value)` pairs in their order; a value of None is a tombstone.

    Returns how many the broker acknowledged, which is all of them.

    Raises:
        ProduceError: the broker refused a message or did not acknowledge all in time.
    """
    failures: list[str] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error.str())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "queue.buffering.max.messages": QUEUE_MESSAGES,
            "queue.buffering.max.kbytes": 1 << 20,
            "linger.ms": 20,
            "batch.size": 1 << 20,
            "enable.idempotence": True,  # a retry neither doubles nor reorders
            "delivery.report.only.error": True,
            "log_level": 3,  # retries at the start are expected
        }
    )
    sent = 0
    remaining = iter(messages)
    shared: dict[str, int] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
    while batch := [{"key": key, "value": value, **shared} for key, value in islice(remaining, BATCH_MESSAGES)]:
        while len(producer) > QUEUE_MESSAGES - BATCH_MESSAGES:
            producer.poll(POLL_S)
        queued = producer.produce_batch(topic, batch, partition=partition, on_delivery=delivered)
        producer.poll(0)
        if queued != len(batch):
            failures.extend(str(message["_error"]) for message in batch if "_error" in message)
        if failures:
            break
        sent += queued
    unacknowledged = producer.flush(FLUSH_TIMEOUT_S)
    if failures or unacknowledged:
        raise ProduceError(f"topic {topic}: {len(failures)} refused {failures[:3]}, {unacknowledged} not acknowledged")
    return sent
