"""Topics of Debezium become the rows of the source's table, and what is no row there never becomes one."""

from __future__ import annotations

import base64
import datetime as dt
import json
import pickle
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of
from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import EventRules, SourceTruncated, images_of
from bucketingest.decode.debezium.heads import Messages
from bucketingest.decode.debezium.placeholders import UUID_FORM
from bucketingest.decode.json.times import MICROS_OF
from bucketingest.decode.message_columns import with_deleted
from bucketingest.decode.rows import Decoded
from support.decoding.debezium_streams import Stream, values_of

GOES_ON = EventRules(full=False, stops=False)
FULL = EventRules(full=True, stops=False, key=("id",))
PLACEHOLDER = "__debezium_unavailable_value"


def decoder(ddl: str, rules: EventRules = GOES_ON, unit: str = "micros") -> DebeziumDecoder:
    made = DebeziumDecoder(with_deleted(columns_of(ddl)), MICROS_OF[unit], rules)
    loaded = pickle.loads(pickle.dumps(made))
    assert isinstance(loaded, DebeziumDecoder)
    return loaded


def decode(ddl: str, *events: Any, rules: EventRules = GOES_ON, unit: str = "iso") -> Decoded:
    values = [event if isinstance(event, bytes | None) else json.dumps(event).encode() for event in events]
    return decoder(ddl, rules, unit).decode(pa.array(values, pa.binary()))


def mirrored(decoded: Decoded, key: str = "id") -> dict[Any, dict[str, Any]]:
    """The table after the rows, each in its turn."""
    table: dict[Any, dict[str, Any]] = {}
    for row in decoded.rows.to_pylist():
        if row.pop("__deleted"):
            table.pop(row[key], None)
        else:
            table[row[key]] = {name: value for name, value in row.items() if value is not None}
    return table


def whys(decoded: Decoded) -> dict[int, str]:
    return {each.number: each.why for each in decoded.refused}


def test_a_topic_of_postgresql_is_the_rows_of_its_table() -> None:
    ddl = (
        "id BIGINT, customer STRING, ts TIMESTAMP, tsl TIMESTAMP, d DATE, t BIGINT, js STRING, u STRING, arr ARRAY<INT>"
    )
    decoded = decoder(f"{ddl}, b BINARY, iv BIGINT, extra STRING").decode(values_of("postgres.orders"))
    assert decoded.refused == []
    table = mirrored(decoded)
    assert {key: row["customer"] for key, row in table.items()} == {
        1: "ann",
        4: "cathy",
        5: "dan",
        6: "eve",
        10: "after",
        5_000_000_000: "big",
    }
    assert table[1] == {
        "id": 1,
        "customer": "ann",
        "ts": dt.datetime(2026, 11, 27, 7, 5, 23, 321185, dt.UTC),
        "tsl": dt.datetime(2026, 11, 27, 7, 5, 23, 321185, dt.UTC),
        "d": dt.date(2026, 1, 31),
        "t": 45_296_789_000,
        "js": '{"a": 1}',
        "u": "00000000-0000-0000-0000-000000000001",
        "arr": [1, 2],
        "b": b"\x00\xff",
        "iv": 93_600_000_000,
    }
    assert table[6]["extra"] == "e", "of a column that came later"


@pytest.mark.parametrize("rules", [GOES_ON, FULL])
def test_a_topic_of_mariadb_is_the_rows_of_its_table(rules: EventRules) -> None:
    ddl = "id BIGINT, customer STRING, ts TIMESTAMP, dt TIMESTAMP, d DATE, en STRING, st STRING, bl BINARY, y INT"
    decoded = decoder(ddl, rules, "millis").decode(values_of("mariadb.orders"))
    assert list(whys(decoded)) == [14]
    assert "truncated" in whys(decoded)[14]
    table = mirrored(decoded)
    assert {key: row["customer"] for key, row in table.items()} == {
        1: "ann",
        4: "cc",
        5: "d",
        6: "e",
        7: "f",
        10: "after",
        5_000_000_000: "big",
    }
    assert table[1]["dt"] == dt.datetime(2026, 1, 31, 12, 34, 56, 789000, dt.UTC)
    assert (table[1]["en"], table[1]["st"], table[1]["bl"], table[1]["y"]) == ("a", "x,y", b"\x00\xff", 2026)


