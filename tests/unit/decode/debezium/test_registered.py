"""Debezium's topics in Avro become the rows of the source's table, by the rules of those in JSON."""

from __future__ import annotations

import datetime as dt
import json
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.growth import grown, lenient
from bucketingest.decode.avro.schema import UnreadableSchema
from bucketingest.decode.debezium.avro_schemas import readings_of, row_of
from bucketingest.decode.debezium.events import EventRules, SourceTruncated
from bucketingest.decode.debezium.placeholders import UUID_FORM
from bucketingest.decode.debezium.registered import RegisteredDebeziumDecoder
from bucketingest.decode.message_columns import with_deleted
from bucketingest.decode.registered.wire_format import UnknownSchemaIds, WriterSchema
from bucketingest.decode.rows import Decoded
from support.decoding.debezium_avro import (
    DECIMAL,
    KEY_SCHEMA,
    KEYS,
    ORDERS,
    TOAST,
    VALUES,
    VARIABLE,
    encoded,
    event,
    event_schema,
    key,
    message,
    row_schema,
    typed,
)

GOES_ON = EventRules(full=False, stops=False)
FULL = EventRules(full=True, stops=False, key=("id",))
PLACEHOLDER = "__debezium_unavailable_value"
OTHER = 3


def decoder(
    columns: dict[str, Any], rules: EventRules = GOES_ON, reader: str | None = None, other: Any = None
) -> RegisteredDebeziumDecoder:
    text = json.dumps(event_schema(columns))
    known = {VALUES: text, KEYS: json.dumps(KEY_SCHEMA), OTHER: json.dumps(other)}
    writers = {number: WriterSchema(each) for number, each in known.items()}
    reader = reader or lenient(row_of(text))
    made = RegisteredDebeziumDecoder(reader, with_deleted(readings_of(row_of(reader))[0]), {}, rules).knowing(writers)
    loaded = pickle.loads(pickle.dumps(made))
    assert isinstance(loaded, RegisteredDebeziumDecoder)
    return loaded


def decode(found: RegisteredDebeziumDecoder, *records: tuple[bytes | None, bytes | None]) -> Decoded:
    keys, values = (pa.array(each, pa.binary()) for each in zip(*records, strict=True))
    return found.decode(values, keys)


def events(columns: dict[str, Any], *values: dict[str, Any]) -> list[tuple[None, bytes]]:
    return [(None, event(columns, value)) for value in values]


def whys(decoded: Decoded) -> dict[int, str]:
    return {each.number: each.why for each in decoded.refused}


def mirrored(decoded: Decoded) -> dict[Any, dict[str, Any]]:
    table: dict[Any, dict[str, Any]] = {}
    for row in decoded.rows.to_pylist():
        if row.pop("__deleted"):
            table.pop(row["id"], None)
        else:
            table[row["id"]] = {name: value for name, value in row.items() if value is not None}
    return table


@pytest.mark.parametrize("with_keys", [True, False])
def test_a_topic_of_postgresql_is_the_rows_of_its_table(*, with_keys: bool) -> None:
    records = [(key if with_keys else None, value) for key, value in encoded("postgres.orders", ORDERS)]
    decoded = decode(decoder(ORDERS), *records)
    assert decoded.refused == []
    table = mirrored(decoded)
    assert {number: row["customer"] for number, row in table.items()} == {
        1: "ann",
        4: "cathy",
        5: "dan",
        6: "eve",
        10: "after",
        5_000_000_000: "big",
    }
    changed = dt.datetime(2026, 11, 27, 7, 5, 23, 321185, dt.UTC)
    assert {name: value for name, value in table[1].items() if name != "big_text"} == {
        "id": 1,
        "customer": "ann",
        "amount": Decimal("99.01"),
        "ts": changed,
        "tsl": changed,
        "d": dt.date(2026, 1, 31),
        "t": 45_296_789_000,
        "js": '{"a": 1}',
        "u": "00000000-0000-0000-0000-000000000001",
        "arr": [1, 2],
        "b": b"\x00\xff",
        "iv": 93_600_000_000,
        "m": Decimal("12.30"),
        "n": "123456789.123456789",
    }
    assert table[6]["extra"] == "e"


