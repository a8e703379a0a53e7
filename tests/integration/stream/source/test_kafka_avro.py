"""Avro messages are decoded with the schema that the resource gives: also where SQL is Spark's."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from bucketingest.decode.decoder_choice import way_of
from bucketingest.spec.model import BucketIngest
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic

pytestmark = pytest.mark.kafka

WAYS = ["on Arrow", "in Spark"]
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def row(number: int) -> dict[str, Any]:
    return {
        "id": f"ключ-{number}",
        "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=number),
        "amount": Decimal(number - 50).scaleb(-2),
        "note": None if number % 3 else f"note {number}",
        "kind": "NEW" if number % 2 else "OLD",
        "tags": [f"tag {tag}" for tag in range(number % 3)],
    }


def encoded(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, SCHEMA, record)
    return out.getvalue()


def resource(lake: Lake, topic: Topic, way: str = "on Arrow", **avro: Any) -> BucketIngest:
    found = lake.resource(
        topic.source(),
        format={"type": "avro", "schema": json.dumps(SCHEMA), **avro},
        table={"recordKey": ["id"], "orderingField": "at"},
        transform={
            "sql": "SELECT * FROM source" if way == "on Arrow" else "SELECT * FROM source WHERE reverse('') = ''"
        },
    )
    assert str(way_of(found)).startswith(f"decoding {way}")
    return found


@pytest.mark.parametrize("way", WAYS)
def test_avro_records_arrive_with_every_value(run: Runner, lake: Lake, new_topic: NewTopic, way: str) -> None:
    topic = new_topic(partitions=2)
    rows = [row(number) for number in range(100)]
    topic.send([(each["id"].encode(), encoded(each)) for each in rows])

    run.once(resource(lake, topic, way))

    found = sorted(lake.rows().to_pylist(), key=lambda each: str(each["at"]))
    assert found == rows


@pytest.mark.parametrize("way", WAYS)
def test_malformed_avro_is_a_dead_letter(run: Runner, lake: Lake, new_topic: NewTopic, way: str) -> None:
    topic = new_topic()
    bad: list[bytes | None] = [b"\x05", b"", encoded(row(1))[:-6], None, b"\xff" * 40]
    topic.send([(None, value) for value in [encoded(row(0)), *bad, encoded(row(2))]])

    run.once(resource(lake, topic, way))

    letters = lake.letters()
    assert [(each["offset"], each["value"]) for each in letters] == list(enumerate(bad, start=1))
    details = [each["detail"] for each in letters]
    problem = "the record cannot be decoded with the schema"
    assert details == [
        f"{problem}: field id, byte 1: a length of -3 bytes",
        f"{problem}: field id, byte 1: the message ends within a long",
        f"{problem}: field tags[0], byte 25: the message ends within a value of 5 bytes",
        "the message has no value",
        f"{problem}: field id, byte 1: a long has more than 10 bytes",
    ]
    assert sorted(each["id"] for each in lake.rows().to_pylist()) == ["ключ-0", "ключ-2"]


@pytest.mark.parametrize("way", WAYS)
def test_confluents_header_is_taken_off_and_another_schemas_messages_are_dead_letters(
    run: Runner, lake: Lake, new_topic: NewTopic, way: str
) -> None:
    topic = new_topic()
    own, another = b"\0" + (300).to_bytes(4, "big"), b"\0" + (301).to_bytes(4, "big")
    rows = [row(number) for number in range(5)]
    bad = [another + encoded(row(5)), encoded(row(6)), own, own[:3], b"\1" + own[1:] + encoded(row(7))]
    topic.send([(None, value) for value in [*(own + encoded(each) for each in rows), *bad]])

    run.once(resource(lake, topic, way, confluentSchemaId=300))

    assert sorted(lake.rows().to_pylist(), key=lambda each: str(each["at"])) == rows
    letters = lake.letters()
    assert [(each["offset"], each["value"]) for each in letters] == list(enumerate(bad, start=5))
    problem = "the record lacks Confluent's header of schema 300, or cannot be decoded with it"
    assert {each["detail"].partition(":")[0] for each in letters} == {problem}
    assert letters[0]["detail"] == f"{problem}: byte 1: the header is 000000012d, not 000000012c"