def test_with_full_images_an_update_deletes_the_row_as_it_was_just_before() -> None:
    before, after = {"id": 1, "region": "eu"}, {"id": 1, "region": "us"}
    other = {"id": 2, "region": "eu"}
    events = [None, {"op": "u", "before": before, "after": after}, {"op": "c", "before": None, "after": other}]
    decoded = decode("id INT, region STRING", *events, rules=FULL)
    assert decoded.rows.to_pylist() == [
        {**before, "__deleted": True},
        {**after, "__deleted": False},
        {**other, "__deleted": False},
    ]
    assert decoded.numbers(3).tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ({"op": "u", "before": None, "after": {"id": 1, "n": 2}}, "an update has no before"),
        ({"op": "d", "before": {"id": 1, "n": 0, "s": "", "x": None}, "after": None}, "nothing but the key"),
    ],
)
def test_full_images_that_are_not_full_are_dead_letters_with_the_ways_out(event: Any, why: str) -> None:
    (found,) = whys(decode("id INT, n INT", event, rules=FULL)).values()
    assert why in found
    for way_out in ("REPLICA IDENTITY FULL", "table.index.global", "columns of the key"):
        assert way_out in found
    assert decode("id INT, n INT", event).refused == [], "as long as nobody needs them"


def test_one_bad_image_of_two_leaves_the_row_as_it_is() -> None:
    event = {"op": "u", "before": {"id": 1, "n": 1}, "after": {"id": 1, "n": "no number"}}
    decoded = decode("id INT, n INT", event, {"op": "c", "after": {"id": 2}}, rules=FULL)
    assert decoded.rows.column("id").to_pylist() == [2], "no delete of what is not written again"
    assert list(whys(decoded)) == [0]


def test_what_postgresql_did_not_send_never_becomes_data() -> None:
    decoded = decoder("id BIGINT, grp STRING, big STRING").decode(values_of("postgres.toast"))
    refused = whys(decoded)
    assert sorted(refused) == [0, 7, 16, 17], "two truncates and two updates of TOAST tables"
    assert "field big" in refused[7]
    assert "REPLICA IDENTITY FULL" in refused[7]
    assert PLACEHOLDER not in str(decoded.rows.to_pydict())


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("BINARY", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("ARRAY<STRING>", [PLACEHOLDER]),
        ("STRING", {PLACEHOLDER: PLACEHOLDER}),
        ("ARRAY<INT>", list(PLACEHOLDER.encode())),
        ("ARRAY<STRING>", [UUID_FORM]),
        ("DECIMAL(38,2)", base64.b64encode(PLACEHOLDER.encode()).decode()),
    ],
)
def test_placeholders_of_other_types_are_none_either(kind: str, value: Any) -> None:
    text = json.dumps({"op": "u", "after": {"id": 1, "big": value}}, separators=(",", ":")).encode()
    decoded = decode(f"id INT, big {kind}", text)
    assert decoded.rows.num_rows == 0
    assert "TOAST" in whys(decoded)[0]
    assert decode("id INT", text).refused == [], "a column that the table has not"


KEEPS = EventRules(full=False, stops=False, key=("id",), keeps=frozenset({"big"}), unused=frozenset({"other"}))


def test_a_row_that_is_new_under_its_key_has_no_older_value() -> None:
    row = {"id": 1, "big": PLACEHOLDER, "other": "y"}
    others = [{"op": "c", "after": {"id": number, "big": "b", "other": "y"}} for number in range(9)]
    for wrapped in (False, True):
        given: list[Any] = [{"op": op, "after": row} for op in "ucr"] + others
        if wrapped:
            given = [{"schema": None, "payload": each} for each in given]
        decoded = decode("id INT, big STRING, other STRING", *given, rules=KEEPS)
        assert list(whys(decoded)) == [1, 2]
        assert "whose key changed" in whys(decoded)[1]
        assert decoded.rows.column("big")[0].as_py() == PLACEHOLDER


def test_what_nobody_looks_at_may_be_missing() -> None:
    row = {"id": 1, "big": "b", "other": PLACEHOLDER}
    assert decode("id INT, big STRING, other STRING", {"op": "u", "after": row}, rules=KEEPS).refused == []


