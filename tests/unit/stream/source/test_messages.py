"""Messages on their way into the shuffle: in blocks of bounded size, and none that is no row goes unreported."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.sql.nodes import Node, RowsInDoubt
from bucketingest.decode.sql.program import Program, Select, Where
from bucketingest.stream.source import messages
from bucketingest.stream.source.messages import MessageDecoder, blocks, pack_messages, refused_messages
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.shuffle import SHUFFLE_SCHEMA
from bucketingest.write.rows.write_status import WriteStatus, statuses_from_arrow
from support.tables.write_plans import SCHEMA, share_of, write_plan

DECODER = MessageDecoder(JsonDecoder(SCHEMA), "cannot be decoded", "has no value")


def batch(*values: bytes | None, **others: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({**others, "value": pa.array(values, pa.binary())})


def good(number: int) -> bytes:
    return b'{"id": "k%d", "region": "eu", "amount": %d, "at": "2026-01-01T00:00:00Z"}' % (number, number)


def written(map_tasks: list[list[pa.RecordBatch]]) -> list[WriteStatus]:
    plan = write_plan()
    decoder = pickle.loads(pickle.dumps(DECODER))
    sent = pa.Table.from_batches(
        [each for task, given in enumerate(map_tasks) for each in pack_messages(given, plan, decoder, task)],
        SHUFFLE_SCHEMA,
    )
    reports = [report for task in range(plan.tasks) for report in write_task(share_of(task, sent), plan, task)]
    return statuses_from_arrow(pa.Table.from_batches(reports))


def test_rows_are_written_and_what_is_no_row_is_reported() -> None:
    first = [batch(*map(good, range(20)), b"no json"), batch(None, good(20), b"")]
    statuses = written([first, [batch(b"[]")], []])
    assert sum(status.rows_received for status in statuses) == 21
    assert sum(status.undecoded for status in statuses) == 4
    assert sum(status.rejected for status in statuses) == 0, "they are dead letters once they are staged"


def test_a_program_makes_the_rows_and_one_in_doubt_stops_the_task() -> None:
    amount = Node("AttributeReference", pa.int64(), value=SCHEMA.get_field_index("amount"))
    is_large = Node("GreaterThan", pa.bool_(), (amount, Node("Literal", pa.int64(), value=3)))
    decoder = replace(DECODER, program=Program((Where(is_large),), SCHEMA))
    sent = pack_messages([batch(*map(good, range(10)), b"no json")], write_plan(), decoder, 0)
    assert sum(sum(each.column("row_count").to_pylist()) for each in sent) == 6 + 1

    least = Node("Add", pa.int64(), (amount, Node("Literal", pa.int64(), value=2**63 - 1)))
    columns = tuple(
        least if field.name == "amount" else Node("AttributeReference", field.type, value=at)
        for at, field in enumerate(SCHEMA)
    )
    decoder = replace(DECODER, program=Program((Select(columns),), SCHEMA))
    with pytest.raises(RowsInDoubt):
        list(pack_messages([batch(*map(good, range(10)))], write_plan(), decoder, 0))


def test_messages_of_which_none_is_a_row_are_reported_too() -> None:
    statuses = written([[batch(b"no json", None)]])
    assert [status.file_name for status in statuses] == ["", ""]
    assert sum(status.undecoded for status in statuses) == 2


def test_all_good_messages_report_nothing() -> None:
    assert {status.undecoded for status in written([[batch(*map(good, range(5)))]])} == {0}


def test_refused_messages_keep_their_place_in_the_topic() -> None:
    given = batch(
        good(1), b"no json", None, topic=["t"] * 3, partition=[0, 0, 1], offset=[7, 8, 9], key=[b"a", b"b", b"c"]
    )
    (letters,) = refused_messages([given], DECODER)
    assert letters.to_pylist() == [
        {
            "reason": "decode",
            "detail": "cannot be decoded: character 1: a value is expected, not 'no json'",
            "topic": "t",
            "partition": 0,
            "offset": 8,
            "key": b"b",
            "value": b"no json",
        },
        {
            "reason": "decode",
            "detail": "has no value",
            "topic": "t",
            "partition": 1,
            "offset": 9,
            "key": b"c",
            "value": None,
        },
    ]
    assert list(refused_messages([batch(good(1))], DECODER)) == []


def test_blocks_are_bounded_in_rows_and_bytes_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BLOCK_ROWS", 10)
    monkeypatch.setattr(messages, "BLOCK_BYTES", 1000)
    values = [None if number % 7 == 0 else bytes([65 + number % 26]) * (number * 37 % 400) for number in range(200)]
    values[50] = b"x" * 5000
    whole = batch(*values)
    parts = [whole.slice(3, 60), whole.slice(63, 0), whole.slice(63, 1), whole.slice(64)]
    found = list(blocks(parts))
    assert [value for block in found for value in block.column("value").to_pylist()] == values[3:]
    assert all(block.num_rows <= 10 for block in found)
    sizes = [sum(len(value or b"") for value in block.column("value").to_pylist()) for block in found]
    assert [size for size in sizes if size > 1000] == [5000]
    assert len(found) < 60, "messages are decoded together"
