"""Asks Kafka's brokers which topics there are, and where their partitions begin and end, because only they know. The
client is the one that Spark's source uses, with the same options. No message is read, no topic is made.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.fields.source_secret import source_options
from bucketingest.stream.errors import (
    MissingConnector,
    SourceDenied,
    SourceOptionsRefused,
    SourceUnreachable,
    StreamError,
    TopicsMissing,
)
from bucketingest.write.instants.source_range import Offsets

_PREFIX: Final = "kafka."
_SERVERS: Final = "spec.source.kafka.bootstrapServers"
_OPTIONS: Final = "spec.source.kafka.options and its Secrets"
_CLOSE_SECONDS: Final = 2
_SINCE: Final = "forTimestamp"
"""Java's name for the offset of a moment."""
_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""What a broker before Kafka 2.8 says: sixteen zero bytes."""
_LISTED: Final = re.compile(r"\(name=([^,]+), topicId=([^,]+), internal=")
_LEADERLESS: Final = re.compile(r"\(name=([\w.-]+), internal=|\(partition=(\d+), leader=(?:null|none),")
_OFFSET: Final = re.compile(r"([\w.-]+)-(\d+)=ListOffsetsResultInfo\(offset=(-?\d+)")
"""What Kafka's client says of a topic, of a topic's partitions, and of a partition, as text."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the brokers describe it."""

    id: str
    """It is never given to another topic, also not to one of the same name; "" if the brokers give none."""
    partitions: tuple[int, ...]
    leaderless: tuple[int, ...] = ()
    """Partitions that no broker leads now. A question about one of them gets no answer."""


