"""Kafka as our tasks read it and as Spark does: the same messages in the same tasks; what is lost is Spark's to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from bucketingest.decode.kafka.client_options import client_of
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.message import MESSAGE, VALUE
from bucketingest.decode.kafka.reader import read
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import SourceDataLost
from bucketingest.stream.spark.session import prepared
from bucketingest.stream.topics.without_spark import ranges_of
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic

pytestmark = pytest.mark.kafka

Headers = list[tuple[str, str | bytes | None]]
LEFT = "Kafka is read through Spark for now"


def send_transactions(topic: Topic, count: int) -> None:
    """Every second one is aborted."""
    producer = Producer({"bootstrap.servers": topic.broker.bootstrap_servers, "transactional.id": topic.name})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for message in range(40):
            value = None if message % 3 == 0 else b"transaction %d %d" % (number, message)
            headers: Headers = [("a", b"%d" % message), ("\u00e4", None), ("a", b"")]
            producer.produce(
                topic.name,
                value,
                None if message % 5 == 0 else b"k%d" % message,
                partition=message % 2,
                headers=headers[: message % 4],
                timestamp=1_700_000_000_123 + message,
            )
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_tasks_read_what_tasks_of_spark_read(
    spark: SparkSession, new_topic: NewTopic, tmp_path: Path, isolation: str
) -> None:
    topic = new_topic(partitions=2)
    for partition in (0, 1):
        topic.send([(None, None if number % 5 == 0 else b"%d" % number) for number in range(1500)], partition=partition)
    send_transactions(topic, 6)
    options = {"kafka.isolation.level": isolation}
    client = client_of(topic.broker.bootstrap_servers, options)
    seen: list[tuple[list[tuple[int, dict[str, Any]]], list[tuple[int, dict[str, Any]]]]] = []
    columns = (VALUE, *(name for name in MESSAGE.names if name != VALUE))

    def note(rows: DataFrame, _: int) -> None:
        spark_rows = rows.select(F.spark_partition_id().alias("task"), *columns).toArrow()
        ours = []
        for task, wanted in enumerate(ranges_of(rows)):
            for batch in read(wanted, client, columns):
                assert batch.schema.equals(spark_rows.select(columns).schema), "but for whether there can be nulls"
                ours += [(task, message) for message in batch.to_pylist()]
        seen.append(([(message.pop("task"), message) for message in spark_rows.to_pylist()], ours))

    with prepared(spark):
        stream = spark.readStream.format("kafka").options(
            **options, subscribe=topic.name, minPartitions=5, includeHeaders=True
        )
        stream = stream.option("kafka.bootstrap.servers", topic.broker.bootstrap_servers)
        rows = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 2500).load()
        writer = rows.writeStream.foreachBatch(note).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    assert len(seen) == 2
    assert {task for theirs, _ in seen for task, _ in theirs} >= {0, 1, 2, 3, 4}
    assert sum(len(theirs) for theirs, _ in seen) == 3000 + 40 * (3 if isolation == "read_committed" else 6)
    for theirs, ours in seen:
        assert ours == theirs


def test_a_plan_of_another_form_is_sparks(spark: SparkSession) -> None:
    with pytest.raises(TopicInDoubt, match="another form than is known"):
        ranges_of(spark.range(3))


@pytest.mark.parametrize("interval", ["30s", "500ms"])
def test_lost_messages_are_sparks_to_judge(
    *,
    run: Runner,
    lake: Lake,
    new_topic: NewTopic,
    caplog: pytest.LogCaptureFixture,
    interval: str,
) -> None:
    """Whether the tasks read, or with a short interval this process."""
    topic = new_topic()

    def resource(**options: str) -> BucketIngest:
        format_ = {"type": "json", "schema": "id STRING, n INT"}
        commit = {"interval": interval, "trigger": "100ms"}
        return lake.resource(topic.source(options=options), format=format_, table={"recordKey": ["id"]}, commit=commit)

    def send(*numbers: int) -> None:
        topic.send((b"k", b'{"id": "k%d", "n": %d}' % (number, number)) for number in numbers)

    send(*range(10))
    with caplog.at_level("INFO"):
        assert run.once(resource()).rows == 10
        assert "reading Kafka in the tasks" in caplog.messages
        send(*range(10, 30))
        topic.broker.delete_records(topic.name, 0, before=20)
        with pytest.raises(SourceDataLost, match="offsets 10 to 19 are gone"):
            run.once(resource())
        assert LEFT not in caplog.messages
        assert run.once(resource(failOnDataLoss="false")).rows == 10
        assert LEFT in caplog.messages
    assert sorted(lake.rows()["n"].to_pylist()) == [*range(10), *range(20, 30)]
