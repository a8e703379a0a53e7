"""Columns grow with the Protobuf and JSON Schemas of messages while the query runs, and old producers go on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf import message_factory

from bucketingest.decode.protobuf.compiled import compiled
from bucketingest.decode.protobuf.descriptors import descriptor_of
from bucketingest.stream import ingest_resource
from devservers.registry import SchemaRegistry
from support.jobs.stream_runs import Lake, NewTopic, Runner, finish

pytestmark = pytest.mark.kafka

KINDS_OF_PROTOBUF = {"int": "int32", "long": "int64", "text": "string"}
KINDS_OF_JSON = {"int": "integer", "long": "integer", "text": "string"}


@dataclass(frozen=True)
class Protobuf:
    """Schemas and messages as Protobuf."""

    kind = "PROTOBUF"
    paid = 'syntax = "proto3"; package base; message Money { int64 cents = 1; }'

    def schema(self, n: str, inside: str, *others: str) -> str:
        more = {"a": "int64 a = 4;", "b": "int64 b = 5;", "paid": "base.Money paid = 6;"}
        imports = 'import "base/money.proto";' if "paid" in others else ""
        place = {"x": "int32 x = 1;", "y": "double y = 2;"}
        fields = f"{KINDS_OF_PROTOBUF[n]} n = 2; Place place = 3; {' '.join(more[each] for each in others)}"
        inner = " ".join(place[each] for each in inside)
        return f"""syntax = "proto3"; package shop; {imports}
            message Order {{ string id = 1; {fields} }}
            message Place {{ {inner} }}"""

    def message(self, schema: str, row: dict[str, Any]) -> bytes:
        descriptors = compiled(schema, {"base/money.proto": self.paid})
        made: bytes = message_factory.GetMessageClass(descriptor_of(descriptors, "shop.Order"))(
            **row
        ).SerializeToString()
        return b"\0" + made


@dataclass(frozen=True)
class Json:
    """Schemas and messages as JSON."""

    kind = "JSON"
    paid = json.dumps({"type": "object", "properties": {"cents": {"type": "integer"}}})

    def schema(self, n: str, inside: str, *others: str) -> str:
        kinds = {"x": {"type": "integer"}, "y": {"type": "number"}, "paid": {"$ref": "base/money.proto"}}
        fields: dict[str, Any] = {
            "id": {"type": "string"},
            "n": {"type": KINDS_OF_JSON[n]},
            "place": {"type": "object", "properties": {each: kinds[each] for each in inside}},
            **{each: kinds.get(each, kinds["x"]) for each in others},
        }
        return json.dumps({"type": "object", "properties": fields})

    def message(self, schema: str, row: dict[str, Any]) -> bytes:
        return json.dumps(row).encode()


@pytest.mark.parametrize("of", [Protobuf(), Json()], ids=lambda of: of.kind)
def test_old_and_new_producers_write_at_the_same_time(  # noqa: PLR0917 - fixtures
    spark: Any, run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry, of: Protobuf | Json
) -> None:
    def message(number: int, **row: Any) -> tuple[None, bytes]:
        return None, b"\0" + ids[number].to_bytes(4, "big") + of.message(schemas[number], row)

    topic = new_topic()
    subject = f"{topic.name}-value"
    schemas = [
        of.schema("int", "x"),
        of.schema("int", "x", "a"),
        of.schema("long", "xy", "b", "paid"),
        of.schema("text", "x"),
    ]
    ids = [schema_registry.register(subject, schemas[0], kind=of.kind)]
    schema_registry.register(f"{subject}-money", of.paid, kind=of.kind)
    money = [{"name": "base/money.proto", "subject": f"{subject}-money", "version": 1}]
    format_: dict[str, Any] = {"type": of.kind.lower(), "registry": {"url": schema_registry.url}}
    found = lake.resource(topic.source(), format=format_, table={"recordKey": ["id"]})
    topic.send([message(0, id="0", n=7, place={"x": 1})])
    running = ingest_resource(spark, found)
    try:
        _until(running, lambda: lake.instants() and len(lake.rows()) == 1)
        for number, each in enumerate(schemas[1:], 1):
            references = money if number == 2 else []
            # As another subject's: a registry may refuse what is no compatible version.
            ids.append(schema_registry.register(f"{subject}-{number}", each, references, kind=of.kind))
        topic.send(
            [
                message(1, id="1", n=1, place={"x": 1}, a=10),
                message(0, id="2", n=2, place={"x": 2}),
                message(2, id="3", n=2**40, place={"x": 3, "y": 0.5}, b=30, paid={"cents": 5}),
                message(3, id="4", n="four", place={"x": 3}),
            ]
        )
        _until(running, lambda: len(lake.rows()) == 4)
        progress = running.progress()
    finally:
        running.request_stop()
        finish(running)
    assert (progress.rollbacks, progress.position_losses) == (0, 0)
    (letter,) = lake.letters()
    assert "field n is string and cannot be read as long" in letter["detail"]
    # The next start takes the subject's newest, which lacks most of it.
    topic.send([message(1, id="5", n=5, place={"x": 5}, a=50)])
    run.once(found)
    rows = lake.rows().sort_by("id").select(["id", "n", "place", "a", "b", "paid"]).to_pylist()
    assert [tuple(each.values()) for each in rows] == [
        ("0", 7, {"x": 1, "y": None}, None, None, None),
        ("1", 1, {"x": 1, "y": None}, 10, None, None),
        ("2", 2, {"x": 2, "y": None}, None, None, None),
        ("3", 2**40, {"x": 3, "y": 0.5}, None, 30, {"cents": 5}),
        ("5", 5, {"x": 5, "y": None}, 50, None, None),
    ]


def _until(running: Any, reached: Any) -> None:
    for _ in range(600):
        assert not running.wait(0.1), "the query has ended"
        if reached():
            return
    raise AssertionError("it was not reached")