def test_a_value_that_only_mentions_the_placeholder_is_data() -> None:
    event = {"op": "c", "after": {"id": 1, "big": f"what is {PLACEHOLDER}?", "other": "y"}}
    assert decode("id INT, big STRING", event).refused == []


def test_a_truncate_stops_unless_it_is_to_be_a_dead_letter() -> None:
    stops = EventRules(full=False, stops=True)
    with pytest.raises(SourceTruncated, match=r"shop\.inv\.t2 was truncated.*truncate to delete"):
        decoder("id BIGINT", stops).decode(values_of("postgres.toast"))


@pytest.mark.parametrize("name", ["postgres.transaction", "mariadb.transaction", "mariadb.schema-changes"])
def test_what_debezium_sends_beside_changes_is_nothing(name: Stream) -> None:
    decoded = decoder("id BIGINT").decode(values_of(name))
    assert (decoded.rows.num_rows, decoded.refused) == (0, [])


def test_tombstones_heartbeats_and_messages_of_the_log_are_nothing() -> None:
    heartbeat = {"ts_ms": 1}
    events = [None, heartbeat, {"schema": {}, "payload": heartbeat}, {"schema": None, "payload": None}]
    decoded = decode("id INT", *events, {"op": "m", "message": {"prefix": "p", "content": "eA=="}})
    assert (decoded.rows.num_rows, decoded.refused) == (0, [])


def test_a_tombstone_deletes_its_key_unless_its_delete_came_just_before() -> None:
    delete, key = {"op": "d", "before": {"id": 1, "n": 0}}, b'{"id":1}'
    other_delete = {"op": "d", "before": {"id": 5, "n": 0}}
    with_schema = {"schema": {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}, "payload": {"id": 2}}
    given: list[tuple[bytes | None, bytes | None]] = [
        (key, json.dumps(delete).encode()),
        (key, None),
        (b'{"id":3}', None),
        (key, None),
        (json.dumps(with_schema).encode(), None),
        (None, None),
        (b"Struct{id=4}", None),
        (b"Struct{id=5}", json.dumps(other_delete).encode()),
    ]
    keys, values = (pa.array(each, pa.binary()) for each in zip(*given, strict=True))
    decoded = decoder("id INT, n INT").decode(values, keys)
    assert [(row["id"], row["n"], row["__deleted"]) for row in decoded.rows.to_pylist()] == [
        (1, None, True),
        (3, None, True),
        (2, None, True),
        (5, 0, True),
    ], "of a delete by its key there is no value that may be made up"
    assert decoded.numbers(len(given)).tolist() == [0, 2, 4, 7]
    assert list(whys(decoded)) == [6]
    assert "a tombstone whose key is no JSON object" in whys(decoded)[6]
    assert decoder("id INT, n INT", FULL).decode(values.slice(1), keys.slice(1)).rows.num_rows == 0, (
        "in which partition?"
    )


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"id": 1, "__deleted": "false"}, "ExtractNewRecordState"),
        ({"op": "x"}, "op 'x'"),
        ({"op": "c", "after": None}, "without after"),
        ({"op": "d", "before": None}, "REPLICA IDENTITY NOTHING"),
        (b"[]", "Expected `object`"),
        (b"", "the message is empty"),
        ({"op": "c", "after": [1]}, "Expected `object`"),
        ({"op": "c", "after": {"id": "x"}}, "field id"),
        ({"schema": {}, "payload": {"op": "c", "after": {"id": "x"}}}, "field id"),
    ],
)
def test_what_is_no_event_is_a_dead_letter(message: Any, why: str) -> None:
    good = {"op": "c", "after": {"id": 7}}
    decoded = decode("id INT", good, message, good)
    assert decoded.rows.column("id").to_pylist() == [7, 7]
    assert list(whys(decoded)) == [1]
    assert why in whys(decoded)[1]


def schema_of(**fields: dict[str, Any]) -> dict[str, Any]:
    row = [{"optional": True, "field": name, **said} for name, said in fields.items()]
    images = [{"type": "struct", "fields": row, "optional": True, "field": name} for name in ("before", "after")]
    return {"type": "struct", "fields": [*images, {"type": "string", "field": "op"}]}