class Brokers:
    """A client of the brokers of one source, made when it is first needed. Used by one thread at a time.

    `seconds`: how long each question may take. Every method raises SourceUnreachable (no broker answers),
    TopicsMissing, SourceDenied, SourceOptionsRefused, MissingConnector, SpecError (a Secret).
    """

    def __init__(self, session: SparkSession, source: KafkaSource, seconds: float) -> None:
        self._source = source
        self._seconds = seconds
        self._jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no other way
        self._admin: Any = None
        self._questions: dict[str, tuple[dict[tuple[str, int], Any], Any]] = {}

    @property
    def servers(self) -> str:
        """`host:port` of those that the resource names."""
        return self._source.bootstrap_servers

    def topics(self) -> dict[str, Topic]:
        """The source's topics that there are now; of a pattern all that match."""
        return self._asked(self._described)

    def ids(self) -> dict[str, str]:
        """The id of each topic that there is, the source's or not; "" if the brokers give none."""
        text = self._asked(lambda admin: str(self._answer(admin.listTopics().namesToListings()).toString()))
        return {name: "" if id_ == _NO_ID else id_ for name, id_ in _LISTED.findall(text)}

    def ends(self, topics: Mapping[str, Topic], *, stable: bool, seconds: float | None = None) -> Offsets:
        """The next offset of each partition. `stable`: up to which no transaction is open. `seconds`: how long this
        question may take. For a topic that is gone there is no answer.
        """
        return self._offsets(topics, "latest", self._stable if stable else self._any, seconds=seconds)

    def begins(self, topics: Mapping[str, Topic]) -> Offsets:
        """The oldest offset that each partition has."""
        return self._offsets(topics, "earliest", self._any)

    def since(self, topics: Mapping[str, Topic], timestamp_ms: int) -> Offsets:
        """The first offset of each partition with this timestamp or a later one; its end if there is none."""
        self._questions.pop(_SINCE, None)  # each moment is another question
        found, ends = self._offsets(topics, _SINCE, self._any, timestamp_ms), self.ends(topics, stable=False)
        return {place: ends[place] if offset < 0 else offset for place, offset in found.items()}

    def note_position(self, group: str, position: Offsets) -> None:
        """Make this the position of a consumer group that has no members."""
        clients, common = self._jvm.org.apache.kafka.clients, self._jvm.org.apache.kafka.common
        offsets = self._jvm.java.util.HashMap()
        for (topic, partition), offset in position.items():
            offsets[common.TopicPartition(topic, partition)] = clients.consumer.OffsetAndMetadata(offset)
        self._asked(lambda admin: self._answer(admin.alterConsumerGroupOffsets(group, offsets).all()))

    def reads(self, topic: str) -> bool:
        """Whether the source names the topic, there or not. Nobody is asked."""
        if self._source.topics is not None:
            return topic in self._source.topics
        return bool(self._pattern().matcher(topic).matches())

    def close(self) -> None:
        """End the client."""
        gone, self._admin = self._admin, None
        if gone is not None:
            gone.close(self._jvm.java.time.Duration.ofSeconds(_CLOSE_SECONDS))

    def _asked(self, ask: Callable[[Any], _T]) -> _T:
        try:
            return ask(self._client())
        except Py4JJavaError as error:
            raise explained(_causes(error), self._source, self._seconds) from error

    def _client(self) -> Any:
        if self._admin is None:
            properties = client_properties(self._source, self._seconds)
            try:
                client = self._jvm.org.apache.kafka.clients.admin.AdminClient
                self._admin = client.create(_java_map(self._jvm, properties))
            except Py4JJavaError:
                raise
            except (Py4JError, TypeError) as error:  # the name is a package to py4j: there is no such class
                raise MissingConnector(
                    "Spark has no Kafka client: its jars are missing. Run `make connectors`, name a folder that holds "
                    "them in BUCKETINGEST_JARS, or set spark.conf spark.jars.packages"
                ) from error
        return self._admin

    def _described(self, admin: Any) -> dict[str, Topic]:
        names = self._source.topics
        if names is None:
            pattern = self._pattern()
            names = tuple(name for name in self._names(admin) if pattern.matcher(name).matches())
        try:
            found = self._answer(admin.describeTopics(self._java_list(names)).allTopicNames())
        except Py4JJavaError as error:
            if not any("UnknownTopicOrPartition" in name for name, _ in _causes(error)):
                raise
            there = self._names(admin)
            missing = tuple(name for name in names if name not in there)
            raise TopicsMissing(
                f"Kafka at {self.servers} lacks the topic {', '.join(missing or names)} of spec.source.kafka: correct "
                "the name, or create the topic",
                missing,
            ) from error
        silent = leaderless(str(found.toString()))
        return {name: _topic(found[name], tuple(silent[name])) for name in names}

    def _names(self, admin: Any) -> frozenset[str]:
        return frozenset(str(name) for name in self._answer(admin.listTopics().names()))

    def _offsets(
        self, topics: Mapping[str, Topic], what: str, options: Any, *moment: int, seconds: float | None = None
    ) -> Offsets:
        wanted, asked = self._question(topics, what, *moment)
        found = self._asked(lambda admin: self._answer(admin.listOffsets(asked, options).all(), seconds))
        # A call for each costs as much as the brokers' answer for hundreds.
        said = {(name, int(part)): int(offset) for name, part, offset in _OFFSET.findall(str(found.toString()))}
        if said.keys() == wanted.keys():
            return said
        return {place: int(found[each].offset()) for place, each in wanted.items()}

    def _question(self, topics: Mapping[str, Topic], what: str, *moment: int) -> tuple[dict[tuple[str, int], Any], Any]:
        """The partitions, and Java's map that asks for their offsets: `latest`, `earliest`, of a moment. To
        make it takes longer than the brokers' answer, so the last ones are kept.
        """
        places = tuple((name, number) for name, topic in topics.items() for number in topic.partitions)
        kept = self._questions.get(what)
        if kept is None or tuple(kept[0]) != places:
            partition = self._jvm.org.apache.kafka.common.TopicPartition
            spec = getattr(self._jvm.org.apache.kafka.clients.admin.OffsetSpec, what)(*moment)
            wanted = {place: partition(*place) for place in places}
            asked = self._jvm.java.util.HashMap()
            for each in wanted.values():
                asked[each] = spec
            self._questions[what] = kept = (wanted, asked)
        return kept

    def _answer(self, future: Any, seconds: float | None = None) -> Any:
        return future.get(int((seconds or self._seconds) * 1000), self._milliseconds)

    @cached_property
    def _any(self) -> Any:
        """Java's options, whose names alone are ten calls of the JVM."""
        return self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions()

    @cached_property
    def _stable(self) -> Any:
        level = self._jvm.org.apache.kafka.common.IsolationLevel.READ_COMMITTED
        return self._jvm.org.apache.kafka.clients.admin.ListOffsetsOptions(level)

    @cached_property
    def _milliseconds(self) -> Any:
        return self._jvm.java.util.concurrent.TimeUnit.MILLISECONDS

    def _pattern(self) -> Any:
        return self._jvm.java.util.regex.Pattern.compile(self._source.topic_pattern)

    def _java_list(self, names: Iterable[str]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for name in names:
            made.append(name)
        return made


def look_at_topics(session: SparkSession, source: KafkaSource, seconds: float) -> tuple[dict[str, Topic], str]:
    """What was found, also in words. `seconds`: how long brokers may take. Raises as `Brokers` does."""
    brokers = Brokers(session, source, seconds)
    try:
        found = brokers.topics()
    finally:
        brokers.close()
    if source.topics is None:
        return found, f"{len(found)} topics match spec.source.kafka.topicPattern now"
    return found, f"{len(found)} topics with {sum(len(topic.partitions) for topic in found.values())} partitions"


def leaderless(text: str) -> defaultdict[str, list[int]]:
    """Partitions without leader by topic, by the text of what Kafka's client found. To ask each takes some calls of
    the JVM.
    """
    found: defaultdict[str, list[int]] = defaultdict(list)
    topic = ""
    for name, partition in _LEADERLESS.findall(text):
        if name:
            topic = name
        else:
            found[topic].append(int(partition))
    return found


def _topic(description: Any, silent: tuple[int, ...]) -> Topic:
    found = str(description.topicId().toString())
    # They are numbered from 0 on; to ask each for its number takes some calls of the JVM for each.
    return Topic("" if found == _NO_ID else found, tuple(range(description.partitions().size())), silent)


def client_properties(source: KafkaSource, seconds: float) -> dict[str, str]:
    """Properties of a Kafka client as Spark's source makes them from options, with limits of time. Raises SpecError."""
    given = source_options(source)
    known = {name[len(_PREFIX) :]: str(value) for name, value in given.items() if name.lower().startswith(_PREFIX)}
    limit = str(int(seconds * 1000))
    return {
        **known,
        "bootstrap.servers": source.bootstrap_servers,
        "default.api.timeout.ms": limit,
        "request.timeout.ms": limit,
    }


def explained(causes: list[tuple[str, str]], source: KafkaSource, seconds: float) -> StreamError:
    """The error for what Kafka's client raised. `causes`: class and message, from the outermost on. Pure."""
    names = " ".join(name for name, _ in causes)
    said = next((message for _, message in reversed(causes) if message), names)
    where = f"Kafka at {source.bootstrap_servers}"
    if "InvalidTopic" in names:
        return SourceOptionsRefused(f"spec.source.kafka.topics: {said}")
    if any(word in names for word in ("Authentication", "Authorization")):
        return SourceDenied(f"{where} denies access: {said}; check {_OPTIONS}")
    if "Timeout" in names:
        return SourceUnreachable(
            f"{where} does not answer within {seconds:g} s ({said}): check {_SERVERS}, kafka.security.protocol and the "
            "network"
        )
    if "No resolvable bootstrap" in said:
        return SourceUnreachable(f"{where} has no known address ({said}): check {_SERVERS}")
    if "KafkaException" in names or "ConfigException" in names:
        return SourceOptionsRefused(f"Kafka's client cannot be made: {said}; check {_SERVERS}, {_OPTIONS}")
    return SourceUnreachable(f"{where}: {said}")


def _java_map(jvm: Any, content: dict[str, str]) -> Any:
    made = jvm.java.util.HashMap()
    for name, value in content.items():
        made[name] = value
    return made


def _causes(error: Py4JJavaError) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    each = error.java_exception
    while each is not None and len(found) < 10:
        found.append((each.getClass().getName(), each.getMessage() or ""))
        each = each.getCause()
    return found
