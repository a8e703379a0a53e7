"""Messages of one shape are read by position: each row is what the exact decoder makes of the message, and what is not
surely of the shape is left to others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bucketingest.decode.json.alike.reader import AlikeReader
from bucketingest.decode.json.columns import read_type
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.json.doubts import Block
from bucketingest.decode.json.exact import ExactDecoder
from bucketingest.decode.rows import Undecodable, batch
from support.decoding.json_messages import JsonMessages

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("small", pa.int16()),
        ("quantity", pa.int32()),
        ("big", pa.int64()),
        ("ratio", pa.float32()),
        ("weight", pa.float64()),
        ("amount", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 18)),
        ("whole", pa.decimal128(5, 0)),
        ("paid", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)
READ = pa.schema([field.with_type(read_type(field.type)) for field in SCHEMA])
COUNT = 200
"""Of the messages in a block, all of one shape but for the one that a test is about."""


def alike(messages: list[bytes], reader: AlikeReader | None = None) -> dict[int, dict[str, Any]]:
    """The rows that were read by position, by the number of their message, without nulls."""
    found = {}
    for part in (reader or AlikeReader(READ)).read(Block(pa.array(messages, pa.binary())).lines):
        for number, row in zip(part.numbers.tolist(), part.rows.to_pylist(), strict=True):
            assert number not in found
            found[number] = {name: value for name, value in row.items() if value is not None}
    return found


def among(message: bytes, others: bytes) -> dict[str, Any] | None:
    """The row of a message among others that are alike; None if it is left to others."""
    messages = [others] * COUNT
    messages[COUNT // 2] = message
    found = alike(messages)
    assert set(range(COUNT)) - {COUNT // 2} <= set(found)
    return found.get(COUNT // 2)


def exactly(messages: list[bytes | None]) -> tuple[dict[int, str], list[dict[str, Any]]]:
    """What the exact decoder says: the refused ones, and the rows."""
    exact, refused, rows = ExactDecoder(SCHEMA), {}, []
    for number, message in enumerate(messages):
        try:
            rows.append(exact.decode(message or b""))
        except Undecodable as error:
            refused[number] = error.describe("character")
    return refused, rows


@pytest.mark.parametrize("seed", range(25))
def test_every_row_and_every_verdict_is_that_of_the_exact_decoder(seed: int) -> None:
    source = JsonMessages(seed)
    decoder = JsonDecoder(SCHEMA)
    for _ in range(2):  # the second block has another shape than the one that is remembered
        messages = source.alike(COUNT)
        refused, rows = exactly(messages)
        decoded = decoder.decode(pa.array(messages, pa.binary()))
        assert {each.number: each.why for each in decoded.refused} == refused
        for wanted, found in zip(batch(rows, SCHEMA).columns, decoded.rows.columns, strict=True):
            assert str(found.cast(wanted.type).to_numpy(zero_copy_only=False).tolist()) == str(
                wanted.to_numpy(zero_copy_only=False).tolist()
            )


def test_most_messages_of_one_producer_are_read_by_position() -> None:
    read = 0
    for seed in range(20):
        lines = [each for each in JsonMessages(seed).alike(COUNT) if each is not None]
        block = Block(pa.array(lines, pa.binary()))
        kept = block.lines if block.is_utf8 else block.only(np.flatnonzero(~block.doubted(with_decimals=True))).lines
        read += sum(len(part.numbers) for part in AlikeReader(READ).read(kept))
    assert read > 20 * COUNT // 3


BASE = b'{"id":"k","quantity":17,"weight":1.5,"amount":2.25,"paid":true,"other":3,"word":"x","at":"2026-01-01"}'
ROW = {"id": "k", "quantity": 17, "weight": 1.5, "paid": True, "at": "2026-01-01"}


@pytest.mark.parametrize(
    ("old", "new", "column", "value"),
    [
        (b'"k"', b'""', "id", ""),
        (b'"k"', b'"' + b"k" * 57 + b'"', "id", "k" * 57),
        (b'"k"', b'"' + b"k" * 3000 + b'"', "id", "k" * 3000),
        (b'"k"', "\"größer, {'x':1}\"".encode(), "id", "größer, {'x':1}"),
        (b'"k"', b"null", "id", None),
        (b"17", b"0", "quantity", 0),
        (b"17", b"-2147483648", "quantity", -(2**31)),
        (b"17", b"null", "quantity", None),
        (b"1.5", b"-0.25", "weight", -0.25),
        (b"1.5", b"1e-7", "weight", 1e-7),
        (b"1.5", b"6.02E+23", "weight", 6.02e23),
        (b"1.5", b"3", "weight", 3.0),
        (b"true", b"false", "paid", False),
        (b"true", b"null", "paid", None),
        (b":3,", b":false,", "quantity", 17),
        (b":3,", b":-1.5e3,", "quantity", 17),
        (b":3,", b":null,", "quantity", 17),
        (b'"x"', b"null", "quantity", 17),
        (b'"2026-01-01"', b"null", "at", None),
    ],
)
def test_values_of_all_kinds_stand_in_one_shape(old: bytes, new: bytes, column: str, value: object) -> None:
    found = among(BASE.replace(old, new), BASE)
    assert found is not None
    assert {**ROW, column: value} == {name: found.get(name) for name in {**ROW, column: value}}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"k"', b"nul"),
        (b'"k"', b"nulll"),
        (b'"k"', b"7"),
        (b'"k"', b'"\\u006b"'),
        (b'"k"', b'"k""'),
        (b'"k"', b'"' + b"k" * 4000 + b'"'),
        (b'"k"', b'"k","id":"l"'),
        (b"17", b"17.0"),
        (b"17", b"1e1"),
        (b"17", b"-0"),
        (b"17", b"017"),
        (b"17", b"2147483648"),
        (b"17", b"99999999999999999999"),
        (b"17", b'"17"'),
        (b"17", b""),
        (b"17", b"nulll"),
        (b"17", b" 17"),
        (b"1.5", b"1."),
        (b"1.5", b".5"),
        (b"1.5", b"1.5.5"),
        (b"1.5", b"1-5"),
        (b"1.5", b"--5"),
        (b"1.5", b"-"),
        (b"1.5", b"1e"),
        (b"1.5", b"1" * 950),
        (b":3,", b":" + b"1" * 950 + b","),
        (b"1.5", b"true"),
        (b'"k"', b'"\x1f"'),
        (b"1.5", b"[1.5]"),
        (b"2.25", b"2.255"),
        (b"2.25", b"123456789.0"),
        (b"2.25", b"1e2"),
        (b"true", b"truer"),
        (b"true", b"1"),
        (b":3,", b":nul,"),
        (b":3,", b":03,"),
        (b":3,", b":{},"),
        (b'"other"', b'"othes"'),
        (b'"at"', b'"At"'),
        (b"}", b"}}"),
        (b"}", b"} "),
        (b"}", b'},"a":1}'),
        (b"}", b""),
        (b"{", b""),
        (b'"id":', b'"id" :'),
    ],
)
def test_what_is_not_surely_read_alike_is_left_to_others(old: bytes, new: bytes) -> None:
    assert among(BASE.replace(old, new), BASE) is None


def test_a_text_column_may_have_other_values_in_the_messages_of_a_shape() -> None:
    values = ["7", "12.50", "-0", "1E5", "true", "null"]
    messages = [f'{{"quantity":1,"id":{value}}}'.encode() for value in values] * COUNT
    found = alike(messages)
    assert [found[at].get("id", "null") for at in range(len(messages))] == values * COUNT
    assert among(b'{"id":nul}', b'{"id":7}') is None
    assert among(b'{"id":"7"}', b'{"id":7}') is None
    assert among(b'{"id":07}', b'{"id":7}') is None


def test_a_long_whole_number_is_read_and_does_not_keep_its_neighbours_from_it() -> None:
    short, longest = b'{"big":1}', b'{"big":-9223372036854775808}'
    assert among(longest, short) == {"big": -(2**63)}
    found = alike([short, longest, b'{"big":9223372036854775808}'] * COUNT)
    assert {number % 3 for number in found} == {0}, "with one that does not fit, long ones are left to others"
    assert len(found) == COUNT


def test_blocks_of_a_few_shapes_are_read_and_each_is_remembered() -> None:
    messages = [b'{"id":"a"}', b'{"id":"b","big":2}', b'{"big":3,"id":"c"}'] * COUNT
    reader = AlikeReader(READ)
    for _ in range(2):
        found = alike(messages, reader)
        assert [found[number]["id"] for number in range(len(messages))] == ["a", "b", "c"] * COUNT
    assert alike(messages[::-1][: 3 * COUNT // 2], reader)[0] == {"id": "c", "big": 3}


def test_a_member_more_behind_a_number_is_another_shape() -> None:
    reader = AlikeReader(READ)
    old = [b'{"id":"a","big":%d}' % number for number in range(COUNT)]
    new = [b'{"id":"a","big":%d,"day":"2026-11-29"}' % number for number in range(COUNT)]
    assert len(alike(old, reader)) == COUNT
    assert len(alike(new, reader)) == COUNT
    mixed = alike([each for pair in zip(old, new, strict=True) for each in pair], reader)
    assert len(mixed) == 2 * COUNT


def test_messages_without_a_shape_in_common_are_left_to_others() -> None:
    assert alike([b'{"id":"%d","f%d":1}' % (number, number) for number in range(COUNT)]) == {}
    assert alike([b'{"tags":["a"]}'] * COUNT) == {}
    assert alike([b'{"tags":null,"id":"x"}'] * COUNT)[0] == {"id": "x"}
    assert alike([b"{}"] * COUNT) == {}
    assert alike([b'{"%s":1}' % (b"k" * 300)] * COUNT) == {}
    assert alike([b'{"id":"k"%s}' % (b" " * 300)] * COUNT) == {}
    assert alike([BASE] * 10) == {}, "so few are not worth it"


def test_an_odd_message_anywhere_does_not_hide_the_shape_of_the_others() -> None:
    odd = b'{"tags":["a"]}'
    for at in (0, COUNT // 2, COUNT):
        messages = [BASE] * COUNT
        messages.insert(at, odd)
        assert len(alike(messages)) == COUNT


def test_blocks_behind_one_without_a_shape_are_not_looked_at_for_a_while() -> None:
    reader = AlikeReader(READ)
    different = [b'{"id":"%d","f%d":1}' % (number, number) for number in range(COUNT)]
    assert alike(different, reader) == {}
    looked_at = [bool(alike([BASE] * COUNT, reader)) for _ in range(20)]
    assert looked_at == [False] * looked_at.index(True) + [True] * (20 - looked_at.index(True))
    assert 0 < looked_at.index(True) < 10


def test_a_part_of_a_larger_array_is_read() -> None:
    messages = pa.array([b'{"id":"%d"}' % number for number in range(3 * COUNT)], pa.binary()).slice(COUNT, COUNT)
    (part,) = AlikeReader(READ).read(messages)
    assert part.rows.column("id").to_pylist() == [str(number) for number in range(COUNT, 2 * COUNT)]
