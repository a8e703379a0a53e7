"""Topics that ExtractNewRecordState made flat become the same tables as those of events."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.growth import lenient
from bucketingest.decode.ddl import columns_of
from bucketingest.decode.debezium.avro_schemas import readings_of, row_of
from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import EventRules, SourceTruncated
from bucketingest.decode.debezium.registered import RegisteredDebeziumDecoder
from bucketingest.decode.json.times import MICROS_OF
from bucketingest.decode.message_columns import with_deleted
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.decode.rows import Decoded
from support.decoding.debezium_avro import KEY_SCHEMA, ORDERS, event_schema, key, message, row_schema
from support.decoding.debezium_flat import HANDLINGS, Handling, flat_records
from support.decoding.debezium_streams import Stream, records_of

FLAT = EventRules(full=False, stops=False, flat=True)
EVENTS = EventRules(full=False, stops=False)
DDL = "id BIGINT, customer STRING, d DATE"
SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "int64", "field": "id"},
        {"type": "string", "field": "customer"},
        {"type": "int32", "field": "d", "name": "io.debezium.time.Date"},
        {"type": "string", "field": "__deleted"},
    ],
}
Records = list[tuple[bytes | None, bytes | None]]


def decode(records: Records, rules: EventRules = FLAT, ddl: str = DDL) -> Decoded:
    keys, values = (pa.array(each, pa.binary()) for each in zip(*records, strict=True))
    return DebeziumDecoder(with_deleted(columns_of(ddl)), MICROS_OF["iso"], rules).decode(values, keys)


def text(value: Any) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":")).encode()


def table_of(decoded: Decoded) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    for row in decoded.rows.to_pylist():
        if row.pop("__deleted"):
            table.pop(row["id"], None)
        else:
            table[row["id"]] = row
    return table


def whys(decoded: Decoded) -> list[str]:
    return [each.why for each in decoded.refused]


@pytest.mark.parametrize("handling", HANDLINGS)
@pytest.mark.parametrize("stream", ["postgres.orders", "mariadb.orders"])
@pytest.mark.parametrize("with_schema", [False, True])
def test_a_flat_topic_is_the_table_that_its_events_are(
    handling: Handling, stream: Stream, *, with_schema: bool
) -> None:
    flat: Records = []
    for written, row in flat_records(stream, handling):
        schema = {"schema": SCHEMA, "payload": row} if with_schema and row is not None else row
        flat.append((written, text(schema)))
    decoded = decode(flat)
    assert table_of(decoded) == table_of(decode(records_of(stream), EVENTS))
    assert all("truncated" in each for each in whys(decoded))
    if handling == "rewrite-with-tombstone" and whys(decoded):
        with pytest.raises(SourceTruncated, match=r"orders was truncated"):
            decode(flat, EventRules(full=False, stops=True, flat=True))


def test_most_rows_are_not_parsed_one_by_one() -> None:
    rows: Records = [(b"{}", b'{"id":%d,"customer":"a","d":1,"__deleted":"false"}' % at) for at in range(1000)]
    assert decode(rows).one_by_one == 0


@pytest.mark.parametrize(
    ("written", "value", "row"),
    [
        (b'{"id":1}', b'{"id":1,"customer":"a","__deleted":"true"}', {"id": 1, "customer": None, "__deleted": True}),
        (b"1", b'{"id":1,"customer":"a","__deleted":true}', {"id": 1, "customer": "a", "__deleted": True}),
        (None, b'{"id":1,"x":{"__deleted":"true"}}', {"id": 1, "customer": None, "__deleted": False}),
        (
            None,
            b'{"id":1,"x":{"__deleted":"false"},"__deleted":"true"}',
            {"id": 1, "customer": None, "__deleted": True},
        ),
        (None, b'{"id":1,"customer":"__deleted"}', {"id": 1, "customer": "__deleted", "__deleted": False}),
        (None, b'{"id":1,"op":"t"}', {"id": 1, "customer": None, "__deleted": False}),
        (None, b'{"id":1,"ts_ms":2}', {"id": 1, "customer": None, "__deleted": False}),
        (b'{"id":1}', b'{"schema":null,"payload":null}', {"id": 1, "customer": None, "__deleted": True}),
        (None, b'{"schema":null,"payload":{"id":1}}', {"id": 1, "customer": None, "__deleted": False}),
    ],
)
@pytest.mark.parametrize("around", [0, 1])
def test_what_a_message_is(written: bytes | None, value: bytes, row: dict[str, Any], around: int) -> None:
    before: Records = [(None, b'{"id":0,"customer":"first"}')] * around
    decoded = decode([*before, (written, value)], ddl="id BIGINT, customer STRING")
    assert decoded.rows.to_pylist()[around:] == [row]
    assert decoded.refused == []


@pytest.mark.parametrize(
    ("written", "value", "why"),
    [
        (None, b'{"before":null,"after":{"id":1},"source":{},"op":"c"}', "set format.envelope.type to debezium"),
        (b"no", None, "a message without a value whose key is no JSON object"),
        (None, None, "a message without a value whose key is no JSON object"),
        (None, b"[1]", "Expected `object`, got `array`"),
        (None, b" ", "the message is empty"),
    ],
)
def test_what_is_no_row(written: bytes | None, value: bytes | None, why: str) -> None:
    decoded = decode([(None, b'{"id":0}'), (written, value)], ddl="id BIGINT")
    assert [why in each for each in whys(decoded)] == [True]
    assert decoded.rows.num_rows == 1


@pytest.mark.parametrize(
    ("value", "flat"),
    [
        (None, False),
        (None, True),
        (b'{"op":"d","before":{"id":1,"region":""}}', False),
        (b'{"__deleted":"true"}', True),
    ],
)
def test_a_delete_whose_key_lacks_a_column_of_the_record_key_is_a_dead_letter(
    value: bytes | None, *, flat: bool
) -> None:
    """Else it would delete a key that no row has, and the row would stay."""
    rules = EventRules(full=False, stops=False, key=("id", "region", "made_by_sql"), flat=flat)
    decoded = decode([(b'{"id":1,"region":"eu"}', value), (b'{"id":2}', value)], rules, "id BIGINT, region STRING")
    assert decoded.rows.to_pylist() == [{"id": 1, "region": "eu", "__deleted": True}]
    assert ["a delete whose key has no region, a column of table.recordKey" in each for each in whys(decoded)] == [True]


def test_a_heartbeat_is_nothing() -> None:
    decoded = decode([(b'{"serverName":"shop"}', b'{"ts_ms":1764226000000}')], ddl="id BIGINT")
    assert (decoded.rows.num_rows, decoded.refused) == (0, [])


COLUMNS = {name: ORDERS[name] for name in ("customer", "d")}
ROW = {**row_schema(COLUMNS), "fields": [*row_schema(COLUMNS)["fields"], {"name": "__deleted", "type": "string"}]}


def avro_decoder(rules: EventRules = FLAT) -> RegisteredDebeziumDecoder:
    schemas = [ROW, KEY_SCHEMA, event_schema(COLUMNS)]
    writers = {number: WriterSchema(json.dumps(each)) for number, each in enumerate(schemas, 1)}
    reader = lenient(row_of(json.dumps(ROW)))
    return RegisteredDebeziumDecoder(reader, with_deleted(readings_of(reader)[0]), {}, rules).knowing(writers)


@pytest.mark.parametrize("handling", HANDLINGS)
def test_a_flat_topic_in_avro(handling: Handling) -> None:
    records: Records = []
    for written, row in flat_records("mariadb.orders", handling):
        number = None if written is None else key(json.loads(written)["id"])
        if row is not None and "op" in row:
            whole = {**row, "ts_ms": 1, "source": {"table": "orders", "lsn": None}}
            records.append((number, message(3, event_schema(COLUMNS), whole)))
        else:
            kept = None if row is None else {"__deleted": "false", **{name: row.get(name) for name in COLUMNS}, **row}
            records.append((number, None if kept is None else message(1, ROW, kept)))
    keys, values = (pa.array(each, pa.binary()) for each in zip(*records, strict=True))
    decoded = avro_decoder().decode(values, keys)
    assert table_of(decoded) == table_of(decode(records_of("mariadb.orders"), EVENTS))
    assert all("truncated" in each for each in whys(decoded))
    if handling == "rewrite-with-tombstone":
        assert decoded.refused
        with pytest.raises(SourceTruncated, match=r"shop.inv.orders was truncated"):
            avro_decoder(EventRules(full=False, stops=True, flat=True)).decode(values, keys)


def test_a_delete_in_avro_whose_key_lacks_a_column_of_the_record_key_is_a_dead_letter() -> None:
    rules = EventRules(full=False, stops=False, key=("id", "customer"), flat=True)
    decoded = avro_decoder(rules).decode(pa.array([None], pa.binary()), pa.array([key(1)]))
    assert ["has no customer, a column of table.recordKey" in each for each in whys(decoded)] == [True]


def test_events_in_a_topic_of_flat_rows_are_dead_letters() -> None:
    value = message(3, event_schema(COLUMNS), {"op": "c", "ts_ms": 1, "source": {"table": "orders", "lsn": None}})
    decoded = avro_decoder().decode(pa.array([value]), pa.array([None], pa.binary()))
    assert ["set format.envelope.type to debezium" in each for each in whys(decoded)] == [True]
