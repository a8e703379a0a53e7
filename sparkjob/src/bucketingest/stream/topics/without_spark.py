"""Micro-batches whose messages are read without Spark: by the tasks, or, if they are few, by this process, which then
does all of their work. And what happens when they cannot: Spark reads that one, and those of a while, so that a broker
that is down does not cost each of them the time-outs of two clients.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import expect, read
from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.storage import StorageError
from bucketingest.stream.micro_batch import LeftToSpark, write_micro_batch, write_ranges
from bucketingest.stream.source.messages import MessageDecoder, pack_messages
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.writer import write_packed

log = logging.getLogger(__name__)

PAUSE_MIN_SECONDS: Final = 60.0
PAUSE_MAX_SECONDS: Final = 3600.0
"""Each pause is twice as long as the one before, until a micro-batch succeeds."""

MESSAGES_HERE: Final = 50_000
BYTES_HERE: Final = 32 * 1024**2
"""Where commits are less than a second apart, so many messages, and packed bytes of them, are written by this process:
to plan and start Spark's tasks takes longer than their work. The bytes are held in memory.
"""

_TASKS_MAX: Final = 5000
"""Each one is asked for in calls of its own."""
_RANGE: Final = re.compile(r"KafkaOffsetRange\((.+)-(\d+),(\d+),(\d+),(?:None|Some\(.*\))\)")
"""Topic, partition, first offset, and the one behind the last: Spark's `KafkaOffsetRange(TopicPartition, from, until,
preferredLoc)`, whose first part Kafka writes as topic-partition.
"""
_OTHER_FORM: Final = "Spark's plan has another form than is known"
_DEPTH_MAX: Final = 10

Write: TypeAlias = Callable[[DataFrame | TopicBatch, WritePlan, MessageDecoder, Client, int], list[WriteStatus]]


def write_topics(
    rows: DataFrame | TopicBatch, plan: WritePlan, decoder: MessageDecoder, client: Client, few: int
) -> list[WriteStatus]:
    """Read and write the messages that Spark would read: up to `few` of them in this process, else in tasks. The bytes
    are the same. Raises TopicInDoubt, before anything is written, UnknownSchemaIds, InstantAborted, and as
    `write_micro_batch`.
    """
    if isinstance(rows, TopicBatch):
        session, ranges = rows.session, rows.ranges
    else:
        session, ranges = rows.sparkSession, ranges_of(rows)
        if not ranges:
            return write_micro_batch(rows, plan, decoder)
    try:
        if (packed := packed_here(ranges, plan, decoder, client, few)) is not None:
            return write_packed(packed, plan)
    except StorageError as error:  # tasks repeat it, each some times
        log.warning("a small micro-batch is left to Spark's tasks", extra={"reason": str(error)})
    return write_ranges(session, ranges, plan, decoder, client)


def packed_here(
    ranges: Sequence[TopicRange], plan: WritePlan, decoder: MessageDecoder, client: Client, few: int
) -> list[pa.RecordBatch] | None:
    """What the tasks of these ranges send to the shuffle, made by this process; None if it is too much for it, or more
    than `few` messages. Raises TopicInDoubt, LeftToSpark, UnknownSchemaIds.
    """
    if sum(each.until - each.start for each in ranges) > few:
        return None
    packed: list[pa.RecordBatch] = []
    size = 0
    expect(ranges, client)
    try:
        for task, wanted in enumerate(ranges):
            for batch in pack_messages(read(wanted, client, decoder.needs), plan, decoder, task):
                packed.append(batch)
                size += batch.nbytes
                if size > BYTES_HERE:
                    return None
    except RowsInDoubt as error:
        raise LeftToSpark(str(error)) from error
    return packed


class TopicReading:
    """Decides for each micro-batch who reads it. Called by one thread at a time."""

    def __init__(
        self,
        client: Client,
        few: int = 0,
        *,
        write: Write = write_topics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`few`: so many messages this process reads and writes itself."""
        self._few = few
        self._client = client
        self._write = write
        self._clock = clock
        self._pause = 0.0
        self._until = clock()

    def write(self, rows: DataFrame | TopicBatch, plan: WritePlan, decoder: MessageDecoder) -> list[WriteStatus] | None:
        """What was written; None if Spark has to read, and nothing is written. Raises as `write_topics`, but for
        TopicInDoubt.
        """
        if self._clock() < self._until:
            return None
        try:
            statuses = self._write(rows, plan, decoder, self._client, self._few)
        except TopicInDoubt as doubt:
            self._pause = min(max(PAUSE_MIN_SECONDS, self._pause * 2), PAUSE_MAX_SECONDS)
            self._until = self._clock() + self._pause
            log.warning("Kafka is read through Spark for now", extra={"reason": str(doubt), "seconds": self._pause})
            return None
        self._pause = 0.0
        return statuses


def ranges_of(rows: DataFrame) -> list[TopicRange]:
    """The messages that each task of a micro-batch would read, in this order. Nothing is read.

    Raises TopicInDoubt if the plan has another form than is known.
    """
    try:
        tasks = _reading_rdd(rows).partitions()
        if len(tasks) > _TASKS_MAX:
            raise TopicInDoubt(f"the micro-batch has more than {_TASKS_MAX} tasks")
        return [_range(each.inputPartition().get()) for each in tasks]
    except (Py4JError, AttributeError, TypeError) as error:
        raise TopicInDoubt(f"{_OTHER_FORM}: {type(error).__name__}") from error


def _range(part: Any) -> TopicRange:
    """By its text: each number alone would be a call of the JVM."""
    found = _RANGE.fullmatch(str(part.offsetRange().toString()))
    if found is None:
        raise TopicInDoubt(_OTHER_FORM)
    return TopicRange(found[1], *map(int, found.groups()[1:]))


def _reading_rdd(rows: DataFrame) -> Any:
    """The RDD that reads Kafka: what is between it and the rows only changes the form of a row. Raises TopicInDoubt."""
    rdd: Any = rows._jdf.queryExecution().logical().rdd()  # noqa: SLF001 - PySpark has no other way
    for _ in range(_DEPTH_MAX):
        if rdd.getClass().getSimpleName() == "DataSourceRDD":
            return rdd
        before = rdd.dependencies()
        if before.size() != 1:
            break
        rdd = before.apply(0).rdd()
    raise TopicInDoubt(_OTHER_FORM)
