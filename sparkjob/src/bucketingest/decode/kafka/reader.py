"""Reads a range of a topic partition in the task that needs it, in Arrow batches as Spark makes them: as many rows in
each, so all that follows is the same, to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import BatchTooLarge, TopicInDoubt, TopicSilent
from bucketingest.decode.kafka.message import MESSAGE, VALUE
from bucketingest.decode.kafka.ranges import Cursor, TopicRange

with suppress(ImportError):  # a driver without it leaves all to Spark
    from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Message, TopicPartition

BATCH_ROWS: Final = 1000
"""As `spark.sql.execution.arrow.maxRecordsPerBatch` is."""
BATCH_BYTES: Final = 4 * 1024**2
"""Of long messages a batch has fewer."""
_PATIENCE_SECONDS: Final = 0.05
SILENCE_SECONDS: Final = 20.0
"""So long nothing may come: a partition has another leader sooner. Counted in waits, as a process may be paused.
"""
_ANSWER_SECONDS: Final = 10.0
_LEADERS_SECONDS: Final = 3.0
"""So long the leaders of partitions are asked for together. Then each is waited for alone."""


def read(
    wanted: TopicRange, client: Client, columns: tuple[str, ...] = (VALUE,), silence: float = SILENCE_SECONDS
) -> Iterator[pa.RecordBatch]:
    """The messages in batches with these columns of `MESSAGE`, in this order; `VALUE` is the first. What is not asked
    for costs nothing. Raises TopicInDoubt, and TopicSilent if nothing comes for so many seconds.
    """
    assert columns[0] == VALUE, "the size of a batch is that of its first column"
    if "Consumer" not in globals():
        raise TopicInDoubt("confluent-kafka cannot be imported where the tasks run")
    try:
        yield from _batches(_pieces(_kept.connection(client), wanted, columns, silence), columns)
    except KafkaException as error:
        _kept.close()
        is_large = error.args[0].code() == KafkaError._BAD_COMPRESSION  # noqa: SLF001 - its name
        kind = BatchTooLarge if is_large else TopicInDoubt
        raise kind(client.without_secrets(f"{wanted}: {_said(error.args[0])}")) from None
    except BaseException:  # also the end of the task: what the client holds by then is of no use
        _kept.close()
        raise


def expect(ranges: Iterable[TopicRange], client: Client) -> None:
    """These are read next: ask once who leads the topics that this process has not read. One that is first met when it
    is read costs a second.
    """
    if "Consumer" in globals():
        with suppress(KafkaException):  # `read` says it
            _kept.connection(client).expect(ranges)


class _Connection:
    """A consumer, and what it last said of its brokers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.said: KafkaError | None = None
        self._met: set[str] = set()
        """Topics whose leaders the client has asked for."""
        self.consumer = Consumer({**client.properties, "error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        if self.said is None or error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001 - its name
            self.said = error

    def start(self, partition: TopicPartition) -> None:
        """Read the partition from its offset on, and nothing else."""
        self.said = None
        self.consumer.assign([partition])

    def expect(self, ranges: Iterable[TopicRange]) -> None:
        """Have the client know who leads these partitions, if it has not met their topics."""
        new = [each for each in ranges if each.topic not in self._met]
        if new:
            self._met.update(each.topic for each in new)
            ends = [TopicPartition(each.topic, each.partition, OFFSET_END) for each in new]
            with suppress(KafkaException):  # `read` says it
                self.consumer.offsets_for_times(ends, timeout=_LEADERS_SECONDS)  # it needs the leaders, all at once

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


Piece = list[list[Any]]
"""Some messages, column by column."""


def _batches(pieces: Iterator[Piece], columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The messages in batches of `BATCH_ROWS`, or of fewer whose values are `BATCH_BYTES`."""
    held: Piece = [[] for _ in columns]
    size = 0
    for piece in pieces:
        while piece[0]:
            count = min(len(piece[0]), BATCH_ROWS - len(held[0]))
            more = sum(map(len, filter(None, piece[0][:count])))
            if size + more >= BATCH_BYTES:  # up to the message that fills it
                sums = list(accumulate((len(value or b"") for value in piece[0][:count]), initial=0))
                count = next(at for at, each in enumerate(sums) if size + each >= BATCH_BYTES)
                more = sums[count]
            for column, values in zip(held, piece, strict=True):
                column.extend(values[:count])
            piece = [values[count:] for values in piece]  # noqa: PLW2901 - what is left of it
            size += more
            if len(held[0]) == BATCH_ROWS or size >= BATCH_BYTES:
                yield _batch(held, columns)
                held, size = [[] for _ in columns], 0
    if held[0]:
        yield _batch(held, columns)


def _pieces(connection: _Connection, wanted: TopicRange, columns: tuple[str, ...], silence: float) -> Iterator[Piece]:
    """The messages of the range, as they come."""
    partition = TopicPartition(wanted.topic, wanted.partition, wanted.start)
    cursor = Cursor(wanted)
    connection.expect([wanted])
    connection.start(partition)
    waits = 0
    while not cursor.at_end:
        found = connection.messages(min(BATCH_ROWS, wanted.until - cursor.next))
        waits = 0 if found else waits + 1
        if waits * _PATIENCE_SECONDS >= silence:
            why = "the brokers say nothing" if connection.said is None else _said(connection.said)
            text = f"{wanted}: no message from {cursor.next} on for {silence:g} s: {why}"
            raise TopicSilent(connection.client.without_secrets(text))
        # By identity: a KafkaError cannot be compared with None.
        if not [error for error in map(Message.error, found) if error is not None]:
            yield _taken(found, cursor, columns)
            continue
        yield _taken([each for each in found if each.error() is None], cursor, columns)
        _take_events([each for each in found if each.error() is not None], connection, partition, cursor)
    connection.consumer.unassign()
    if cursor.gap is not None:
        cursor.check(connection.watermarks(partition)[0])


def _taken(found: list[Message], cursor: Cursor, columns: tuple[str, ...]) -> Piece:
    """Those of the range. Raises TopicInDoubt."""
    count = cursor.take(len(found), lambda at: found[at].offset() or 0)
    try:
        return [list(map(_ODD_PARTS.get(column) or getattr(Message, column), found[:count])) for column in columns]
    except UnicodeDecodeError:  # Java shows another character there
        raise TopicInDoubt(f"{cursor.wanted}: the name of a header is not UTF-8") from None


def _timestamp(message: Message) -> int:
    """In microseconds; what Kafka says where it has none, as Spark does."""
    return message.timestamp()[1] * 1000


def _headers(message: Message) -> list[dict[str, Any]] | None:
    found = message.headers()
    return [{"key": each[0], "value": each[1]} for each in found] if found else None


_ODD_PARTS: Final[Mapping[str, Callable[[Message], Any]]] = {"timestamp": _timestamp, "headers": _headers}


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


def _batch(held: Piece, columns: tuple[str, ...]) -> pa.RecordBatch:
    schema = pa.schema([MESSAGE.field(column) for column in columns])
    return pa.RecordBatch.from_arrays([pa.array(*each) for each in zip(held, schema.types, strict=True)], schema=schema)


def _said(error: object) -> str:
    return f"{error.name()}: {error.str()}" if isinstance(error, KafkaError) else str(error)
