"""Topics that Debezium wrote, from a broker into a table: it is the source's table, row for row."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal

import pytest

from bucketingest.spec.model import BucketIngest
from bucketingest.stream.errors import InvalidTransform, KeyUnknown, QueryFailed
from devservers.registry import SchemaRegistry
from support.decoding.debezium_avro import KEY_SCHEMA, ORDERS, encoded, event_schema
from support.decoding.debezium_flat import flat_records
from support.decoding.debezium_streams import records_of
from support.jobs.stream_runs import Lake, NewTopic, Runner

pytestmark = pytest.mark.kafka


def test_a_topic_of_postgresql_in_two_runs_on_arrow(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    envelope = {"type": "debezium", "truncate": "deadLetter"}
    schema = "id BIGINT, customer STRING, tsl TIMESTAMP, d DATE, extra STRING"
    wanted = lake.resource(
        topic.source(),
        format={"type": "json", "schema": schema, "timestamps": "micros", "envelope": envelope},
        transform={"sql": "SELECT id, upper(customer) AS name, d, __deleted, id % 2 AS part FROM source"},
        table={"recordKey": ["id", "part"], "partitionBy": ["part"]},
    )
    records = records_of("postgres.orders")
    for part in (records[:6], records[6:]):
        topic.send(part, partition=0)
        run.once(wanted)
    rows = {row["id"]: (row["name"], row["d"]) for row in lake.rows().to_pylist()}
    assert rows == {
        1: ("ANN", dt.date(2026, 1, 31)),
        4: ("CATHY", None),
        5: ("DAN", None),
        6: ("EVE", None),
        10: ("AFTER", None),
        5_000_000_000: ("BIG", None),
    }
    assert set(lake.rows().column_names) == {"id", "name", "d", "part"}
    assert not lake.dead_letters.exists()


def test_a_topic_of_mariadb_whose_rows_move_with_sql_in_spark(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()

    def resource(**envelope: str) -> BucketIngest:
        envelope = {"type": "debezium", "before": "full", **envelope}
        return lake.resource(
            topic.source(),
            format={"type": "json", "schema": "id BIGINT, customer STRING, y INT", "envelope": envelope},
            transform={"sql": "SELECT * FROM source WHERE reverse('') = ''"},
            table={"recordKey": ["id"], "partitionBy": ["customer"], "deleteWhen": "y = 1"},
            errors={"mode": "deadLetter", "deadLetterPath": str(lake.dead_letters)},
        )

    records = records_of("mariadb.orders")
    topic.send(records[:14], partition=0)
    run.once(resource())
    topic.send(records[14:], partition=0)
    with pytest.raises(QueryFailed, match=r"shop\.orders was truncated \(op t\)") as caught:
        run.once(resource())
    assert caught.value.cause == "SourceTruncated"
    rows = {row["id"]: (row["customer"], row["y"]) for row in lake.rows().to_pylist()}
    assert rows == {
        1: ("ann", 2026),
        4: ("cc", None),
        5: ("d", None),
        6: ("e", None),
        7: ("f", None),
        5_000_000_000: ("big", None),
    }

    run.once(resource(truncate="deadLetter"))
    assert 10 in lake.rows().column("id").to_pylist()
    (letter,) = lake.letters()
    assert (letter["offset"], "truncated" in letter["detail"]) == (14, True)


def test_sql_that_loses_what_is_deleted_is_refused(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    wanted = lake.resource(
        new_topic().source(),
        format={"type": "json", "schema": "id BIGINT", "envelope": {"type": "debezium"}},
        transform={"sql": "SELECT id FROM source"},
        table={"recordKey": ["id"]},
    )
    with pytest.raises(InvalidTransform, match="does not select __deleted"):
        run.once(wanted)


def test_a_topic_in_avro_whose_columns_become_more(
    run: Runner, lake: Lake, new_topic: NewTopic, schema_registry: SchemaRegistry
) -> None:
    topic = new_topic()
    all_columns = {name: ORDERS[name] for name in ("customer", "amount", "ts", "d", "n", "extra")}
    first = {name: kind for name, kind in all_columns.items() if name != "extra"}
    schemas = [schema_registry.register(f"{topic.name}-value", event_schema(first))]
    keys = schema_registry.register(f"{topic.name}-key", KEY_SCHEMA)

    def ingest() -> None:
        run.once(
            lake.resource(
                topic.source(),
                format={
                    "type": "avro",
                    "registry": {"url": schema_registry.url},
                    "envelope": {"type": "debezium"},
                },
                table={},
            )
        )

    topic.send(encoded("postgres.orders", first, schemas[0], keys)[:6], partition=0)
    ingest()
    assert "extra" not in lake.rows().column_names
    schemas.append(schema_registry.register(f"{topic.name}-value", event_schema(all_columns)))
    topic.send(encoded("postgres.orders", all_columns, schemas[1], keys)[6:], partition=0)
    ingest()
    rows = {row["id"]: (row["customer"], row["amount"], row["extra"]) for row in lake.rows().to_pylist()}
    assert {key: (name, extra) for key, (name, _, extra) in rows.items()} == {
        1: ("ann", None),
        4: ("cathy", None),
        5: ("dan", None),
        6: ("eve", "e"),
        10: ("after", None),
        5_000_000_000: ("big", None),
    }
    assert rows[1][1] == Decimal("99.01")
    assert not lake.dead_letters.exists()


def test_flat_rows_whose_key_is_that_of_the_messages(run: Runner, lake: Lake, new_topic: NewTopic) -> None:
    topic = new_topic()
    wanted = lake.resource(
        topic.source(),
        format={
            "type": "json",
            "schema": "id BIGINT, customer STRING",
            "envelope": {"type": "debeziumFlat", "truncate": "deadLetter"},
        },
        table={},
    )
    topic.send([(None, b'{"id": 1}')], partition=0)
    with pytest.raises(KeyUnknown, match=r"no message of the topic has a key"):
        run.once(wanted)
    records = [
        (key, None if row is None else json.dumps(row).encode())
        for key, row in flat_records("postgres.orders", "rewrite-with-tombstone")
    ]
    for part in (records[:6], records[6:]):
        topic.send(part, partition=0)
        run.once(wanted)
    assert {row["id"]: row["customer"] for row in lake.rows().to_pylist()} == {
        1: "ann",
        4: "cathy",
        5: "dan",
        6: "eve",
        10: "after",
        5_000_000_000: "big",
    }
    assert "hoodie.table.recordkey.fields=id\n" in (lake.table / ".hoodie/hoodie.properties").read_text()


@pytest.mark.parametrize(
    "case",
    [
        ({"type": "bucket", "buckets": 2}, "SELECT * FROM source", 4),
        ({"type": "bucket", "buckets": 2}, "SELECT * FROM source WHERE reverse('') = ''", 100),
        ({"type": "state"}, "SELECT * FROM source", 3),
        ({"type": "state", "global": True}, "SELECT * FROM source", 100),
    ],
)
def test_a_truncate_deletes_all_that_came_before_and_nothing_else(
    run: Runner, lake: Lake, new_topic: NewTopic, case: tuple[dict[str, object], str, int]
) -> None:
    index, sql, per_batch = case
    topic = new_topic()
    wanted = lake.resource(
        topic.source(maxOffsetsPerTrigger=per_batch),
        format={
            "type": "json",
            "schema": "id BIGINT, part BIGINT, text STRING",
            "envelope": {"type": "debezium", "truncate": "delete"},
        },
        transform={"sql": sql},
        table={"recordKey": ["id", "part"], "partitionBy": ["part"], "index": index},
        commit={"mode": "interval", "interval": "30s", "trigger": "0s"},
    )

    def row(number: int, text: str) -> tuple[bytes, bytes]:
        after = {"id": number, "part": number % 2, "text": text}
        key = json.dumps({"id": number, "part": number % 2}).encode()
        return key, json.dumps({"op": "c", "before": None, "after": after}).encode()

    truncate = (None, b'{"op": "t", "before": null, "after": null, "source": {"table": "orders"}}')
    topic.send([row(number, "first") for number in range(6)], partition=0)
    run.once(wanted)
    topic.send([row(6, "second"), row(0, "second"), truncate, row(1, "third"), row(7, "third")], partition=0)
    topic.send([row(8, "third"), truncate, row(2, "last"), row(9, "last")], partition=0)
    run.once(wanted)
    assert {row["id"]: row["text"] for row in lake.rows().to_pylist()} == {2: "last", 9: "last"}
    topic.send([row(0, "again"), (row(2, "")[0], None)], partition=0)
    run.once(wanted)
    assert {row["id"]: row["text"] for row in lake.rows().to_pylist()} == {0: "again", 9: "last"}
    assert not lake.dead_letters.exists()


def test_a_truncate_of_a_topic_with_several_partitions_deletes_nothing(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    wanted = lake.resource(
        topic.source(),
        format={"type": "json", "schema": "id BIGINT", "envelope": {"type": "debezium", "truncate": "delete"}},
        table={"recordKey": ["id"]},
    )
    topic.send([(b'{"id": 1}', b'{"op": "c", "before": null, "after": {"id": 1}}')], partition=0)
    run.once(wanted)
    topic.send([(None, b'{"op": "t", "before": null, "after": null}')], partition=1)
    with pytest.raises(QueryFailed, match="has several partitions") as caught:
        run.once(wanted)
    assert caught.value.cause == "SourceTruncated"
    assert lake.rows().num_rows == 1


@pytest.mark.parametrize("sql", ["SELECT * FROM source", "SELECT *, length(grp) AS n FROM source"])
def test_values_that_were_not_sent_stay_as_they_were(run: Runner, lake: Lake, new_topic: NewTopic, sql: str) -> None:
    topic = new_topic()
    wanted = lake.resource(
        topic.source(),
        format={
            "type": "json",
            "schema": "id BIGINT, grp STRING, big STRING",
            "envelope": {"type": "debezium", "unavailable": "keep", "truncate": "deadLetter"},
        },
        transform={"sql": sql},
        table={"recordKey": ["id"], "index": {"type": "state"}},
    )
    records = records_of("postgres.toast")
    values = [event for _, value in records if value and (event := json.loads(value))["op"] in {"c", "r", "u", "d"}]
    expected: dict[int, tuple[str, str]] = {}
    for event in values:
        new = event["after"]
        if new is None:
            expected.pop(event["before"]["id"], None)
            continue
        was_sent = new["big"] != "__debezium_unavailable_value"
        expected[new["id"]] = (new["grp"], new["big"] if was_sent else expected[new["id"]][1])
    assert any(event["after"] and event["after"]["big"] == "__debezium_unavailable_value" for event in values)
    for record in records:
        topic.send([record], partition=0)
    run.once(wanted)
    assert {row["id"]: (row["grp"], row["big"]) for row in lake.rows().to_pylist()} == expected
    assert ["truncated" in letter["detail"] for letter in lake.letters()] == [True, True]


def test_values_that_were_not_sent_and_that_sql_looks_at_are_dead_letters(
    run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    wanted = lake.resource(
        topic.source(),
        format={
            "type": "json",
            "schema": "id BIGINT, a STRING, b STRING, c STRING, d STRING, e STRING",
            "envelope": {"type": "debezium", "unavailable": "keep"},
        },
        transform={
            "sql": "SELECT id, a, b, d AS f, length(c) AS n, c, __deleted FROM source WHERE b <> 'x' OR __deleted"
        },
        table={"recordKey": ["id"], "index": {"type": "state"}},
    )
    whole = dict.fromkeys("abcde", "old")
    for at, lacking in enumerate(["", *"abcde"]):
        row = {"id": at, **whole}
        topic.send([(b'{"id": %d}' % at, json.dumps({"op": "c", "before": None, "after": row}).encode())], partition=0)
        row |= {lacking: "__debezium_unavailable_value"} if lacking else {}
        topic.send([(b'{"id": %d}' % at, json.dumps({"op": "u", "before": None, "after": row}).encode())], partition=0)
    run.once(wanted)
    assert {row["a"] for row in lake.rows().to_pylist()} == {"old"}
    assert sorted(letter["detail"].split("field ")[1][0] for letter in lake.letters()) == ["b", "c", "d"]
