"""Messages are decoded with the schemas that a registry has, and a registry that is down stops only what is new."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingest_resource
from devservers.registry import SchemaRegistry
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic, finish

pytestmark = pytest.mark.kafka

OLD: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}, {"name": "gone", "type": "string"}],
}
NEW: dict[str, Any] = {
    **OLD,
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ADDED = "SELECT id, n + 1 AS n, note"


def message(schema_id: int, schema: dict[str, Any], row: dict[str, Any]) -> tuple[None, bytes]:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return None, b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def resource(lake: Lake, topic: Topic, registry: SchemaRegistry, sql: str = "SELECT * FROM source") -> BucketIngest:
    return lake.resource(
        topic.source(),
        format={"type": "avro", "registry": {"url": registry.url}},
        table={"recordKey": ["id"]},
        transform={"sql": sql},
    )


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM source", f"{ADDED} FROM source", f"{ADDED} FROM source WHERE reverse('') = ''"]
)
def test_each_message_is_read_as_the_newest_schema_of_the_topic(
    run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry, sql: str
) -> None:
    topic = new_topic(partitions=2)
    subject = f"{topic.name}-value"
    old, new = schema_registry.register(subject, OLD), schema_registry.register(subject, NEW)
    good = [
        message(old, OLD, {"id": f"{n}", "n": n, "gone": "x"})
        if n % 2
        else message(new, NEW, {"id": f"{n}", "n": n + 2**40, "at": 5000, "note": "new"})
        for n in range(50)
    ]
    bad = [message(2**31 - 1, OLD, {"id": "x", "n": 0, "gone": ""}), (None, b"{}"), (None, None)]
    topic.send([*good, *bad], partition=0)

    run.once(resource(lake, topic, schema_registry, sql))

    found = sorted(lake.rows().to_pylist(), key=lambda each: int(each["id"]))
    added = int("+ 1" in sql)
    assert [(each["id"], each["n"], each["note"]) for each in found] == [
        (f"{n}", added + (n if n % 2 else n + 2**40), None if n % 2 else "new") for n in range(50)
    ]
    letters = lake.letters()
    assert [(each["offset"], each["value"]) for each in letters] == [
        (50 + n, value) for n, (_, value) in enumerate(bad)
    ]
    problem = "the record cannot be decoded with the schema"
    assert [each["detail"] for each in letters] == [
        f"{problem}: byte 2: schema 2147483647 is not in the registry",
        f"{problem}: byte 1: it begins with 7b7d, which is not Confluent's header: a zero byte and a schema's id",
        "the message has no value",
    ]


@pytest.mark.parametrize(
    "sql",
    ["SELECT * FROM source", "SELECT id, n + 0 AS n FROM source", "SELECT * FROM source WHERE reverse('') = ''"],
)
def test_json_of_a_registry_is_decoded_as_the_columns_of_the_resource(
    run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry, sql: str
) -> None:
    topic = new_topic()
    subject = f"{topic.name}-value"
    number = schema_registry.register(
        subject, {"type": "object", "properties": {"n": {"type": "integer"}}}, kind="JSON"
    )
    avro = schema_registry.register(f"{subject}-avro", OLD)
    header = b"\0" + number.to_bytes(4, "big")
    bad = [message(avro, OLD, {"id": "x", "n": 0, "gone": ""})[1], b"{}", header + b'{"n": "one"}']
    topic.send([(None, value) for value in [*(header + b'{"id": "%d", "n": %d}' % (n, n) for n in range(50)), *bad]])

    run.once(
        lake.resource(
            topic.source(),
            format={"type": "json", "schema": "id STRING, n BIGINT", "registry": {"url": schema_registry.url}},
            table={"recordKey": ["id"]},
            transform={"sql": sql},
        )
    )

    assert sorted((int(each["id"]), each["n"]) for each in lake.rows().to_pylist()) == [(n, n) for n in range(50)]
    problem = "the record cannot be decoded with the schema"
    assert [each["detail"] for each in lake.letters()] == [
        f"{problem}: byte 2: schema {avro} is AVRO, not JSON",
        f"{problem}: byte 1: it begins with 7b7d, which is not Confluent's header: a zero byte and a schema's id",
        f"{problem}: schema {number}, field n: Expected `int | null`, got `str`",
    ]


def test_a_schema_that_is_registered_while_the_query_runs_is_asked_for_and_one_that_is_known_is_not(
    spark: Any, lake: Lake, new_topic: NewTopic
) -> None:
    with SchemaRegistry() as registry:
        topic = new_topic()
        subject = f"{topic.name}-value"
        first = registry.register(subject, NEW)
        topic.send([message(first, NEW, {"id": "a", "n": 1, "at": 0, "note": None})])
        running = ingest_resource(spark, resource(lake, topic, registry))
        try:
            _until(running, lambda: lake.instants() and len(lake.rows()) == 1)
            second = registry.register(subject, {**NEW, "fields": NEW["fields"][:3]})
            topic.send([message(second, {**NEW, "fields": NEW["fields"][:3]}, {"id": "b", "n": 2, "at": 0})])
            _until(running, lambda: len(lake.rows()) == 2)
            registry.kill()
            topic.send([message(first, NEW, {"id": "c", "n": 3, "at": 0, "note": None})])
            _until(running, lambda: len(lake.rows()) == 3)
        finally:
            running.request_stop()
            finish(running)
    assert lake.rows().sort_by("id").select(["id", "n"]).to_pylist() == [
        {"id": "a", "n": 1},
        {"id": "b", "n": 2},
        {"id": "c", "n": 3},
    ]
    assert lake.letters() == []


def test_columns_grow_with_the_schemas_of_messages_while_the_query_runs_and_old_producers_go_on(
    spark: Any, run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry
) -> None:
    def schema(n: str, place: dict[str, str], *others: str) -> dict[str, Any]:
        inside = [{"name": name, "type": kind} for name, kind in place.items()]
        fields = [
            {"name": "id", "type": "string"},
            {"name": "n", "type": n},
            {"name": "place", "type": {"type": "record", "name": "Place", "fields": inside}},
            *({"name": each, "type": "long"} for each in others),
        ]
        return {**OLD, "fields": fields}

    topic = new_topic()
    subject = f"{topic.name}-value"
    schemas = [
        schema("int", {"x": "int"}),
        schema("int", {"x": "int"}, "a"),
        schema("long", {"x": "int", "y": "double"}, "b"),
        schema("string", {"x": "int"}),
    ]
    ids = [schema_registry.register(subject, schemas[0])]
    found = resource(lake, topic, schema_registry)
    topic.send([message(ids[0], schemas[0], {"id": "0", "n": 0, "place": {"x": 0}})])
    running = ingest_resource(spark, found)
    try:
        _until(running, lambda: lake.instants() and len(lake.rows()) == 1)
        ids += [schema_registry.register(subject, each) for each in schemas[1:]]
        topic.send(
            [
                message(ids[1], schemas[1], {"id": "1", "n": 1, "place": {"x": 1}, "a": 10}),
                message(ids[0], schemas[0], {"id": "2", "n": 2, "place": {"x": 2}}),
                message(ids[2], schemas[2], {"id": "3", "n": 2**40, "place": {"x": 3, "y": 0.5}, "b": 30}),
                message(ids[3], schemas[3], {"id": "4", "n": "four", "place": {"x": 3}}),
            ]
        )
        _until(running, lambda: len(lake.rows()) == 4)
        first = running.progress()
    finally:
        running.request_stop()
        finish(running)
    assert (first.rollbacks, first.position_losses) == (0, 0)
    (letter,) = lake.letters()
    assert "field n is string and cannot be read as long" in letter["detail"]
    # Another start takes the newest schema that the table takes, which has no a.
    topic.send([message(ids[1], schemas[1], {"id": "5", "n": 5, "place": {"x": 5}, "a": 50})])
    run.once(found)
    rows = lake.rows().sort_by("id").select(["id", "n", "place", "a", "b"]).to_pylist()
    assert [tuple(each.values()) for each in rows] == [
        ("0", 0, {"x": 0, "y": None}, None, None),
        ("1", 1, {"x": 1, "y": None}, 10, None),
        ("2", 2, {"x": 2, "y": None}, None, None),
        ("3", 2**40, {"x": 3, "y": 0.5}, None, 30),
        ("5", 5, {"x": 5, "y": None}, 50, None),
    ]


def _until(running: Any, reached: Any) -> None:
    for _ in range(600):
        assert not running.wait(0.1), "the query has ended"
        if reached():
            return
    raise AssertionError("it was not reached")
