"""Commits that have whole transactions of the database, from a broker."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from bucketingest.cli.connect.checking_spark import CheckingSpark
from bucketingest.cli.connect.checks import check_all
from bucketingest.cli.connect.results import Check
from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import InvalidTransform, SourceOptionsRefused, TransactionIncomplete
from devservers.registry import SchemaRegistry
from support.decoding.debezium_streams import records_of
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic, job

pytestmark = pytest.mark.kafka


def mirror(lake: Lake, topic: Topic, ends: Topic, **commit: Any) -> BucketIngest:
    return lake.resource(
        topic.source(maxOffsetsPerTrigger=4),
        table={"recordKey": ["id"]},
        format={"type": "json", "schema": "id BIGINT, customer STRING", "envelope": {"type": "debezium"}},
        commit={"mode": "checkpoint", "at": "transaction", "transactionTopic": ends.name, **commit},
    )


def ids(lake: Lake) -> list[Any]:
    return sorted(lake.rows()["id"].to_pylist())


def test_each_commit_has_whole_transactions_of_a_recorded_topic(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic, ends = new_topic(), new_topic()
    wanted = mirror(lake, topic, ends)
    events, said = records_of("postgres.orders"), records_of("postgres.transaction")
    topic.send(events[:10], partition=0)  # two of the three events of transaction 747, which insert 4 and 5
    ends.send(said[:6], partition=0)
    run.once(wanted)
    assert ids(lake) == [1]
    assert run.once(wanted).rows == 0
    ends.send(said[6:], partition=0)
    assert run.once(wanted).rows == 0, "the END says that there are three"
    topic.send(events[10:], partition=0)
    run.once(wanted)
    assert ids(lake) == [1, 4, 5, 6, 10, 5_000_000_000]
    assert not lake.dead_letters.exists()


def test_a_running_job_waits_for_the_end_and_says_so(spark: SparkSession, lake: Lake, new_topic: NewTopic) -> None:
    topic, ends = new_topic(), new_topic()
    events, said = records_of("postgres.orders"), records_of("postgres.transaction")
    with job(spark, mirror(lake, topic, ends, mode="interval", interval="1s", trigger="100ms")) as until:
        topic.send(events[:9], partition=0)
        ends.send(said[:6], partition=0)
        until(lambda now: now.rows > 0 and now.inflight_instant is None and (now.transaction_wait or 0.0) > 0.0)
        assert ids(lake) == [1]
        topic.send(events[9:], partition=0)
        ends.send(said[6:], partition=0)
        until(lambda now: now.transaction_wait == 0.0 and now.lag_offsets == 0)
    assert ids(lake) == [1, 4, 5, 6, 10, 5_000_000_000]


def test_a_transaction_that_never_ends_is_an_error(spark: SparkSession, lake: Lake, new_topic: NewTopic) -> None:
    topic, ends = new_topic(), new_topic()
    topic.send(records_of("postgres.orders")[:10], partition=0)
    wanted = mirror(lake, topic, ends, mode="interval", interval="1s", trigger="100ms", transactionWait="1s")
    with (
        pytest.raises(TransactionIncomplete, match=r"from offset 2 on has ended within 1 s.*is 747.*no END"),
        job(spark, wanted) as until,
    ):
        until(lambda _: False)
    assert ids(lake) == [1, 2], "the snapshot"


def test_a_topic_with_several_partitions_is_refused(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    topic.send(records_of("postgres.orders")[:3], partition=0)
    with pytest.raises(SourceOptionsRefused, match="several partitions"):
        run.once(mirror(lake, topic, new_topic()))


def looked_at(resource: BucketIngest) -> list[str]:
    """What `validate --connect` says of transactions."""
    said: list[Check] = []
    check_all(resource, CheckingSpark(), said.append)
    return [each.said for each in said if each.name == "transactions"]


@pytest.mark.usefixtures("spark")
def test_the_transaction_topic_is_looked_at_before_a_run(lake: Lake, new_topic: NewTopic) -> None:
    topic, ends, wide = new_topic(), new_topic(), new_topic(partitions=2)
    wanted = mirror(lake, topic, ends)
    topic.send(records_of("postgres.orders")[:3], partition=0)
    assert looked_at(wanted) == [f"{ends.name} can be read; it is empty"]
    ends.send(records_of("postgres.transaction")[:1], partition=0)
    assert looked_at(wanted) == [f"{ends.name} has Debezium's transaction metadata"]
    (lacks,) = looked_at(mirror(lake, topic, ends, transactionTopic="not-there"))
    assert "Kafka lacks the topic not-there: set Debezium's provide.transaction.metadata=true" in lacks
    (other,) = looked_at(mirror(lake, topic, ends, transactionTopic=topic.name))
    assert f"the topic {topic.name} has no BEGIN or END of Debezium in its 3 newest messages" in other
    (several,) = looked_at(mirror(lake, wide, ends))
    assert "several partitions" in several


def test_sql_that_runs_in_spark_is_refused(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    wanted = mirror(lake, topic, new_topic())
    sql = {"sql": "SELECT * FROM source WHERE reverse('') = ''"}
    spark = BucketIngest.from_document(
        {**wanted.to_document(), "spec": {**wanted.spec.to_document(), "transform": sql}}
    )
    with pytest.raises(InvalidTransform, match="runs in Spark"):
        run.once(spark)


def test_ends_in_avro_are_read_with_the_registrys_schemas(
    run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry
) -> None:
    topic, ends = new_topic(), new_topic()
    tables = {
        "type": "record",
        "name": "Collection",
        "fields": [{"name": "data_collection", "type": "string"}, {"name": "event_count", "type": "long"}],
    }
    end = {
        "type": "record",
        "name": "TransactionMetadataValue",
        "fields": [
            {"name": "status", "type": "string"},
            {"name": "id", "type": "string"},
            {"name": "data_collections", "type": ["null", {"type": "array", "items": tables}]},
        ],
    }
    nested = {"row": {"type": "record", "name": "Value", "fields": [{"name": "id", "type": "long"}]}}
    source = [{"name": name, "type": "string"} for name in ("connector", "db", "table", "snapshot")]
    said = [{"name": "id", "type": "string"}, {"name": "data_collection_order", "type": "long"}]
    event = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", nested["row"]]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "source", "type": {"type": "record", "name": "Source", "fields": source}},
            {"name": "op", "type": "string"},
            {"name": "transaction", "type": ["null", {"type": "record", "name": "Block", "fields": said}]},
        ],
    }
    key = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}

    def registered(name: str, schema: dict[str, Any]) -> RegisteredAvro:
        return RegisteredAvro(schema, schema_registry.register(name, json.dumps(schema)))

    of_events, of_ends = registered(f"{topic.name}-value", event), registered(f"{ends.name}-value", end)
    of_keys = registered(f"{topic.name}-key", key)

    def insert(id_: int, transaction: str, order: int) -> tuple[bytes, bytes]:
        place = {"connector": "mysql", "db": "shop", "table": "t", "snapshot": "false"}
        value = {
            "before": None,
            "after": {"id": id_},
            "source": place,
            "op": "c",
            "transaction": {"id": transaction, "data_collection_order": order},
        }
        return of_keys.message({"id": id_}), of_events.message(value)

    def ended(transaction: str, count: int) -> tuple[None, bytes]:
        counts = [{"data_collection": "shop.t", "event_count": count}]
        return None, of_ends.message({"status": "END", "id": transaction, "data_collections": counts})

    registry = {"url": schema_registry.url}
    wanted = lake.resource(
        topic.source(),
        format={"type": "avro", "registry": registry, "envelope": {"type": "debezium"}},
        table={"recordKey": ["id"]},
        commit={"mode": "checkpoint", "at": "transaction", "transactionTopic": ends.name},
    )
    topic.send([insert(1, "0-1-1", 1), insert(2, "0-1-1", 2), insert(3, "0-1-2", 1)], partition=0)
    ends.send([ended("0-1-1", 2), ended("0-1-2", 2)], partition=0)
    run.once(wanted)
    assert ids(lake) == [1, 2]
    topic.send([insert(4, "0-1-2", 2)], partition=0)
    run.once(wanted)
    assert ids(lake) == [1, 2, 3, 4]


class RegisteredAvro:
    """Values of a schema in Confluent's wire format."""

    def __init__(self, schema: dict[str, Any], schema_id: int) -> None:
        self._schema, self._head = fastavro.parse_schema(schema), b"\0" + schema_id.to_bytes(4, "big")

    def message(self, value: dict[str, Any]) -> bytes:
        """One of them."""
        written = io.BytesIO()
        fastavro.schemaless_writer(written, self._schema, value)
        return self._head + written.getvalue()
