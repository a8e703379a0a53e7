"""Messages in Confluent's wire format are decoded with the schema that each names, and read as the reader's says."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.registered.wire_format import UnknownSchemaIds, WriterSchema, ids_of
from support.decoding.registered_avro import NEW, OLD, decode, decoder, encoded, header, record


def test_messages_of_several_schemas_in_one_block_keep_their_order() -> None:
    found = decoder(NEW, {7: OLD, 8: NEW})
    rows = [
        encoded(OLD, {"id": f"{n}", "n": n, "gone": "x" * n}, 7)
        if n % 3
        else encoded(NEW, {"id": f"{n}", "n": n + 2**40, "note": "new"}, 8)
        for n in range(1000)
    ]
    decoded = decode(found, *rows)
    assert (decoded.refused, decoded.one_by_one) == ([], 0)
    assert decoded.rows.to_pylist() == [
        {"id": f"{n}", "n": n if n % 3 else n + 2**40, "note": None if n % 3 else "new"} for n in range(1000)
    ]


def test_each_message_is_a_row_or_is_refused_for_its_own_reason() -> None:
    found = decoder(NEW, {7: OLD, 8: NEW, 9: WriterSchema(why_not="is not in the registry")})
    good = encoded(OLD, {"id": "a", "n": 1, "gone": ""}, 7)
    messages = [
        good,
        None,
        b"",
        header(7),
        header(9) + b"x",
        b"\1" + good[1:],
        good[:-1],
        b"\0\xff\xff\xff\xff\0",
        good,
    ]
    decoded = decode(found, *messages)
    assert decoded.rows.to_pylist() == [{"id": "a", "n": 1, "note": None}] * 2
    assert {each.number: each.why for each in decoded.refused} == {
        1: "",
        2: "byte 1: it begins with nothing, which is not Confluent's header: a zero byte and a schema's id",
        3: "schema 7, field id, byte 6: the message ends within a long",
        4: "byte 2: schema 9 is not in the registry",
        5: "byte 1: it begins with 0100000007, which is not Confluent's header: a zero byte and a schema's id",
        6: "schema 7, field (not read), byte 9: the message ends within a long",
        7: "byte 1: it begins with 00ffffffff, which is not Confluent's header: a zero byte and a schema's id",
    }
    assert [each.number for each in decoded.refused] == sorted(each.number for each in decoded.refused)


def test_an_id_that_nobody_has_decided_stops_the_block_instead_of_refusing_the_message() -> None:
    messages = [encoded(NEW, {"id": "a", "n": 1, "note": None}, each) for each in (8, 12, 300, 12)]
    with pytest.raises(UnknownSchemaIds, match=r"^12, 300$"):
        decode(decoder(NEW, {8: NEW}), *messages)
    assert ids_of(pa.array([*messages, b"\0\0", b"{abcd"], pa.binary())).tolist() == [8, 12, 300, 12, -1, -1]


def test_slices_and_pickled_decoders_give_the_same() -> None:
    found = pickle.loads(pickle.dumps(decoder(NEW, {7: OLD, 8: NEW})))
    block = pa.array([encoded(OLD, {"id": f"{n}", "n": n, "gone": ""}, 7) for n in range(20)], pa.binary())
    assert found.decode(block.slice(5, 3)).rows.column("id").to_pylist() == ["5", "6", "7"]
    assert found.decode(block.slice(0, 0)).rows.num_rows == 0
    assert found.decode(pa.array([None, None], pa.binary())).rows.num_rows == 0


@pytest.mark.parametrize(
    ("kind", "given"), [(["null"], None), ({"type": "array", "items": ["null"]}, [None, None]), (["int"], 1)]
)
def test_a_union_of_one_type_is_passed_over(kind: Any, given: Any) -> None:
    """Of null alone, too: Avro takes it."""
    fields = [*record("int")["fields"], {"name": "y", "type": kind}, {"name": "z", "type": "int"}]
    writer = {**record("int"), "fields": fields}
    message = encoded(writer, {"x": 1, "y": given, "z": 2})
    decoded = decode(decoder(record("int"), {1: writer}), message, message + b"!", message)
    assert decoded.rows.to_pylist() == [{"x": 1}] * 2
    assert [each.number for each in decoded.refused] == [1]