CONNECT, TIME = "org.apache.kafka.connect.data.", "io.debezium.time."
DECIMAL = {"type": "bytes", "name": f"{CONNECT}Decimal", "parameters": {"scale": "2"}}
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
AT = dt.datetime(2026, 1, 31, 12, 34, 56, 789000, dt.UTC)


@pytest.mark.parametrize(
    ("said", "value", "kind", "wanted"),
    [
        (DECIMAL, "BNI=", "DECIMAL(10,2)", Decimal("12.34")),
        (DECIMAL, "1234", "DECIMAL(10,2)", Decimal("-26588.24")),
        (DECIMAL, "BNI=", "DECIMAL(10,4)", Decimal("12.3400")),
        (DECIMAL, "BNI=", "STRING", "12.34"),
        (VARIABLE, {"scale": 9, "value": "AbabS6zQXxU="}, "DECIMAL(38,9)", Decimal("123456789.123456789")),
        ({"type": "int32", "name": f"{TIME}Date"}, 20484, "DATE", dt.date(2026, 1, 31)),
        ({"type": "int32", "name": f"{CONNECT}Date"}, -1, "DATE", dt.date(1969, 12, 31)),
        ({"type": "int32", "name": f"{TIME}Date"}, 20484, "INT", 20484),
        ({"type": "int64", "name": f"{TIME}Timestamp"}, 1769862896789, "TIMESTAMP", AT),
        ({"type": "int64", "name": f"{CONNECT}Timestamp"}, 1769862896789, "TIMESTAMP", AT),
        ({"type": "int64", "name": f"{TIME}MicroTimestamp"}, 1769862896789000, "TIMESTAMP", AT),
        ({"type": "int64", "name": f"{TIME}NanoTimestamp"}, 1769862896789000999, "TIMESTAMP", AT),
        ({"type": "int64", "name": f"{TIME}NanoTimestamp"}, 1769862896789000999, "BIGINT", 1769862896789000999),
        ({"type": "string", "name": f"{TIME}ZonedTimestamp"}, "2026-01-31T13:34:56.789+01:00", "TIMESTAMP", AT),
        ({"type": "string", "name": "io.debezium.data.Json"}, '{"a": 1}', "STRING", '{"a": 1}'),
        ({"type": "int64"}, None, "TIMESTAMP", None),
    ],
)
def test_the_schema_of_a_message_says_what_its_values_mean(
    said: dict[str, Any], value: Any, kind: str, wanted: Any
) -> None:
    event = {"schema": schema_of(v=said), "payload": {"op": "c", "before": None, "after": {"v": value}}}
    decoded = decode(f"v {kind}", event, event)
    assert (decoded.refused, decoded.rows.column("v").to_pylist()) == ([], [wanted, wanted])


@pytest.mark.parametrize(
    ("said", "value", "kind", "why"),
    [
        (DECIMAL, "BNI=", "DECIMAL(3,2)", "12.34 does not fit into DECIMAL(3,2)"),
        (DECIMAL, "BNI=", "DECIMAL(10,1)", "12.34 does not fit into DECIMAL(10,1)"),
        (DECIMAL, "no", "DECIMAL(10,2)", "no decimal's bytes"),
        ({"type": "int64", "name": f"{TIME}Timestamp"}, 2**62, "TIMESTAMP", "beyond the years 0001 to 9999"),
        ({"type": "int64", "name": f"{TIME}MicroTimestamp"}, 2**63 - 1, "TIMESTAMP", "beyond the years"),
        ({"type": "int64"}, 5, "TIMESTAMP", "a number is no TIMESTAMP"),
        ({"type": "string", "name": f"{TIME}ZonedTimestamp"}, "infinity", "TIMESTAMP", "no TIMESTAMP"),
        ({"type": "string", "name": f"{TIME}ZonedTimestamp"}, "+10000-01-01T00:00:00Z", "TIMESTAMP", "no TIMESTAMP"),
    ],
)
def test_a_value_that_the_column_cannot_have_is_a_dead_letter_that_names_it(
    said: dict[str, Any], value: Any, kind: str, why: str
) -> None:
    event = {"schema": schema_of(v=said), "payload": {"op": "c", "before": None, "after": {"v": value}}}
    good = {"schema": schema_of(v=said), "payload": {"op": "c", "before": None, "after": {"v": None}}}
    decoded = decode(f"v {kind}", good, event, good)
    assert decoded.rows.column("v").to_pylist() == [None, None]
    assert list(whys(decoded)) == [1]
    assert why in whys(decoded)[1]
    assert "field v" in whys(decoded)[1]


