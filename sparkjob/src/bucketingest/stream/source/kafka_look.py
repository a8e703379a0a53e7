"""Looks whether Kafka's brokers answer and have the source's topics, through the client that Spark's source uses and
with the same options. No message is read, no topic is made.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from bucketingest.spec.fields.source_secret import secret_options
from bucketingest.spec.model import KafkaSource
from bucketingest.stream.errors import (
    MissingConnector,
    SourceDenied,
    SourceOptionsRefused,
    SourceUnreachable,
    StreamError,
)

_PREFIX: Final = "kafka."
_SERVERS: Final = "spec.source.kafka.bootstrapServers"
_OPTIONS: Final = "spec.source.kafka.options and its Secrets"
_CLOSE_SECONDS: Final = 2


def look_at_topics(session: SparkSession, source: KafkaSource, seconds: float) -> str:
    """What was found, in words. `seconds`: how long brokers may take.

    Raises SourceUnreachable (no broker answers, or a topic is missing), SourceDenied, SourceOptionsRefused,
    MissingConnector, SpecError (a Secret).
    """
    properties = client_properties(source, seconds)
    jvm: Any = session._jvm  # noqa: SLF001 - PySpark has no other way
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(_java_map(jvm, properties))
    except Py4JJavaError as error:
        raise explained(_causes(error), source, seconds) from error
    except (Py4JError, TypeError) as error:  # the name is a package to py4j: there is no such class
        raise MissingConnector(
            "Spark has no Kafka client: its jars are missing. Run `make connectors`, name a folder that holds them in "
            "BUCKETINGEST_JARS, or set spark.conf spark.jars.packages"
        ) from error
    try:
        return _look(jvm, admin, source, seconds)
    except Py4JJavaError as error:
        raise explained(_causes(error), source, seconds) from error
    finally:
        admin.close(jvm.java.time.Duration.ofSeconds(_CLOSE_SECONDS))


def client_properties(source: KafkaSource, seconds: float) -> dict[str, str]:
    """Properties of a Kafka client as Spark's source makes them from options, with limits of time. Raises SpecError."""
    given = {**source.options, **secret_options(source)}
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
    if "UnknownTopicOrPartition" in names:
        missing = ", ".join(source.topics or ())
        return SourceUnreachable(
            f"{where} lacks a topic of spec.source.kafka.topics ({missing}): correct the name, or create the topic"
        )
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


def _look(jvm: Any, admin: Any, source: KafkaSource, seconds: float) -> str:
    unit = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    limit = int(seconds * 1000)
    if source.topics is not None:
        wanted = jvm.java.util.ArrayList()
        for topic in source.topics:
            wanted.append(topic)
        found = admin.describeTopics(wanted).allTopicNames().get(limit, unit)
        partitions = sum(len(found[topic].partitions()) for topic in source.topics)
        return f"{len(source.topics)} topics with {partitions} partitions"
    pattern = jvm.java.util.regex.Pattern.compile(source.topic_pattern)
    names = admin.listTopics().names().get(limit, unit)
    matching = sum(pattern.matcher(name).matches() for name in names)
    return f"{matching} topics match spec.source.kafka.topicPattern now"


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
