"""What Debezium's transaction topic says: how many events each transaction has. And how its messages, and those of the
topics of tables, are read for that.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import pyarrow as pa
from fastavro import parse_schema, schemaless_reader

from bucketingest.decode.debezium.transactions import Counts, Run, count_of, is_mark
from bucketingest.decode.json.doubts import UNREADABLE
from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.message import OFFSET, VALUE
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import read
from bucketingest.decode.registered.subjects import registry_client
from bucketingest.decode.registered.wire_format import HEADER_BYTES
from bucketingest.registry.client import RegisteredSchema
from bucketingest.registry.lookups import Patience, waiting
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import SourceOptionsRefused
from bucketingest.stream.topics.brokers import Brokers, Topic
from bucketingest.stream.topics.watch import quietly
from bucketingest.write.instants.source_range import Offsets

COUNTS_MAX: Final = 100_000
"""ENDs that are kept, twice as many names."""
READ_MAX: Final = 200_000
"""Messages of the transaction topic that are read for one END before the next look."""
READ_AT_ONCE: Final = 1000
"""Of these: a range is read whole, as a connection that leaves one is closed."""
LOOKED_AT: Final = 100
"""Messages of a partition, the newest, by which a topic is known to be the transaction topic."""
MARGIN_MS: Final = 60_000
"""So much may an END have an older time than an event of its transaction: clocks are set."""
_NOT_THEM: Final = (
    "spec.commit.at is transaction, and the topic {} has no BEGIN or END of Debezium in its {} newest messages: name "
    "Debezium's transaction topic in spec.commit.transactionTopic"
)
Message: TypeAlias = tuple[int, int, bytes | None]
"""Offset, timestamp in ms, value."""
Read: TypeAlias = Callable[[TopicRange], Iterator[Message]]
Parse: TypeAlias = Callable[[bytes], object]
"""A message as dicts and lists; None if it cannot be read."""


class KnownEnds(Protocol):
    """What is known of ENDs."""

    @property
    def counts(self) -> Counts:
        """How many events transactions have."""

    def look_for(self, run: Run) -> None:
        """Learn how many events the transaction has, if that can be known. Raises SourceUnreachable, TopicInDoubt."""

    def look(self) -> str:
        """What the topic has, in words. Raises as `look_for` does, SourceOptionsRefused if it is another topic."""

    def close(self) -> None:
        """Ask no more."""


class Ends:
    """What ENDs say. They are read forwards, from about the time of the transaction that is asked for. `brokers`: of
    the transaction topic.
    """

    def __init__(self, brokers: Brokers, read: Read, parse: Parse, *, stable: bool) -> None:
        """`stable`: only what Kafka's own transactions have committed."""
        self._brokers, self._read, self._parse, self._stable = brokers, read, parse, stable
        self.counts: dict[str, Mapping[str, int]] = {}
        self._next: Offsets = {}
        self._since, self._until = 0, -1
        """Timestamps, in ms, from which to which all is read."""

    def look_for(self, run: Run) -> None:
        """As `KnownEnds`."""
        if run.id is None or run.id in self.counts:
            return
        topics = self._brokers.topics()
        since = run.timestamp - MARGIN_MS
        if not self._since <= since <= self._until:
            self._next, self._since, self._until = self._brokers.since(topics, since), since, -1
        left = READ_MAX
        for place, end in self.until(topics).items():
            while (start := self._next.setdefault(place, 0)) < end and left > 0 and run.id not in self.counts:
                until = min(end, start + READ_AT_ONCE)
                for _, timestamp, value in self._read(TopicRange(*place, start, until)):
                    self._take(value)
                    self._until = max(self._until, timestamp)
                self._next[place] = until
                left -= until - start

    def until(self, topics: Mapping[str, Topic]) -> Offsets:
        """Up to where ENDs may be taken."""
        return self._brokers.ends(topics, stable=self._stable)

    def look(self) -> str:
        """As `KnownEnds`."""
        topics, seen = self._brokers.topics(), 0
        (name,) = topics
        begins = self._brokers.begins(topics)
        for place, end in self._brokers.ends(topics, stable=self._stable).items():
            for _, _, value in self._read(TopicRange(*place, max(begins[place], end - LOOKED_AT), end)):
                if value is not None and is_mark(self._parse(value)):
                    return f"{name} has Debezium's transaction metadata"
                seen += 1
        if seen:
            raise SourceOptionsRefused(_NOT_THEM.format(name, seen))
        return f"{name} can be read; it is empty"

    def close(self) -> None:
        """Ask no more."""
        quietly(self._brokers.close)

    def _take(self, value: bytes | None) -> None:
        if value is not None:
            for id_, counts in count_of(self._parse(value)).items():
                self.counts.pop(id_, None)
                self.counts[id_] = counts
        while len(self.counts) > 2 * COUNTS_MAX:
            del self.counts[next(iter(self.counts))]


def messages_of(client: Client, wanted: TopicRange) -> Iterator[Message]:
    """The messages of a range. Raises TopicInDoubt."""
    for batch in read(wanted, client, (VALUE, OFFSET, "timestamp")):
        milliseconds = [each // 1000 for each in batch.column(2).cast(pa.int64()).to_pylist()]
        yield from zip(batch.column(1).to_pylist(), milliseconds, batch.column(0).to_pylist(), strict=True)


def parser_of(resource: BucketIngest) -> Parse:
    """What reads the messages of a resource. It raises RegistryError."""
    format_ = resource.spec.format
    if format_ is None or format_.registry is None:
        return _parse_json
    client = registry_client(format_.registry)
    return partial(_parse_avro, lambda id_: waiting(lambda: client.schema(id_), Patience()), {})


def _parse_json(value: bytes) -> object:
    with suppress(*UNREADABLE):
        return msgspec.json.decode(value)
    return None


def _parse_avro(schema_of: Callable[[int], RegisteredSchema | None], known: dict[int, Any], value: bytes) -> object:
    """A message in Confluent's wire format, with its writer's schema."""
    id_ = int.from_bytes(value[1:HEADER_BYTES])
    if value[:1] != b"\0" or len(value) <= HEADER_BYTES:
        return None
    if id_ not in known and (found := schema_of(id_)) is not None:
        names: dict[str, Any] = {}
        for text in found.references:
            parse_schema(msgspec.json.decode(text), names)
        known[id_] = parse_schema(msgspec.json.decode(found.text), names)
    with suppress(Exception):  # whatever the value is: it is a dead letter then, and says nothing of transactions
        return schemaless_reader(io.BytesIO(value[HEADER_BYTES:]), known[id_], None)
    return None
