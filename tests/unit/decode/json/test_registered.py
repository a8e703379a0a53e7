"""JSON messages in Confluent's wire format: the id is that of a JSON Schema, and the columns say what counts."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from bucketingest.decode.json.registered import RegisteredJsonDecoder
from bucketingest.decode.registered.wire_format import UnknownSchemaIds, WriterSchema

COLUMNS = pa.schema([("id", pa.string()), ("n", pa.int32())])
KNOWN = {7: WriterSchema(), 300: WriterSchema(), 9: WriterSchema(why_not="is AVRO, not JSON")}


def message(schema_id: int, text: str) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + text.encode()


def test_messages_of_every_json_schema_are_rows_in_their_order() -> None:
    decoder = pickle.loads(pickle.dumps(RegisteredJsonDecoder(COLUMNS, {}).knowing(KNOWN)))
    messages = [message(7 if n % 3 else 300, f'{{"id": "{n}", "n": {n}, "more": [1]}}') for n in range(1000)]
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    assert (decoded.refused, decoded.one_by_one) == ([], 0)
    assert decoded.rows.to_pylist() == [{"id": f"{n}", "n": n} for n in range(1000)]


def test_what_is_no_row_says_why() -> None:
    decoder = RegisteredJsonDecoder(COLUMNS, KNOWN)
    good = message(7, '{"id": "a"}')
    messages = [good, message(9, '{"id": "b"}'), b'{"id": "c"}', None, message(7, '{"n": "x"}'), message(7, ""), good]
    decoded = decoder.decode(pa.array(messages, pa.binary()))
    assert decoded.rows.to_pylist() == [{"id": "a", "n": None}] * 2
    assert {each.number: each.why for each in decoded.refused} == {
        1: "byte 2: schema 9 is AVRO, not JSON",
        2: "byte 1: it begins with 7b22696422, which is not Confluent's header: a zero byte and a schema's id",
        3: "",
        4: "schema 7, field n: Expected `int | null`, got `str`",
        5: "schema 7, the message is empty",
    }


def test_an_id_that_nobody_has_decided_stops_the_block() -> None:
    with pytest.raises(UnknownSchemaIds, match=r"^8$"):
        RegisteredJsonDecoder(COLUMNS, KNOWN).decode(pa.array([message(8, "{}")], pa.binary()))
