"""Protobuf messages are decoded with the descriptors that the resource gives or a registry has, also before SQL."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from google.protobuf import message_factory

from bucketingest.decode.decoder_choice import way_of
from bucketingest.decode.protobuf.compiled import compiled
from bucketingest.decode.protobuf.descriptors import descriptor_of
from devservers.registry import SchemaRegistry
from support.jobs.stream_runs import Lake, NewTopic, Runner

pytestmark = pytest.mark.kafka

MONEY = 'syntax = "proto3"; package base; message Money { int64 cents = 1; }'
SCHEMA = """syntax = "proto3";
package shop;
import "base/money.proto";
import "google/protobuf/timestamp.proto";
enum Kind { NONE = 0; NEW = 1; OLD = 2; }
message Nothing { string why = 1; }
message Order {
  string id = 1;
  optional int64 n = 2;
  Kind kind = 3;
  repeated string tags = 4;
  map<string, int32> counts = 5;
  google.protobuf.Timestamp at = 6;
  base.Money paid = 7;
}
"""
OLD = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Order { string id = 1; google.protobuf.Timestamp at = 6; }
"""
DESCRIPTORS = compiled(SCHEMA, {"base/money.proto": MONEY})
ORDER: Any = message_factory.GetMessageClass(descriptor_of(DESCRIPTORS, "shop.Order"))
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PROBLEM = "the record cannot be decoded with the schema"
KEPT = "SELECT * FROM source"
CHANGED = "SELECT id, n + 0 AS n, kind, tags, counts, at, paid FROM source"
OF_SPARK = f"{CHANGED} WHERE reverse('') = ''"


def row(number: int) -> dict[str, Any]:
    return {
        "id": f"ключ-{number}",
        "n": None if number % 5 == 0 else number - 3,
        "kind": (None, "NEW", "OLD")[number % 3],
        "tags": [f"tag {tag}" for tag in range(number % 3)],
        "counts": [(f"c{count}", count) for count in range(number % 4)],
        "at": AT + dt.timedelta(microseconds=number),
        "paid": None if number % 2 else {"cents": number + 1},
    }


def encoded(record: dict[str, Any]) -> bytes:
    return ORDER(**record | {"counts": dict(record["counts"])}).SerializeToString()


def found_rows(lake: Lake) -> list[dict[str, Any]]:
    rows = sorted(lake.rows().to_pylist(), key=lambda each: str(each["at"]))
    return [each | {"counts": sorted(each["counts"] or ())} for each in rows]


@pytest.mark.parametrize("sql", [KEPT, CHANGED, OF_SPARK])
def test_every_value_arrives_and_what_is_no_message_is_a_dead_letter(
    run: Runner, lake: Lake, new_topic: NewTopic, sql: str
) -> None:
    topic = new_topic(partitions=2)
    rows = [row(number) for number in range(100)]
    bad = [b"\x0a\x05ab", b"\x08\x01", None]
    topic.send([*((each["id"].encode(), encoded(each)) for each in rows)], partition=0)
    topic.send([(None, value) for value in bad], partition=1)
    resource = lake.resource(
        topic.source(),
        format={"type": "protobuf", "schema": DESCRIPTORS, "messageName": "shop.Order"},
        table={"recordKey": ["id"], "orderingField": "at"},
        transform={"sql": sql},
    )
    assert (way_of(resource).name == "arrow") == (sql != OF_SPARK)

    run.once(resource)

    assert found_rows(lake) == rows
    letters = lake.letters()
    assert [(each["offset"], each["value"]) for each in letters] == list(enumerate(bad))
    assert [each["detail"] for each in letters] == [
        f"{PROBLEM}: field id, byte 2: the message ends within a value of 5 bytes",
        f"{PROBLEM}: field id, byte 1: wire type 0, which a field of type string cannot have",
        "the message has no value",
    ]


def test_the_newest_schema_of_the_topic_gives_the_columns_and_older_ones_are_read_as_it(
    run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry
) -> None:
    topic = new_topic()
    subject = f"{topic.name}-value"
    old = schema_registry.register(subject, OLD, kind="PROTOBUF")
    schema_registry.register(f"{subject}-money", MONEY, kind="PROTOBUF")
    references = [{"name": "base/money.proto", "subject": f"{subject}-money", "version": 1}]
    # As another subject's: a registry may see a message as another one that has moved in the file.
    new = schema_registry.register(f"{subject}-new", SCHEMA, references, kind="PROTOBUF")
    rows = [row(number) for number in range(50)]
    of_order, of_nothing = b"\0" + new.to_bytes(4, "big") + b"\x02\x02", b"\0" + new.to_bytes(4, "big") + b"\0"
    late = b"\0" + old.to_bytes(4, "big") + b"\0" + ORDER(id="old", at=AT - dt.timedelta(1)).SerializeToString()
    topic.send([(None, value) for value in [late, *(of_order + encoded(each) for each in rows), of_nothing, b"\0x"]])

    run.once(
        lake.resource(
            topic.source(),
            format={
                "type": "protobuf",
                "registry": {"url": schema_registry.url, "subject": f"{subject}-new"},
                "messageName": "shop.Order",
            },
            table={"recordKey": ["id"], "orderingField": "at"},
        )
    )

    first, *others = found_rows(lake)
    assert (first["id"], first["n"], first["tags"]) == ("old", None, None)
    assert others == rows
    assert [each["detail"] for each in lake.letters()] == [
        f"{PROBLEM}: schema {new}, byte 6: it is a shop.Nothing, not a shop.Order",
        f"{PROBLEM}: byte 1: it begins with 0078, which is not Confluent's header: a zero byte and a schema's id",
    ]