def test_deletes_are_what_the_keys_say_and_the_tombstone_behind_one_is_nothing() -> None:
    delete = event(TOAST, {"op": "d", "before": {"id": 1, "grp": "", "ts": "1970-01-01T00:00:00Z"}})
    upsert = event(TOAST, {"op": "c", "after": {"id": 1, "grp": "a"}})
    records = [
        (key(1), upsert),
        (key(1), delete),
        (key(1), None),
        (key(1), upsert),
        (key(1), None),
        (key(2), None),
        (None, None),
        (b"1", None),
        (b"1", delete),
        (b"1", None),
    ]
    decoded = decode(decoder(TOAST), *records)
    found = [(row["id"], row["grp"], row["ts"], row["__deleted"]) for row in decoded.rows.to_pylist()]
    made_up = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert found == [
        (1, "a", None, False),
        (1, None, None, True),
        (1, "a", None, False),
        (1, None, None, True),
        (2, None, None, True),
        (1, "", made_up, True),
    ]
    assert decoded.numbers(len(records)).tolist() == [0, 1, 3, 4, 5, 8]
    assert list(whys(decoded)) == [7]
    assert "a tombstone whose key" in whys(decoded)[7]
    no_row = decode(decoder(TOAST, FULL), (key(1), None))
    assert (no_row.rows.num_rows, no_row.refused) == (0, []), "in which partition?"


def test_ids_of_keys_are_asked_for_too() -> None:
    with pytest.raises(UnknownSchemaIds, match="77"):
        decode(decoder(TOAST), (key(1, 77), None))


def test_with_full_images_an_update_deletes_the_row_as_it_was_just_before() -> None:
    before, after, other = {"id": 1, "grp": "eu"}, {"id": 1, "grp": "us"}, {"id": 2, "grp": "eu"}
    given = [
        {"op": "u", "before": before, "after": after},
        {"op": "c", "after": other},
        {"op": "d", "before": after},
        {"op": "u", "after": other},
        {"op": "d", "before": {"id": 9, "grp": "", "ts": "1970-01-01T00:00:00Z"}},
        {"op": "u", "before": before, "after": {"id": 1, "big": PLACEHOLDER}},
    ]
    decoded = decode(decoder(TOAST, FULL), *events(TOAST, *given))
    assert [(row["id"], row["grp"], row["__deleted"]) for row in decoded.rows.to_pylist()] == [
        (1, "eu", True),
        (1, "us", False),
        (2, "eu", False),
        (1, "us", True),
    ]
    assert decoded.numbers(len(given)).tolist() == [0, 0, 1, 2]
    refused = whys(decoded)
    assert list(refused) == [3, 4, 5]
    assert "an update has no before" in refused[3]
    assert "nothing but the key" in refused[4]
    assert "field big" in refused[5]


def test_what_postgresql_did_not_send_never_becomes_data() -> None:
    decoded = decode(decoder(TOAST), *encoded("postgres.toast", TOAST))
    assert sorted(whys(decoded)) == [0, 7, 16, 17]
    assert "field big" in whys(decoded)[7]
    assert PLACEHOLDER not in str(decoded.rows.to_pydict())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bytes", PLACEHOLDER.encode()),
        ({"type": "array", "items": ["null", "string"]}, [PLACEHOLDER]),
        ({"type": "map", "values": ["null", "string"]}, {PLACEHOLDER: PLACEHOLDER}),
        ({"type": "array", "items": ["null", "int"]}, list(PLACEHOLDER.encode())),
        ({"type": "array", "items": ["null", "long"]}, list(PLACEHOLDER.encode())),
        ({"type": "array", "items": "string"}, [UUID_FORM]),
    ],
)
def test_placeholders_of_other_types_are_none_either(kind: Any, value: Any) -> None:
    columns = {"big": kind}
    decoded = decode(decoder(columns), *events(columns, {"op": "u", "after": {"id": 1, "big": value}}))
    assert decoded.rows.num_rows == 0
    assert "TOAST" in whys(decoded)[0]


