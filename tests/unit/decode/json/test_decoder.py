"""Blocks of JSON messages become rows and verdicts, each message one of both, however odd its neighbours are."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.times import MICROS_OF
from bucketingest.decode.rows import Decoded
from support.decoding.json_messages import JsonMessages

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("amount", pa.decimal128(5, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("lines", pa.list_(pa.struct([("sku", pa.string()), ("at", pa.timestamp("us", "UTC"))]))),
    ]
)


HINT = "format.timestamps says whether numbers are seconds, millis or micros"


def decode(*messages: bytes | None) -> Decoded:
    return JsonDecoder(SCHEMA).decode(pa.array(messages, pa.binary()))


def row(message: bytes) -> dict[str, Any]:
    decoded = decode(message)
    assert decoded.refused == [], message
    (found,) = decoded.rows.to_pylist()
    return {name: value for name, value in found.items() if value is not None}


def why(message: bytes | None) -> str:
    decoded = decode(message)
    assert decoded.rows.num_rows == 0
    (refused,) = decoded.refused
    return refused.why


GOOD = [b'{"id": "k%d", "n": %d}' % (number, number) for number in range(500)]


def test_good_messages_are_decoded_in_one_read_with_every_value() -> None:
    message = (
        b'{"id":"\\ud83e\\udd94","n":-7,"x":1e-3,"amount":1.5,"day":"2024-02-29","at":"2026-03-29T00:59:59.123456Z",'
        b'"lines":[{"sku":"a","at":"2026-01-01 00:00:00"},null],"other":[{"n":"x"}]}'
    )
    decoded = decode(*GOOD, message)
    assert (decoded.one_by_one, decoded.refused) == (0, [])
    assert decoded.rows.column("n").to_pylist() == [*range(500), -7]
    assert decoded.rows.slice(500).to_pylist() == [
        {
            "id": "🦔",
            "n": -7,
            "x": 0.001,
            "amount": Decimal("1.50"),
            "day": dt.date(2024, 2, 29),
            "at": dt.datetime(2026, 3, 29, 0, 59, 59, 123456, dt.UTC),
            "lines": [{"sku": "a", "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC)}, None],
        }
    ]


def test_white_space_of_all_kinds_is_taken_and_odd_space_is_not() -> None:
    decoded = decode(
        b' {"n": 1}\r\n', b'\t{\n  "n": 2\n}\n', b'{"n": 3, "id": "a\nb"}', b'{"n":\x0b 4}', b'{"n": 5}' + b" " * 9
    )
    assert decoded.rows.column("n").to_pylist() == [1, 2, 5]
    assert [each.number for each in decoded.refused] == [2, 3]
    assert decoded.one_by_one == 2, "those that are refused"
    assert decode(b' {"n": 1}\r\n', b'\t{\n  "n": 2\n}\n', b'{"n": 5}' + b" " * 9, *GOOD).one_by_one == 0


@pytest.mark.parametrize(
    "odd",
    [
        [GOOD[1] + GOOD[2], b""],  # as many rows as messages, but not theirs
        [GOOD[1] + b" " + GOOD[2]],
        [GOOD[1] + b"\n" + GOOD[2], b"  "],
        [b'{"id": "x", "n": "1"}'],
        [b'{"id": "x"', b'"n": 3}'],
        [b'{"id": "x}\n{"n":1}'],
        [b"\xff", b'{"id": "\xff"}', b"[", b"{}}", b'{"lines": [}'],
        [None, None],
    ],
)
@pytest.mark.parametrize("at", [0, 250, 500])
def test_odd_messages_never_shift_or_take_the_rows_of_their_neighbours(odd: list[bytes | None], at: int) -> None:
    decoded = decode(*GOOD[:at], *odd, *GOOD[at:])
    refused = {each.number for each in decoded.refused}
    kept = [each for number, each in enumerate([*GOOD[:at], *odd, *GOOD[at:]]) if number not in refused]
    assert refused <= set(range(at, at + len(odd)))
    assert decoded.rows.num_rows == len(kept)
    numbers = decoded.rows.column("n").to_pylist()
    assert [each for each in numbers if each is not None] == list(range(500))


def test_one_bad_row_costs_a_few_reads_and_many_bad_rows_a_bounded_number() -> None:
    one = decode(*GOOD[:100], b'{"n": true}', *GOOD[100:])
    assert ([each.number for each in one.refused], one.one_by_one) == ([100], 1)
    many = decode(*(b'{"n": 99999999999}' if number % 2 else each for number, each in enumerate(GOOD)))
    assert len(many.refused) == 250
    assert many.rows.column("n").to_pylist() == list(range(0, 500, 2))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b'{"lines": [{"sku": 1}, {"at": "soon"}]}', "field lines[1].at: 'soon' is no TIMESTAMP"),
        (b'{"amount": 999.995}', "field amount: 999.995 does not fit into DECIMAL(5,2)"),
        (b'{"n": 1.0}', "field n: Expected `int | null`, got `float`"),
        (b'{"n": 2147483648}', "field n: Expected `int` <= 2147483647"),
        (b'{"id": "\xff"}', "character 9: a byte that is not UTF-8"),
        (b"null", "Expected `object`, got `null`"),
        (b"[]", "Expected `object`, got `array`"),
        (b"", "the message is empty"),
        (b'{"id": "x', "Input data was truncated"),
        (None, ""),
    ],
)
def test_a_refused_message_is_told_its_field(message: bytes | None, reason: str) -> None:
    assert why(message) == reason


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("at", [0, 3, 6])
def test_a_number_that_is_not_finite_is_text_in_json(text: str, at: int) -> None:
    good = [b'{"id": "In NaIve", "x": 1.5}'] * 6
    bare = decode(*good[:at], f'{{"x": {text}}}'.encode(), *good[at:])
    assert ([each.number for each in bare.refused], bare.one_by_one) == ([at], 1)
    quoted = decode(*good[:at], f'{{"x": "{text}"}}'.encode(), *good[at:])
    assert str(quoted.rows.column("x")[at].as_py()) == text.lower().replace("infinity", "inf")


@pytest.mark.parametrize("number", [b"1234.5", b"-1000", b'"1000.0"', b"99999"])
def test_a_decimal_with_more_digits_than_its_column_is_refused_among_others(number: bytes) -> None:
    decoded = decode(*GOOD, b'{"amount": %s}' % number, b'{"amount": null}', b'{"amount": -999.99}')
    assert [each.number for each in decoded.refused] == [500]
    assert decoded.rows.column("amount").to_pylist()[500:] == [None, Decimal("-999.99")]
    inside = JsonDecoder(pa.schema([("all", pa.list_(pa.decimal128(38, 18)))]))
    messages = pa.array([b'{"all": [1, 123456789012345678901]}', b'{"all": [12345678901234567890, 2]}'], pa.binary())
    assert [each.number for each in inside.decode(messages).refused] == [0]


@pytest.mark.parametrize("zone", ["ZZ", "ZZZZ", ".5ZZ", "+01:00Z", "-00:30ZZ"])
def test_a_time_with_more_than_one_zone_is_refused_among_others(zone: str) -> None:
    times = JsonDecoder(pa.schema([("at", pa.timestamp("us", "UTC"))]))
    good = [
        b'{"at": "2026-01-01T00:00:00Z"}',
        b'{"at": "2026-01-01T00:00:00.5"}',
        b'{"at": "2026-01-01T01:00:00+01:00"}',
    ]
    messages = pa.array([*good, f'{{"at": "2026-01-01T00:00:00{zone}"}}'.encode(), *good], pa.binary())
    assert [each.number for each in times.decode(messages).refused] == [3]


def test_a_decimal_that_overflows_when_it_is_shifted_is_refused_among_others() -> None:
    decoder = JsonDecoder(pa.schema([("wide", pa.decimal128(38, 18))]))
    good = [b'{"wide":"12345678901234567890.5"}', b'{"wide":-0.000000000000000001}', b'{"wide":null}']
    for digits in range(21, 38):
        number = ("1234567890" * 4)[:digits]
        messages = [*good, b'{"wide":"%s.5"}' % number.encode(), b'{"wide":-%s}' % number.encode(), *good]
        decoded = decoder.decode(pa.array(messages, pa.binary()))
        assert [each.number for each in decoded.refused] == [3, 4]
        values = [Decimal("12345678901234567890.5"), Decimal("-0.000000000000000001"), None]
        assert decoded.rows.column("wide").to_pylist() == values * 2


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"{'id': 'a'}", "JSON is malformed: object keys must be strings (byte 1)"),
        (b"{\"id\": 'a'}", "JSON is malformed: invalid character (byte 7)"),
        (b'{"id": "it\\\'s"}', "JSON is malformed: invalid escaped character (byte 11)"),
        (b'{"id": "a"} {"id": "b"}', "JSON is malformed: trailing characters (byte 13)"),
        (b'{"id": "a"}}', "JSON is malformed: trailing characters (byte 12)"),
        (b'{"x": "-INF"}', "field x: a number (DOUBLE) is expected, not '-INF'"),
        (b'{"x": 1e400}', "field x: Number out of range"),
        (b'{"amount": "12,50"}', "field amount: a number (DECIMAL(5,2)) is expected, not '12,50'"),
        ('{"amount": "٣"}'.encode(), "field amount: a number (DECIMAL(5,2)) is expected, not '٣'"),
        (b'{"day": "-5"}', "field day: '-5' is no DATE"),
        (b'{"day": 5}', "field day: 5 is no DATE"),
        (b'{"day": "10000-01-01"}', "field day: '10000-01-01' is no DATE"),
        (
            b'{"at": 17}',
            f"field at: a number is no TIMESTAMP: {HINT}",
        ),
    ],
)
def test_what_only_looks_like_a_value_is_none(message: bytes, reason: str) -> None:
    assert why(message) == reason
    among = decode(*GOOD, message, *GOOD)
    assert [(each.number, each.why) for each in among.refused] == [(len(GOOD), reason)]


@pytest.mark.parametrize(
    "text", ["12.50", "-0", "1E5", "12345678901234567890.12345", '{"a" : [1E5, "\u00e9"]}', "true"]
)
def test_a_text_column_has_what_the_message_has_there(text: str) -> None:
    assert row(f'{{"id": {text}, "n": 1}}'.encode()) == {"id": text, "n": 1}


@pytest.mark.parametrize("text", ["12.50", "-0", "1E5", '[1, "x" ]', "true", '"a"', "null"])
@pytest.mark.parametrize("first", ["12.50", "7", '"x"', "false"])
def test_what_a_text_column_has_depends_on_no_other_message(text: str, first: str) -> None:
    """Also in a block of one shape, and in a MAP or an item."""
    columns = pa.schema([("id", pa.string()), ("ids", pa.list_(pa.string())), ("m", pa.map_(pa.string(), pa.string()))])
    wanted = {"null": None, '"a"': "a", '"x"': "x"}
    for names in (["id"], ["id", "ids"], ["id", "ids", "m"]):
        schema = pa.schema([columns.field(name) for name in names])
        for members in ('"id": {0}', '"id": {0}, "ids": [{0}, {1}], "m": {{"k": {0}}}'):
            others = [f"{{{members.format(first, text)}}}".encode()] * 99
            message = f"{{{members.format(text, first)}}}".encode()
            for block in ([*others, message], [message, *others]):
                decoded = JsonDecoder(schema).decode(pa.array(block, pa.binary()))
                assert decoded.refused == []
                row = decoded.rows.to_pylist()[block.index(message)]
                value = wanted.get(text, text)
                assert row["id"] == value
                if "ids" in names and "ids" in members:
                    assert row["ids"] == [value, wanted.get(first, first)]
                if "m" in names and "m" in members:
                    assert row["m"] == [("k", value)]


def test_whether_a_message_is_a_row_depends_on_none_before_it() -> None:
    decoder, odd = JsonDecoder(SCHEMA), b'{"id": 1, "day": "soon", "day": "2026-01-01", "lines": []}'
    first, second = (decoder.decode(pa.array([odd], pa.binary())) for _ in range(2))
    assert [each.why for each in first.refused] == [each.why for each in second.refused]


def test_of_a_name_that_occurs_twice_the_last_one_counts() -> None:
    assert row(b'{"id": "a", "id": "b"}')["id"] == "b"


NUMBERS = pa.schema([("at", pa.timestamp("us", "UTC")), ("all", pa.list_(pa.timestamp("us", "UTC")))])


@pytest.mark.parametrize(
    ("unit", "number"), [("seconds", "1767225600"), ("millis", "1767225600000"), ("micros", "1767225600000000")]
)
def test_a_number_is_the_time_that_its_unit_says_all_at_once(unit: str, number: str) -> None:
    decoder = JsonDecoder(NUMBERS, MICROS_OF[unit])
    messages = [f'{{"at": {number}, "all": [{number}, null]}}'.encode()] * 100
    decoded = decoder.decode(pa.array([*messages, b'{"at": null}', *messages], pa.binary()))
    midnight = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    assert (decoded.refused, decoded.one_by_one) == ([], 0)
    assert decoded.rows.to_pylist()[99:101] == [{"at": midnight, "all": [midnight, None]}, {"at": None, "all": None}]
    odd = [b'{"at": 99999999999999999}', b'{"at": "2026-01-01T00:00:00Z"}', b'{"at": "1767225600"}']
    decoded = decoder.decode(pa.array([*messages, *odd, *messages], pa.binary()))
    assert [each.number for each in decoded.refused] == ([100, 102] if unit != "micros" else [102])


def test_maps_bytes_and_small_numbers_are_decoded() -> None:
    columns = pa.schema([("m", pa.map_(pa.string(), pa.int8())), ("b", pa.binary())])
    messages = [b'{"m": {"a": 1, "b": null, "a": 2}, "b": "AP8="}', b'{"m": {"a": 128}}', b'{"b": "x"}', b'{"m": null}']
    decoded = JsonDecoder(columns).decode(pa.array(messages, pa.binary()))
    assert decoded.rows.to_pylist() == [{"m": [("a", 2), ("b", None)], "b": b"\x00\xff"}, {"m": None, "b": None}]
    assert [each.why for each in decoded.refused] == [
        "field m[...]: Expected `int` <= 127",
        "field b: Invalid base64 encoded string",
    ]


def test_a_number_with_millions_of_digits_is_refused_at_once() -> None:
    """To compute them all takes minutes."""
    assert why(b'{"amount": 1e123456789}') == "field amount: 1e123456789 does not fit into DECIMAL(5,2)"


@pytest.mark.parametrize(
    "number",
    [
        "6e-40",
        "6E-999999",
        "-0.6e-123456789",
        "6.0e-2147483640",
        "0e-1000000000",
        '"6e-100000000"',
        '"+.6E-123456789"',
        '"6.e-123456789"',
        r'"6\u0065-123456789"',
        r'"6\u0045\u002D123456789"',
        r'"\u0036e\u002d999999999"',
        '"%s6e-123456789"' % ("0" * 50),
    ],
)
def test_a_decimal_with_a_tiny_exponent_is_zero_and_does_not_end_the_process(number: str) -> None:
    among = [b'{"id":"0e3f8d1e-1234-5678-9e-1", "amount":1.5, "lines":[]}'] * 100
    decoded = decode(*among, f'{{"amount":{number},"lines":[]}}'.encode(), *among)
    assert not decoded.refused
    assert decoded.rows.column("amount").to_pylist() == [Decimal("1.50")] * 100 + [0] + [Decimal("1.50")] * 100
    assert decoded.rows.column("amount")[100].as_py().is_zero()


def test_a_string_without_an_end_is_looked_at_once() -> None:
    """And not again from each of its quotes, which takes hours."""
    message = b'{"tags":' + b"[" * 600 + b'"' + b'\\"' * 1_000_000 + b"}"
    assert why(message) == "more than 500 levels"


def test_deep_nesting_neither_ends_the_process_nor_passes() -> None:
    for levels in (10, 498, 499, 500, 100_000):
        message = b'{"other":' + b"[" * levels + b"]" * levels + b"}"
        for others in ([], GOOD[:30]):
            assert decode(*others, message).rows.num_rows == len(others) + (levels <= 499)


def test_however_messages_are_put_into_blocks_rows_and_verdicts_are_the_same() -> None:
    messages = JsonMessages(seed=1).take(3000)
    decoder = pickle.loads(pickle.dumps(JsonDecoder(SCHEMA)))
    together = decode(*messages)
    rows, refused = [], []
    for start in range(0, len(messages), 7):
        part = decoder.decode(pa.array(messages[start : start + 7], pa.binary()))
        rows.append(part.rows)
        refused += [(start + each.number, each.why) for each in part.refused]
    assert refused == [(each.number, each.why) for each in together.refused]
    assert values(pa.Table.from_batches(rows)) == values(pa.Table.from_batches([together.rows]))


def values(rows: pa.Table) -> str:
    """As text, in which NaN is itself; days and microseconds as numbers, as Python has no such years."""
    lines = pa.list_(pa.struct([("sku", pa.string()), ("at", pa.int64())]))
    types = {"day": pa.int32(), "at": pa.int64(), "lines": lines}
    return repr(rows.cast(pa.schema([each.with_type(types.get(each.name, each.type)) for each in SCHEMA])).to_pylist())
