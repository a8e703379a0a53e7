"""Where rows come from, as Spark reads them: Kafka, or generated rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it
from pyspark.sql.streaming.readwriter import DataStreamReader

from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.spec.fields.source import KafkaSource, RateSource
from bucketingest.spec.fields.source_secret import source_options
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import InvalidTransform, MissingConnector

T = TypeVar("T")


def read_source(session: SparkSession, resource: BucketIngest) -> DataFrame:
    """The streaming DataFrame of the resource's source. Files are not Spark's to read.

    Raises MissingConnector, InvalidTransform, SpecError.
    """
    source = resource.spec.source
    try:
        if source.kafka is not None:
            return _kafka(session, source.kafka)
        assert source.rate is not None, "files are not Spark's to read"
        return _rate(session, source.rate)
    except AnalysisException as error:
        raise _explained(error) from error


def _kafka(session: SparkSession, source: KafkaSource) -> DataFrame:
    reader = _of_topics(session.readStream, source)
    return (
        reader.option("startingOffsets", source.starting_offsets)
        .option("includeHeaders", "headers" in source.named_columns)
        .option("maxOffsetsPerTrigger", source.max_offsets_per_trigger)
        .load()
    )


def read_ranges(session: SparkSession, source: KafkaSource, ranges: Sequence[TopicRange] = ()) -> DataFrame:
    """The messages of the ranges; without any, messages that are not to be read. Raises MissingConnector."""
    reader = session.read.format("kafka").options(**source_options(source))
    if ranges:
        places, starts, ends = (
            _json(ranges, lambda _: None),
            _json(ranges, lambda each: each.start),
            _json(ranges, lambda each: each.until),
        )
        reader = reader.option("assign", json.dumps({topic: [*map(int, each)] for topic, each in places.items()}))
        reader = reader.option("startingOffsets", json.dumps(starts)).option("endingOffsets", json.dumps(ends))
    else:
        reader = reader.option("subscribe", ",".join(source.topics or ()))
    reader = reader.option("includeHeaders", "headers" in source.named_columns)
    try:
        return reader.option("kafka.bootstrap.servers", source.bootstrap_servers).load()
    except AnalysisException as error:
        raise _explained(error) from error


def _json(ranges: Sequence[TopicRange], value: Callable[[TopicRange], T]) -> dict[str, dict[str, T]]:
    found: dict[str, dict[str, T]] = {}
    for each in ranges:
        found.setdefault(each.topic, {})[str(each.partition)] = value(each)
    return found


def first_key(session: SparkSession, source: KafkaSource) -> bytes | None:
    """The key of any message that the topics have and that has one. Raises MissingConnector."""
    try:
        rows = _of_topics(session.read, source).load().select("key")
        found = rows.where(F.col("key").isNotNull()).head()
    except AnalysisException as error:
        raise _explained(error) from error
    return None if found is None else bytes(found["key"])


_Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)


def _of_topics(made: _Reader, source: KafkaSource) -> _Reader:
    reader = made.format("kafka").options(**source_options(source))
    if source.topics is not None:
        reader = reader.option("subscribe", ",".join(source.topics))
    else:
        assert source.topic_pattern is not None, "the model has topics or topicPattern"
        # Spark takes a topic whose name contains a match (Spark 4.2, seen).
        reader = reader.option("subscribePattern", f"^(?:{source.topic_pattern})$")
    return reader.option("kafka.bootstrap.servers", source.bootstrap_servers)


def _rate(session: SparkSession, source: RateSource) -> DataFrame:
    rows = session.readStream.format("rate").option("rowsPerSecond", source.rows_per_second).load()
    return rows if source.keys is None else rows.withColumn("key", F.col("value") % F.lit(source.keys))


def _explained(error: AnalysisException) -> Exception:
    if "kafka" in str(error).lower() and "data source" in str(error).lower():
        return MissingConnector(
            "Spark has no Kafka source: its jars are missing. Run `make connectors`, name a folder that holds them in "
            "BUCKETINGEST_JARS, or set spark.conf spark.jars.packages"
        )
    return InvalidTransform(f"spec.source: Spark cannot read it: {str(error).strip().splitlines()[0]}")