def test_a_row_that_is_new_under_its_key_has_no_older_value() -> None:
    rules = EventRules(full=False, stops=False, keeps=frozenset({"big"}), unused=frozenset({"grp"}))
    row = {"id": 1, "big": PLACEHOLDER, "grp": PLACEHOLDER}
    given = [{"op": op, "after": row} for op in "ucr"]
    decoded = decode(decoder(TOAST, rules), *events(TOAST, *given))
    assert list(whys(decoded)) == [1, 2]
    assert "whose key changed" in whys(decoded)[1]


def test_a_value_that_only_mentions_the_placeholder_is_data() -> None:
    after = {"id": 1, "big": f"what is {PLACEHOLDER}?"}
    assert decode(decoder(TOAST), *events(TOAST, {"op": "c", "after": after})).refused == []


def test_a_truncate_stops_unless_it_is_to_be_a_dead_letter() -> None:
    with pytest.raises(SourceTruncated, match=r"shop\.inv\.orders was truncated.*truncate to delete"):
        decode(decoder(TOAST, EventRules(full=False, stops=True)), *encoded("postgres.toast", TOAST))


@pytest.mark.parametrize(
    ("fields", "why"), [(["ts_ms"], None), (["status", "id", "event_count", "ts_ms"], None), (["id"], "has no op")]
)
def test_what_debezium_sends_beside_changes_is_nothing_and_other_records_are_dead_letters(
    fields: list[str], why: str | None
) -> None:
    schema = {"type": "record", "name": "Beside", "fields": [{"name": name, "type": "long"} for name in fields]}
    good = events(TOAST, {"op": "c", "after": {"id": 1}})
    beside = message(OTHER, schema, dict.fromkeys(fields, 1))
    decoded = decode(decoder(TOAST, other=schema), *good, (None, beside), *good)
    assert decoded.numbers(3).tolist() == [0, 2]
    assert list(whys(decoded)) == ([] if why is None else [1])
    assert why is None or why in whys(decoded)[1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"op": "x"}, "op 'x'"),
        ({"op": "c"}, "without after"),
        ({"op": "d"}, "REPLICA IDENTITY NOTHING"),
        ({"op": "c", "after": {"id": 1, "ts": "infinity"}}, "field ts: 'infinity' is no TIMESTAMP"),
    ],
)
def test_what_is_no_event_is_a_dead_letter(value: dict[str, Any], why: str) -> None:
    good = {"op": "c", "after": {"id": 7}}
    given = [*events(TOAST, good, value, good), *events(TOAST, {"op": "m"})]
    decoded = decode(decoder(TOAST), *given)
    assert decoded.rows.column("id").to_pylist() == [7, 7]
    assert list(whys(decoded)) == [1]
    assert why in whys(decoded)[1]


CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
AT = dt.datetime(2026, 1, 31, 12, 34, 56, 789000, dt.UTC)


@pytest.mark.parametrize(
    ("kind", "value", "column", "wanted"),
    [
        (typed("int", f"{CONNECT}Date", logicalType="date"), dt.date(1969, 12, 31), pa.date32(), dt.date(1969, 12, 31)),
        (typed("long", f"{CONNECT}Timestamp", logicalType="timestamp-millis"), AT, pa.timestamp("us", "UTC"), AT),
        (typed("long", f"{TIME}Timestamp"), 1769862896789, pa.timestamp("us", "UTC"), AT),
        (typed("long", f"{TIME}NanoTimestamp"), 1769862896789000999, pa.timestamp("us", "UTC"), AT),
        (typed("string", f"{TIME}ZonedTimestamp"), "2026-01-31T13:34:56.789+01:00", pa.timestamp("us", "UTC"), AT),
        (typed("string", "io.debezium.data.Enum"), "a", pa.string(), "a"),
        (typed("bytes", "io.debezium.data.Bits"), b"\5", pa.binary(), b"\5"),
        (DECIMAL, "BNI=", pa.decimal128(10, 2), Decimal("12.34")),
        (VARIABLE, {"scale": 9, "value": "AbabS6zQXxU="}, pa.string(), "123456789.123456789"),
    ],
)
def test_debeziums_names_say_what_a_column_is(kind: Any, value: Any, column: pa.DataType, wanted: Any) -> None:
    columns = {"v": kind}
    given = events(columns, {"op": "c", "after": {"id": 1, "v": value}}, {"op": "c", "after": {"id": 2}})
    decoded = decode(decoder(columns), *given)
    assert decoded.refused == []
    assert decoded.rows.schema.field("v").type == column
    assert decoded.rows.column("v").to_pylist() == [wanted, None]


