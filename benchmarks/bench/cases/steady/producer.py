"""Sends messages to Kafka at a steady rate and notes when."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from bench.cases.comparison import WrongResult

Block = list[dict[str, bytes]]
"""Messages that are sent together, as the producer takes them."""
_FLUSH_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Messages that were handed to the producer together."""

    partition: int
    end: int
    """The partition's offset behind the last one."""
    at: float
    """Seconds since 1970."""


class SteadyProducer:
    """Sends the same messages again and again, a block for one Kafka partition each tick."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, blocks: Sequence[Block]) -> None:
        self._topic = topic
        self._blocks = blocks
        self._sent = 0
        self._ends = [0] * partitions
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1 << 20,
                "linger.ms": 5,
                "enable.idempotence": True,
                "delivery.report.only.error": True,
                "log_level": 2,
            }
        )

    def send(self, count: int, *, pause: float) -> list[Tick]:
        """Send `count` blocks, one every `pause` seconds; returns when the broker has all.

        Raises WrongResult if the producer or the broker does not take them.
        """
        ticks = []
        started = time.monotonic()
        for number in range(count):
            if (early := started + number * pause - time.monotonic()) > 0:
                time.sleep(early)
            partition = self._sent % len(self._ends)
            block = self._blocks[self._sent % len(self._blocks)]
            at = time.time()
            queued = self._producer.produce_batch(self._topic, block, partition=partition, on_delivery=self._delivered)
            self._producer.poll(0)
            if queued != len(block) or self._failures:
                raise WrongResult(f"the producer took {queued} of {len(block)} messages; {self._failures[:1]}")
            self._sent += 1
            self._ends[partition] += queued
            ticks.append(Tick(partition, self._ends[partition], at))
        if (left := self._producer.flush(_FLUSH_SECONDS)) or self._failures:
            raise WrongResult(f"the broker did not take {left} messages; {self._failures[:1]}")
        return ticks

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error.str())
