"""Reads a range of a topic partition in the task that needs it, in Arrow batches as Spark makes them: as many rows in
each, so all that follows is the same, to the byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import pyarrow as pa

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import Cursor, TopicRange

with suppress(ImportError):  # a driver without it leaves all to Spark
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

BATCH_ROWS: Final = 1000
"""As `spark.sql.execution.arrow.maxRecordsPerBatch` is."""
BATCH_BYTES: Final = 4 * 1024**2
"""Of long messages a batch has fewer."""
_PATIENCE_SECONDS: Final = 0.05
SILENCE_SECONDS: Final = 20.0
"""So long nothing may come: a partition has another leader sooner. Counted in waits, as a process may be paused.
"""
_ANSWER_SECONDS: Final = 10.0


def read(wanted: TopicRange, client: Client, column: str, silence: float = SILENCE_SECONDS) -> Iterator[pa.RecordBatch]:
    """The values of the messages. Raises TopicInDoubt, also if nothing comes for so many seconds."""
    if "Consumer" not in globals():
        raise TopicInDoubt("confluent-kafka cannot be imported where the tasks run")
    try:
        yield from _batches(_values(_kept.connection(client), wanted, silence), column)
    except KafkaException as error:
        _kept.close()
        raise TopicInDoubt(client.without_secrets(f"{wanted}: {_said(error.args[0])}")) from None
    except BaseException:  # also the end of the task: what the client holds by then is of no use
        _kept.close()
        raise


class _Connection:
    """A consumer, and what it last said of its brokers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.said: KafkaError | None = None
        self.consumer = Consumer({**client.properties, "error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        if self.said is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its name
            self.said = error

    def start(self, partition: TopicPartition) -> None:
        """Read the partition from its offset on, and nothing else."""
        self.said = None
        self.consumer.assign([partition])

    def messages(self, count: int) -> list[Message]:
        """At most so many, and events; what there is after a moment. Raises KafkaException if no broker lets us in."""
        found = self.consumer.consume(count, _PATIENCE_SECONDS)
        if self.said is not None and self.said.code() in {KafkaError._AUTHENTICATION, KafkaError._SSL}:  # noqa: SLF001 - its names
            raise KafkaException(self.said)
        return found

    def watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        """Where the partition begins and ends now. Raises KafkaException."""
        return self.consumer.get_watermark_offsets(partition, timeout=_ANSWER_SECONDS)


class _Kept:
    """The connection of this process: to open one takes longer than to read a small range."""

    def __init__(self) -> None:
        self._open: _Connection | None = None

    def connection(self, client: Client) -> _Connection:
        """Raises KafkaException."""
        if self._open is None or self._open.client != client:
            self.close()
            self._open = _Connection(client)
        return self._open

    def close(self) -> None:
        """Whatever it is doing."""
        gone, self._open = self._open, None
        if gone is not None:
            gone.consumer.close()


_kept = _Kept()


def _batches(pieces: Iterator[list[bytes | None]], column: str) -> Iterator[pa.RecordBatch]:
    """The values in batches of `BATCH_ROWS`, or of fewer that are `BATCH_BYTES`."""
    values: list[bytes | None] = []
    size = 0
    for piece in pieces:
        size_of_piece = sum(map(len, filter(None, piece)))
        if len(values) + len(piece) <= BATCH_ROWS and size + size_of_piece <= BATCH_BYTES:
            values += piece
            size += size_of_piece
        else:
            for each in piece:
                if len(values) == BATCH_ROWS or size >= BATCH_BYTES:
                    yield _batch(values, column)
                    values, size = [], 0
                values.append(each)
                size += len(each or b"")
        if len(values) == BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(values, column)
            values, size = [], 0
    if values:
        yield _batch(values, column)


def _values(connection: _Connection, wanted: TopicRange, silence: float) -> Iterator[list[bytes | None]]:
    """The values of the range, as they come."""
    partition = TopicPartition(wanted.topic, wanted.partition, wanted.start)
    cursor = Cursor(wanted)
    connection.start(partition)
    waits = 0
    while not cursor.at_end:
        found = connection.messages(min(BATCH_ROWS, wanted.until - cursor.next))
        waits = 0 if found else waits + 1
        if waits * _PATIENCE_SECONDS >= silence:
            why = "the brokers say nothing" if connection.said is None else _said(connection.said)
            text = f"{wanted}: no message from {cursor.next} on for {silence:g} s: {why}"
            raise TopicInDoubt(connection.client.without_secrets(text))
        # By identity: a KafkaError cannot be compared with None.
        if not [error for error in map(Message.error, found) if error is not None]:
            yield _taken(found, cursor)
            continue
        yield _taken([each for each in found if each.error() is None], cursor)
        _take_events([each for each in found if each.error() is not None], connection, partition, cursor)
    connection.consumer.unassign()
    if cursor.gap is not None:
        cursor.check(connection.watermarks(partition)[0])


def _taken(found: list[Message], cursor: Cursor) -> list[bytes | None]:
    """The values of those of the range. Raises TopicInDoubt."""
    count = cursor.take(len(found), lambda at: found[at].offset() or 0)
    return list(map(Message.value, found[:count]))


def _take_events(events: list[Message], connection: _Connection, partition: TopicPartition, cursor: Cursor) -> None:
    """Raises KafkaException, TopicInDoubt."""
    for each in events:
        error = each.error()
        assert error is not None, "an event that is not a message"
        if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            continue  # the client asks for its group, of which it is no member: nobody needs a right to that
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
            raise KafkaException(error)
        cursor.ended_at(each.offset() or 0)
    if events and not cursor.at_end:
        end = connection.watermarks(partition)[1]
        if end < cursor.wanted.until:
            raise TopicInDoubt(f"{cursor.wanted}: the topic ends at {end}; it may have been made again")


def _batch(values: list[bytes | None], column: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], [column])


def _said(error: object) -> str:
    return f"{error.name()}: {error.str()}" if isinstance(error, KafkaError) else str(error)