def test_messages_of_several_schemas_keep_their_order() -> None:
    def event(number: int, scale: str) -> dict[str, Any]:
        said = {**DECIMAL, "parameters": {"scale": scale}}
        after = {"id": number, "v": base64.b64encode(b"\x04\xd2").decode()}
        return {"schema": schema_of(id={"type": "int32"}, v=said), "payload": {"op": "r", "after": after}}

    plain = {"op": "u", "after": {"id": 3, "v": "0.5"}}
    decoded = decode("id INT, v DECIMAL(10,3)", event(1, "2"), event(2, "3"), plain, None, event(4, "2"), b"no")
    assert decoded.rows.column("id").to_pylist() == [1, 2, 3, 4]
    assert [str(each) for each in decoded.rows.column("v").to_pylist()] == ["12.340", "1.234", "0.500", "12.340"]
    assert decoded.numbers(6).tolist() == [0, 1, 2, 4]


def test_bytes_of_a_decimal_without_a_scale_are_a_dead_letter_that_says_what_to_set() -> None:
    (why,) = whys(decode("v DECIMAL(10,2)", {"op": "c", "after": {"v": "BNI="}})).values()
    assert "'BNI='" in why
    assert "decimal.handling.mode" in why


def test_days_and_texts_of_messages_without_a_schema() -> None:
    rows = [{"d": 20484, "v": "12.34", "x": "NaN"}, {"d": None, "v": 12.34, "x": 1}]
    decoded = decode("d DATE, v DECIMAL(10,2), x DOUBLE", *({"op": "c", "after": each} for each in rows))
    assert decoded.refused == []
    assert decoded.rows.column("d").to_pylist() == [dt.date(2026, 1, 31), None]
    assert decoded.rows.column("v").to_pylist() == [Decimal("12.34")] * 2


def written(event: Any, *, with_schema: bool = False, lsn: int = 1) -> bytes:
    """As Kafka's JsonConverter writes it."""
    payload = {"before": None, "after": None, **event}
    payload |= {
        "source": {"lsn": lsn, "sequence": '["1","2"]'},
        "transaction": None,
        "op": event["op"],
        "ts_ms": 1795763483131,
    }
    payload = {name: payload[name] for name in ("before", "after", "source", "transaction", "op", "ts_ms")}
    whole = {"schema": schema_of(id={"type": "int32"}), "payload": payload} if with_schema else payload
    return json.dumps(whole, separators=(",", ":")).encode()


OBJECT: dict[str, Any] = {"x": 1}
ODD_EVENTS: list[dict[str, Any]] = [
    {"op": "c", "after": {"id": 1, "a": OBJECT, "source": OBJECT}},
    {"op": "u", "before": {"id": 2, "a": OBJECT, "after": OBJECT}, "after": {"id": 2, "a": OBJECT, "after": OBJECT}},
    {
        "op": "u",
        "before": {"id": 3, "a": OBJECT, "after": {"id": 8}, "source": OBJECT},
        "after": {"id": 3, "a": OBJECT, "after": {"id": 8}, "source": OBJECT},
    },
    {"op": "c", "after": {"id": 4, "op": "d", "s": '},"source":{"op":"d"}', "t": ',"op":"c","ts_ms":1'}},
    {"op": "u", "before": {"id": 5}, "after": {"id": 5, "s": '},"after":{'}},
    {"op": "d", "before": {"id": 6, "n": 2}},
    {"op": "u", "before": None, "after": {"id": 7}},
    {"op": "r", "after": {}},
]