def test_a_time_beyond_the_years_is_a_dead_letter() -> None:
    columns = {"v": typed("long", f"{TIME}Timestamp")}
    decoded = decode(decoder(columns), *events(columns, {"op": "c", "after": {"id": 1, "v": 2**62}}))
    assert "field v: 4611686018427387904 is beyond the years" in whys(decoded)[0]


def test_events_of_older_and_newer_schemas_are_the_columns_that_the_reader_has() -> None:
    newer = {**TOAST, "note": typed("int", f"{TIME}Date")}
    texts = {VALUES: json.dumps(event_schema(TOAST)), OTHER: json.dumps(event_schema(newer))}
    old = decoder(TOAST)
    reader, names = grown(lenient(row_of(texts[VALUES])), old.columns_in(WriterSchema(texts[OTHER])))
    assert names == ("note",)
    found = decoder(TOAST, reader=reader, other=event_schema(newer))
    rows = [
        (None, event(TOAST, {"op": "c", "after": {"id": 1}})),
        (None, event(newer, {"op": "c", "after": {"id": 2, "note": 1}}, OTHER)),
    ]
    assert decode(found, *rows).rows.column("note").to_pylist() == [None, dt.date(1970, 1, 2)]
    with pytest.raises(UnreadableSchema):
        old.columns_in(WriterSchema(json.dumps(KEY_SCHEMA)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (typed("long", f"{TIME}MicroTimestamp"), typed("long", f"{TIME}Timestamp")),
        (typed("long", f"{TIME}Timestamp"), typed("long", f"{TIME}NanoTimestamp")),
        (typed("int", f"{TIME}Time"), typed("long", f"{TIME}MicroTime")),
    ],
)
def test_a_time_that_is_counted_in_another_unit_is_a_dead_letter(one: dict[str, Any], other: dict[str, Any]) -> None:
    """As DATETIME(6) that becomes DATETIME(3) in the source, whose numbers would be other times."""
    later = event_schema({"v": other})
    reader, names = grown(lenient(row_of(json.dumps(event_schema({"v": one})))), row_of(json.dumps(later)))
    assert names == ()
    records = [(None, event({"v": one}, {"op": "c", "after": {"id": 1, "v": 7}}))]
    records += [(None, event({"v": other}, {"op": "c", "after": {"id": 2, "v": 7}}, OTHER))]
    decoded = decode(decoder({"v": one}, reader=reader, other=later), *records)
    assert decoded.rows.column("id").to_pylist() == [1]
    assert "cannot be read" in whys(decoded)[1]


def test_a_time_of_connects_own_type_is_debeziums_of_the_same_unit() -> None:
    one, other = typed("long", f"{TIME}Timestamp"), typed("long", "org.apache.kafka.connect.data.Timestamp")
    found = decoder({"v": one}, other=event_schema({"v": other}))
    value = {"op": "c", "after": {"id": 2, "v": 7}}
    assert len(decode(found, (None, event({"v": other}, value, OTHER))).rows) == 1


def test_a_given_schema_is_that_of_events_or_of_the_row() -> None:
    texts = [json.dumps(each) for each in (event_schema({"grp": "string"}), row_schema({"grp": "string"}))]
    for text in texts:
        decoded = decode(decoder(TOAST, reader=text), *encoded("postgres.toast", TOAST))
        assert decoded.rows.column_names == ["id", "grp", "__deleted"]
        assert len(decoded.refused) == 2, "truncates; a column that the table has not may be TOAST"
