"""Micro-batches whose messages the tasks read themselves, and what happens when they cannot: Spark reads that one, and
those of a while, so that a broker that is down does not cost each of them the time-outs of two clients.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from pyspark.sql import DataFrame

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.stream.micro_batch import write_topics
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)

PAUSE_MIN_SECONDS: Final = 60.0
PAUSE_MAX_SECONDS: Final = 3600.0
"""Each pause is twice as long as the one before, until a micro-batch succeeds."""

Write: TypeAlias = Callable[[DataFrame, WritePlan, MessageDecoder, Client], list[WriteStatus]]


class TopicReading:
    """Decides for each micro-batch who reads it. Called by one thread at a time."""

    def __init__(
        self, client: Client, *, write: Write = write_topics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._write = write
        self._clock = clock
        self._pause = 0.0
        self._until = clock()

    def write(self, rows: DataFrame, plan: WritePlan, decoder: MessageDecoder) -> list[WriteStatus] | None:
        """What was written; None if Spark has to read, and nothing is written. Raises as `write_topics`, but for
        TopicInDoubt.
        """
        if self._clock() < self._until:
            return None
        try:
            statuses = self._write(rows, plan, decoder, self._client)
        except TopicInDoubt as doubt:
            self._pause = min(max(PAUSE_MIN_SECONDS, self._pause * 2), PAUSE_MAX_SECONDS)
            self._until = self._clock() + self._pause
            log.warning("Kafka is read through Spark for now", extra={"reason": str(doubt), "seconds": self._pause})
            return None
        self._pause = 0.0
        return statuses
