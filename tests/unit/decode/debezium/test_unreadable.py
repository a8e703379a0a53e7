"""No message ends the query: what cannot be read, of whatever part of it, is a dead letter; its neighbours are rows."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from bucketingest.decode.ddl import columns_of
from bucketingest.decode.debezium.decoder import DebeziumDecoder
from bucketingest.decode.debezium.events import EventRules
from bucketingest.decode.debezium.heads import with_heads_apart
from bucketingest.decode.json.doubts import WITHOUT_END
from bucketingest.decode.kafka.message import KEY, VALUE
from bucketingest.decode.message_columns import with_deleted
from bucketingest.decode.rows import Decoded
from bucketingest.stream.source.key_columns import key_names

DEEP = b"[" * 3000 + b"]" * 3000
NO_TEXT = "a byte that is not UTF-8"
ROW = {"id": 1, "s": "AQ==", "m": "AQ==", "d": 3, "t": "2026-01-02T03:04:05Z"}
DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"


def decode(value: bytes | None, key: bytes | None = None, *, flat: bool) -> Decoded:
    """The message between two usual ones, of which there are rows."""
    good = json.dumps(ROW if flat else {"before": None, "after": ROW, "op": "c", "ts_ms": 1234567890}).encode()
    rules = EventRules(full=False, stops=False, flat=flat, keeps=frozenset({"s"}), key=("id",))
    ddl = "id BIGINT, s STRING, m STRING, d DATE, t TIMESTAMP"
    decoder = DebeziumDecoder(with_deleted(columns_of(ddl)), 1, rules)
    for values in ([value], [value, good], [good, value, good]):
        batch = pa.RecordBatch.from_pydict(
            {VALUE: pa.array(values, pa.binary()), KEY: pa.array([key] * len(values), pa.binary())}
        )
        decoded, cut = decoder.decode(*batch.columns), decoder.decode(*with_heads_apart(batch).columns)
        assert (cut.rows, cut.refused) == (decoded.rows, decoded.refused)
    assert decoded.rows.column("m").to_pylist().count("AQ==") == 3 - len(decoded.refused)
    return decoded


def event(after: bytes) -> bytes:
    return b'{"op":"c","after":%s}' % after


def said(of_field: bytes, *, flat: bool, row: bytes | None = None) -> bytes:
    schema = b'{"type":"struct","fields":[{"type":"struct","field":"after","fields":[%s]}]}' % of_field
    row = json.dumps(ROW).encode() if row is None else row
    schema = b'{"type":"struct","fields":[%s]}' % of_field if flat else schema
    return b'{"schema":%s,"payload":%s}' % (schema, row if flat else event(row))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("value", [b'{"\xff":1}', b'{"op":"\xff"}', b'{"schema":null,"payload":{"op":"\xff"}}'])
def test_a_byte_that_is_no_text_is_a_dead_letter(value: bytes, *, flat: bool) -> None:
    (refused,) = decode(value, flat=flat).refused
    assert refused.number == 1
    assert NO_TEXT in refused.why or "no op" in refused.why


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    "around", [b"%s", b'{"x":%s}', b'{"op":"c","after":{"id":1,"x":%s}}', b'{"op":"t","source":%s}']
)
def test_a_message_without_an_end_of_levels_is_a_dead_letter(around: bytes, *, flat: bool) -> None:
    (refused,) = decode(around % DEEP, flat=flat).refused
    assert refused.number == 1
    assert WITHOUT_END in refused.why or "Expected `object`" in refused.why


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("key", [DEEP, b'{"x":%s}' % DEEP, b'{"schema":%s,"payload":{"id":1}}' % DEEP])
def test_a_key_without_an_end_of_levels_is_a_dead_letter(key: bytes, *, flat: bool) -> None:
    (refused,) = decode(None, key, flat=flat).refused
    assert "key is no JSON object" in refused.why
    assert key_names(key) == ()


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("name", [b"[]", b"{}", b"7", b"null"])
def test_a_type_whose_name_is_no_text_has_none(name: bytes, *, flat: bool) -> None:
    found = decode(said(b'{"field":"t","name":%s}' % name, flat=flat), flat=flat)
    assert (found.rows.num_rows, found.refused) == (3, [])


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        "null",
        "[]",
        '{"scale":"x"}',
        '{"scale":null}',
        '{"scale":[]}',
        '{"scale":"999999999"}',
        '{"scale":"-999999999"}',
    ],
)
def test_a_decimal_without_a_scale_that_a_number_has_is_a_dead_letter(parameters: str, *, flat: bool) -> None:
    field = b'{"field":"m","name":"%s","parameters":%s}' % (DECIMAL.encode(), parameters.encode())
    (refused,) = decode(said(field, flat=flat), flat=flat).refused
    assert refused.number == 1
    assert refused.why.startswith("field m: the scale ")


@pytest.mark.parametrize("scale", [2_000_000_000, -2_000_000_000, 16_384])
def test_a_number_may_have_no_scale_of_its_own_that_fills_the_memory(scale: int) -> None:
    field = b'{"field":"m","name":"%s"}' % VARIABLE.encode()
    row = b'{"id":1,"m":{"scale":%d,"value":"AQ=="}}' % scale
    (refused,) = decode(said(field, flat=False, row=row), flat=False).refused
    assert refused.why == f"field m: the scale {scale} is none of -1000 to 16383"


def test_numbers_with_all_digits_of_a_column_are_those_numbers() -> None:
    """An absolute value has 28 digits in Python, unless it is asked for all."""
    nines, long = 10**38 - 1, 7 * 10**2500 + 3
    rules = EventRules(full=False, stops=False)
    decoder = DebeziumDecoder(with_deleted(columns_of("a DECIMAL(38,0), b STRING")), 1, rules)
    fields = b",".join(b'{"field":"%s","name":"%s"}' % (each, VARIABLE.encode()) for each in (b"a", b"b"))
    row = {name: {"scale": 0, "value": _base64(number)} for name, number in (("a", nines), ("b", long))}
    found = decoder.decode(pa.array([said(fields, flat=False, row=json.dumps(row).encode())], pa.binary()))
    assert found.refused == []
    assert found.rows.to_pylist() == [{"a": Decimal(nines), "b": f"{Decimal(long):f}", "__deleted": False}]


def _base64(number: int) -> str:
    return base64.b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()