@pytest.mark.parametrize("rules", [GOES_ON, FULL])
@pytest.mark.parametrize("with_schema", [False, True])
def test_images_that_are_found_by_words_are_those_of_the_whole_messages(
    rules: EventRules, *, with_schema: bool
) -> None:
    usual = [written({"op": "c", "after": {"id": n, "n": n}}, with_schema=with_schema) for n in range(10, 30)]
    for odd in ODD_EVENTS:
        values = pa.array([*usual[:10], written(odd, with_schema=with_schema, lsn=12345), *usual[10:]], pa.binary())
        keys = pa.nulls(len(values), pa.binary())
        found, parsed = (images_of(Messages.of(values, None), keys, rules, parse=parse) for parse in (False, True))
        assert (found.are_parsed, parsed.are_parsed) == (False, True)
        ddl = "id INT, n INT, after STRING, source STRING, s STRING"
        decoded = decoder(ddl, rules).decode(values)
        alone = decoder(ddl, rules).decode(values.slice(10, 1))
        row = {"id": None, "n": None, "after": None, "source": None, "s": None, "__deleted": False}
        wanted = [row | {"id": n, "n": n} for n in range(10, 30)]
        images = ([odd.get("before")] if odd["op"] == "d" or (rules.full and odd["op"] == "u") else []) + [
            odd.get("after")
        ]
        if None in images and odd["op"] == "u":
            images = []
        texts = [
            {
                name: json.dumps(v, separators=(",", ":")) if v == OBJECT or isinstance(v, dict) else v
                for name, v in each.items()
            }
            for each in images
            if each is not None
        ]
        shown = [row | {name: v for name, v in each.items() if name in row} for each in texts]
        if len(shown) == 2 or odd["op"] == "d":
            shown[0]["__deleted"] = True
        assert alone.rows.to_pylist() == shown
        assert decoded.rows.to_pylist() == [*wanted[:10], *shown, *wanted[10:]]
        assert len(decoded.refused) == len(alone.refused)


def test_an_operation_that_the_source_has_is_none() -> None:
    text = b'{"before":null,"after":{"id":1},"source":{"lsn":1,"op":"c"},"ts_ms":1795763483131}'
    decoded = decoder("id INT").decode(pa.array([text] * 3, pa.binary()))
    assert [each.number for each in decoded.refused] == [0, 1, 2]
    assert "it has no op" in decoded.refused[0].why


@pytest.mark.parametrize("short", [b"", b"null", b"{}", b"no event"])
def test_a_short_message_before_a_usual_one_is_a_dead_letter_by_itself(short: bytes) -> None:
    usual = written({"op": "c", "after": {"id": 1, "n": 2}})
    decoded = decode("id BIGINT, n INT", short, usual)
    assert ([each.number for each in decoded.refused], decoded.rows.num_rows) == ([0], 1)


def test_a_message_that_is_cut_off_is_none_of_the_usual_ones() -> None:
    good = written({"op": "c", "after": {"id": 1}})
    decoded = decoder("id INT").decode(pa.array([good, good[:-1], good[:-20], good + b"}", good], pa.binary()))
    assert decoded.numbers(5).tolist() == [0, 4]
    assert [each.number for each in decoded.refused] == [1, 2, 3]


def test_decimals_in_base64_are_those_that_python_reads() -> None:
    def text(number: int, size: int) -> str:
        return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()

    numbers = [0, -1, 1234, 127, 128, -128, -129, 2**62, 10**37 - 1, -(10**37) + 1]
    texts = [text(number, (number.bit_length() + 8) // 8) for number in numbers] + [text(5, 16), text(-5, 17), None]
    bad = ["", "A", "AA=A", "=AAA", "A===", "AAA!", text(10**38, 17)]
    said = {**DECIMAL, "parameters": {"scale": "2"}}
    for given in (texts, [*texts, *bad]):
        events = [{"schema": schema_of(v=said), "payload": {"op": "c", "after": {"v": each}}} for each in given]
        decoded = decode("v DECIMAL(38,2)", *events)
        wanted = [Decimal(each).scaleb(-2, Context(prec=40)) for each in [*numbers, 5, -5]]
        empty = [Decimal(0)] if "" in given else []
        assert decoded.rows.column("v").to_pylist() == [*wanted, None, *empty]
        assert len(decoded.refused) == len(given) - len(texts) - len(empty)
