"""What messages say of their types is cut off batch by batch, and changes nothing of the rows and the reasons."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of
from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import EventRules
from bucketingest.decode.debezium.heads import HEAD, with_heads_apart
from bucketingest.decode.kafka.message import KEY, VALUE
from bucketingest.decode.message_columns import with_deleted
from bucketingest.stream.source.messages import MessageDecoder, blocks

DATE = "io.debezium.time.Date"


def schema(*, of_date: str | None = DATE) -> bytes:
    row = [{"type": "int64", "field": "id"}, {"type": "int32", "field": "d", "name": of_date}]
    images = [{"type": "struct", "fields": row, "field": name} for name in ("before", "after")]
    return text({"type": "struct", "fields": images})


def text(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def with_schema(event: bytes, said: bytes, behind: bytes = b"") -> bytes:
    return b'{"schema":%s,"payload":%s%s}' % (said, event, behind)


def event(number: int, *, flat: bool, op: str = "c") -> bytes:
    row = {"id": number, "d": number % 1000}
    source = {"lsn": number, "table": "t"}
    before, after = (row, None) if op == "d" else (None, row)
    return text(row if flat else {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1795763483131})


def message(number: int, chance: random.Random, *, flat: bool) -> bytes | None:
    plain = event(number, flat=flat)
    usual = with_schema(plain, schema())
    odd = [
        None,
        plain,
        usual + b" ",
        with_schema(plain, schema(), b',"more":{}'),
        with_schema(plain, schema(), b',"payload":' + event(-number, flat=flat)),
        usual[:-3],
        with_schema(b"null", schema()),
        with_schema(plain, b"null"),
        text({"ts_ms": 1}),
        with_schema(event(number, flat=flat, op="d"), schema()),
        with_schema(plain, schema(of_date="io.debezium.time.Year")),
        b"",
    ]
    return chance.choice(odd) if chance.random() < 0.3 else usual


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_rows_and_reasons_are_those_of_the_whole_messages(seed: int, *, flat: bool) -> None:
    chance = random.Random(seed)
    rules = EventRules(full=False, stops=False, flat=flat)
    decoder = MessageDecoder(
        DebeziumDecoder(with_deleted(columns_of("id BIGINT, d DATE")), 0, rules), "", "", decoded=(VALUE, KEY)
    )
    other = schema(of_date=None)
    batches = []
    for start in range(0, 200, 25):
        values = [message(number, chance, flat=flat) for number in range(start, start + 25)]
        if start >= 100:  # the source's table has changed
            values = [None if each is None else each.replace(schema(), other) for each in values]
        keys = [text({"id": number}) for number in range(start, start + 25)]
        batches.append(pa.RecordBatch.from_pydict({VALUE: pa.array(values, pa.binary()), KEY: pa.array(keys)}))
    short = [decoder.decode(each) for each in blocks(map(with_heads_apart, batches))]
    whole = [replace(decoder).decode(each.slice(at, 1)) for each in batches for at in range(each.num_rows)]
    assert len(short) == 1
    assert short[0].rows.to_pylist() == [row for each in whole for row in each.rows.to_pylist()]
    assert [(each.number, each.why) for each in short[0].refused] == [
        (at, each.why) for at, alone in enumerate(whole) for each in alone.refused
    ]


def test_bytes_that_all_messages_begin_with_are_in_no_block() -> None:
    said = schema()
    values = [with_schema(event(number, flat=False), said) for number in range(10)]
    batch = pa.RecordBatch.from_pydict({VALUE: pa.array([*values, None], pa.binary())})
    cut = with_heads_apart(batch)
    assert cut.column(VALUE).to_pylist() == [*[event(number, flat=False) for number in range(10)], None]
    assert cut.column(HEAD).null_count <= 1
    assert batch.column(VALUE).to_pylist() == [*values, None]


def test_what_is_behind_the_event_and_ends_as_one_says_nothing_of_it() -> None:
    decoder = DebeziumDecoder(with_deleted(columns_of("id BIGINT, d DATE")), 0, EventRules(full=True, stops=False))
    row = {"before": {"id": 1, "d": 1}, "after": {"id": 1, "d": 2}, "source": {"lsn": 1}, "op": "u", "ts_ms": 1}
    for more in ({"lsn": 1, "op": "c", "ts_ms": 1}, {"source": {"lsn": 1}, "op": "c", "ts_ms": 1}):
        usual = with_schema(text({**row, "op": "c", "before": None}), schema())
        values = pa.array(
            [usual, *[with_schema(text(row), schema(), b',"more":' + text(more))] * 20, usual], pa.binary()
        )
        cut = with_heads_apart(pa.RecordBatch.from_pydict({VALUE: values}))
        decoded = decoder.decode(cut.column(VALUE), None, cut.column(HEAD))
        alone = [decoder.decode(values.slice(at, 1)).rows.to_pylist() for at in range(len(values))]
        assert [row for rows in alone for row in rows] == decoded.rows.to_pylist()
        assert decoded.rows.num_rows == 42, "each update deletes its row of before"
