"""JSON from a Kafka broker becomes the rows of a Hudi table, every one of them, in as many runs as it takes."""

from __future__ import annotations

import datetime as dt
import shutil
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.spec.model import BucketIngest
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic, messages
from support.oracle.compare import assert_same_rows
from support.oracle.expected import MergeRules, expected_table

pytestmark = pytest.mark.kafka

SCHEMA = (
    "order_id STRING, amount DECIMAL(10,2), updated_at TIMESTAMP, day DATE, note STRING, quantity INT, weight DOUBLE, "
    "address STRUCT<city: STRING, zip: STRING>, lines ARRAY<STRUCT<sku: STRING, price: DECIMAL(8,3)>>, paid BOOLEAN"
)
LINES = pa.list_(pa.struct([("sku", pa.string()), ("price", pa.decimal128(8, 3))]))
ARROW_SCHEMA = pa.schema(
    [
        ("order_id", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        ("updated_at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("note", pa.string()),
        ("quantity", pa.int32()),
        ("weight", pa.float64()),
        ("address", pa.struct([("city", pa.string()), ("zip", pa.string())])),
        ("lines", LINES),
        ("paid", pa.bool_()),
    ]
)
START = dt.datetime(2026, 3, 29, 0, 59, 59, 123456, tzinfo=dt.UTC)  # the hour in which Europe's clocks change
NOTES = [
    None,
    "",
    "plain",
    "ünïcödé",
    "日本語",
    "emoji 🦔",
    'quote " back\\slash',
    "line\nbreak\ttab",
    "\u0000",
    "e\u0301",
]
TABLE = {"recordKey": ["order_id"], "partitionBy": ["day"], "orderingField": "updated_at"}
RULES = MergeRules(key=["order_id"], partition_by=["day"], ordering="updated_at")


def order(number: int, **changes: Any) -> dict[str, Any]:
    """A row in which values of all kinds, nulls among them, take turns."""
    row = {
        "order_id": f"order-{number}" if number % 7 else f"bestellung-ß-🦔-{number}",
        "amount": None if number % 11 == 0 else Decimal(number * 7919 % 10**10 - 10**6).scaleb(-2),
        "updated_at": START + dt.timedelta(minutes=number),
        "day": dt.date(2026, 3, 29) + dt.timedelta(days=number % 2),
        "note": NOTES[number % len(NOTES)],
        "quantity": None if number % 5 == 0 else (-1) ** number * number,
        "weight": number / 7,
        "address": None
        if number % 13 == 0
        else {"city": f"Stadt {number % 17}", "zip": None if number % 3 else "04109"},
        "lines": [{"sku": f"sku-{line}", "price": Decimal(line * number).scaleb(-3)} for line in range(number % 4)],
        "paid": (True, False, None)[number % 3],
    }
    return row | changes


def as_arrow(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), ARROW_SCHEMA)


def resource(lake: Lake, topic: Topic, **kafka: Any) -> BucketIngest:
    return lake.resource(topic.source(**kafka), table=TABLE, format={"type": "json", "schema": SCHEMA})


def test_every_row_arrives_with_every_value_over_several_micro_batches(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=3)
    rows = [order(number) for number in range(1000)]
    topic.send(messages(rows, "order_id"))

    progress = run.once(resource(lake, topic, maxOffsetsPerTrigger=400))

    assert_same_rows(lake.rows(), as_arrow(*rows), key=["order_id"])
    assert (progress.rows, progress.rejected, progress.lag_offsets) == (1000, 0, 0)
    assert progress.batches == len(lake.instants()) == 3
    assert lake.letters() == []


def test_a_second_run_continues_where_the_first_ended(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    first, second = [order(number) for number in range(60)], [order(number) for number in range(60, 90)]
    wanted = resource(lake, topic)

    topic.send(messages(first, "order_id"))
    assert run.once(wanted).rows == 60
    topic.send(messages(second, "order_id"))
    assert run.once(wanted).rows == 30
    assert run.once(wanted).rows == 0

    assert_same_rows(lake.rows(), as_arrow(*first, *second), key=["order_id"])


def test_rows_between_two_starts_are_read_though_the_first_starts_at_the_latest_and_its_checkpoint_is_gone(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    before, between = [order(number) for number in range(10)], [order(number) for number in range(10, 30)]
    wanted = resource(lake, topic, startingOffsets="latest")

    topic.send(messages(before, "order_id"))
    assert run.once(wanted).rows == 0
    shutil.rmtree(lake.checkpoint)
    topic.send(messages(between, "order_id"))
    assert run.once(wanted).rows == len(between)

    assert_same_rows(lake.rows(), as_arrow(*between), key=["order_id"])


def test_late_rows_lose_by_the_ordering_field_and_of_equal_ones_the_later_offset_wins(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    base = order(1)
    early, late = base["updated_at"] - dt.timedelta(microseconds=1), base["updated_at"] + dt.timedelta(microseconds=1)
    batches = [
        # one micro-batch each; within it and between them the same rules hold
        [order(1, note="first"), order(1, note="late row", updated_at=early), order(2, note="a"), order(2, note="b")],
        [order(1, note="late row of the next micro-batch", updated_at=early), order(2, note="c"), order(3)],
        [order(3, note="newer", updated_at=order(3)["updated_at"] + dt.timedelta(days=1)), order(1, updated_at=late)],
    ]
    for batch in batches:
        topic.send(messages(batch, "order_id"))
        run.once(resource(lake, topic))

    expected = expected_table([as_arrow(*batch) for batch in batches], RULES)
    assert set(expected["note"].to_pylist()) == {NOTES[1], "c", "newer"}
    assert_same_rows(lake.rows(), expected, key=["order_id"])


def test_a_topic_pattern_takes_in_topics_that_appear_between_runs(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    first, second, other = new_topic(partitions=2), new_topic(), new_topic()
    decoy = Topic(other.broker, f"x-{other.name}")
    decoy.broker.create_topic(decoy.name)
    rows = [order(number) for number in range(40)]
    wanted = resource(lake, first, topics=None, topicPattern=f"{first.name[:-2]}-.*")

    first.send(messages(rows[:10], "order_id"))
    second.send(messages(rows[10:20], "order_id"))
    decoy.send(messages([order(99)], "order_id"))
    run.once(wanted)
    third = new_topic()
    third.send(messages(rows[20:30], "order_id"))
    first.send(messages(rows[30:], "order_id"))
    run.once(wanted)

    assert_same_rows(lake.rows(), as_arrow(*rows), key=["order_id"])


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM source", "SELECT order_id, _rest FROM source WHERE reverse('') = ''"], ids=["arrow", "spark"]
)
def test_members_that_the_schema_lacks_are_in_a_column(run: Runner, lake: Lake, new_topic: NewTopic, sql: str) -> None:
    topic = new_topic()
    topic.send([(None, b'{"order_id": "a", "more": 1.50}'), (None, b'{"order_id": "b"}')])
    format_ = {"type": "json", "schema": "order_id STRING", "unknownFields": "column"}
    run.once(lake.resource(topic.source(), format=format_, table={"recordKey": ["order_id"]}, transform={"sql": sql}))
    found = lake.rows().select(["order_id", "_rest"]).sort_by("order_id").to_pylist()
    assert found == [{"order_id": "a", "_rest": '{"more":1.50}'}, {"order_id": "b", "_rest": None}]
