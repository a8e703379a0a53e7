"""Messages on their way into the shuffle: in blocks of bounded size, and none that is no row goes unreported."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import DELETED, EventRules
from bucketingest.decode.json.decoder import JsonDecoder
from bucketingest.decode.kafka.columns import MessageColumns
from bucketingest.decode.kafka.message import MESSAGE
from bucketingest.decode.message_columns import with_deleted
from bucketingest.decode.rows import Decoded, Refused
from bucketingest.decode.sql.nodes import Node, RowsInDoubt
from bucketingest.decode.sql.program import Program, Select, Where
from bucketingest.stream.source.messages import MessageDecoder, blocks, marked_messages, pack_messages, refused_messages
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.shuffle import SHUFFLE_SCHEMA
from bucketingest.write.rows.write_status import WriteStatus, statuses_from_arrow
from bucketingest.write.writer import share_of
from support.tables.write_plans import SCHEMA, write_plan

DECODER = MessageDecoder(JsonDecoder(SCHEMA), "cannot be decoded", "has no value")


TABLE = Program(
    (Select(tuple(Node("AttributeReference", each.type, value=at) for at, each in enumerate(SCHEMA))),), SCHEMA
)
"""Of a source with more columns those of the table."""


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
    (letters,) = refused_messages([given], DECODER, write_plan())
    assert letters.to_pylist() == [
        {
            "reason": "decode",
            "detail": "cannot be decoded: JSON is malformed: invalid character (byte 4)",
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
    assert list(refused_messages([batch(good(1))], DECODER, write_plan())) == []


KEYS = pa.nulls(6, pa.binary())


def test_a_message_may_be_two_rows_or_nothing_and_all_others_keep_their_places() -> None:
    rules = EventRules(full=True, stops=False)
    decoder = replace(DECODER, blocks=DebeziumDecoder(with_deleted(SCHEMA), 0, rules), decoded=("value", "key"))

    def event(op: str, before: int | None, after: int | None) -> bytes:
        images = [b"null" if number is None else good(number) for number in (before, after)]
        return b'{"op": "%s", "before": %s, "after": %s}' % (op.encode(), *images)

    given = [event("c", None, 1), None, event("u", 1, 2), b"no json", event("d", 2, None), event("x", None, None)]
    (marked,) = marked_messages(
        [batch(*given, offset=[*range(6)], key=KEYS)], decoder, data="data", bad="bad", detail="detail"
    )
    found = [
        (each["offset"], each["data"] and (each["data"]["id"], each["data"][DELETED])) for each in marked.to_pylist()
    ]
    assert found == [(0, ("k1", False)), (2, ("k1", True)), (2, ("k2", False)), (3, None), (4, ("k2", True)), (5, None)]
    assert marked.column("bad").to_pylist() == [False, False, False, True, False, True]
    assert [each is None for each in marked.column("detail").to_pylist()] == [True, True, True, False, True, False]

    columns = tuple(Node("AttributeReference", field.type, value=at) for at, field in enumerate(SCHEMA))
    decoder = replace(decoder, program=Program((Select(columns),), SCHEMA))
    given[4] = given[4].replace(b'"k2"', b"null") if given[4] else None
    (letters,) = refused_messages([batch(*given, offset=[*range(6)], key=KEYS)], decoder, write_plan())
    assert letters.select(["reason", "offset"]).to_pylist() == [
        {"reason": "decode", "offset": 3},
        {"reason": "recordKey", "offset": 4},
        {"reason": "decode", "offset": 5},
    ]


def test_columns_beside_the_value_are_of_the_same_message_and_its_key_may_refuse_it() -> None:
    decoder = replace(DECODER, columns=MessageColumns({"offset": "o", "key": "k", "headers": "h"}))
    assert decoder.needs == ("value", "offset", "key", "headers")
    given = batch(
        *(good(1), b"no json", good(2), good(3)),
        offset=pa.array([7, 8, 9, 10], pa.int64()),
        key=pa.array([b"a", b"b", b"\xff", None], pa.binary()),
        headers=pa.nulls(4, MESSAGE.field("headers").type),
    )
    decoded = decoder.decode(given)
    assert [(row["id"], row["o"], row["k"]) for row in decoded.rows.to_pylist()] == [("k1", 7, "a"), ("k3", 10, None)]
    only_key = replace(DECODER, columns=MessageColumns({"key": "k"}))
    (letters,) = refused_messages([given.slice(1, 2)], replace(only_key, program=TABLE), write_plan())
    assert letters.column("offset").to_pylist() == [8, 9]
    assert letters.column("detail").to_pylist()[1] == "cannot be decoded: the key is not UTF-8 text"
    assert "headers" not in letters.schema.names, "the dead-letter table has none"


NO_PLACE = {
    "recordKey": good(1).replace(b'"k1"', b"null"),
    "partitionPath": good(1).replace(b'"eu"', b'".."'),
    "orderingField": good(1).replace(b'"2026-01-01T00:00:00Z"', b"null"),
}


@pytest.mark.parametrize("reason", NO_PLACE)
def test_messages_without_a_place_in_the_table_keep_theirs_in_the_topic(reason: str) -> None:
    message = NO_PLACE[reason]
    assert sum(status.undecoded for status in written([[batch(good(1), message, b"no json")]])) == 2
    amount = Node("AttributeReference", pa.int64(), value=SCHEMA.get_field_index("amount"))
    is_one = Node("EqualTo", pa.bool_(), (amount, Node("Literal", pa.int64(), value=1)))
    for program in (None, Program((Where(is_one),), SCHEMA)):
        given = batch(good(2), b"no json", good(3), message, good(1), topic=["t"] * 5, offset=[5, 6, 7, 8, 9])
        (letters,) = refused_messages([given], replace(DECODER, program=program), write_plan())
        found = [(each["reason"], each["topic"], each["offset"], each["value"]) for each in letters.to_pylist()]
        assert found == [("decode", "t", 6, b"no json"), (reason, "t", 8, message)]


def test_a_message_with_a_time_beyond_the_years_of_a_column_is_no_row() -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("days", pa.list_(pa.date32()))])

    class Beyond:
        """Decodes each message to a row with the numbers in it."""

        def decode(self, messages: pa.BinaryArray) -> Decoded:
            rows = [tuple(map(int, each.split())) for each in messages.to_pylist() if each != b"bad"]
            at, days = pa.array([row[0] for row in rows], pa.int64()), [[0, row[1]] for row in rows]
            columns = [at.view(schema.field("at").type), pa.array(days, schema.field("days").type)]
            bad = [Refused(number, "bad") for number, each in enumerate(messages.to_pylist()) if each == b"bad"]
            return Decoded(pa.RecordBatch.from_arrays(columns, schema=schema), bad, 0)

    first, last = -62135596800_000_000, 253402300800_000_000 - 1
    given = [
        b"0 0",
        b"bad",
        b"%d 0" % (last + 1),
        b"0 2932897",
        b"%d -719162" % first,
        b"%d 2932896" % last,
        b"%d 0" % (first - 1),
    ]
    decoded = replace(DECODER, blocks=Beyond()).decode(batch(*given))
    assert decoded.rows.num_rows == 3
    assert [(each.number, each.why) for each in decoded.refused] == [
        (1, "bad"),
        (2, "field at: time 253402300800000000 is beyond the years 0001 to 9999"),
        (3, "field days[]: day 2932897 is beyond the years 0001 to 9999"),
        (6, "field at: time -62135596800000001 is beyond the years 0001 to 9999"),
    ]


def test_blocks_are_bounded_in_rows_and_bytes_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:

    values = [None if number % 7 == 0 else bytes([65 + number % 26]) * (number * 37 % 400) for number in range(200)]
    values[50] = b"x" * 5000
    whole = batch(*values)
    parts = [whole.slice(3, 60), whole.slice(63, 0), whole.slice(63, 1), whole.slice(64)]
    found = list(blocks(parts, 1000, 10))
    assert [value for block in found for value in block.column("value").to_pylist()] == values[3:]
    assert all(block.num_rows <= 10 for block in found)
    sizes = [sum(len(value or b"") for value in block.column("value").to_pylist()) for block in found]
    assert [size for size in sizes if size > 1000] == [5000]
    assert len(found) < 60, "messages are decoded together"
