"""A schema with very many levels is one that cannot be read: it ends nothing, whatever its format is."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.growth import lenient
from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.avro.schema import read_reader
from bucketingest.decode.json.as_avro import with_references
from bucketingest.decode.json.registered import RegisteredJsonDecoder
from bucketingest.decode.protobuf.compiled import compiled
from bucketingest.decode.protobuf.registered import RegisteredProtobufDecoder
from bucketingest.decode.registered.wire_format import RegisteredDecoder, WriterSchema
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown

PLAIN = lenient('{"type": "record", "name": "T", "fields": [{"name": "id", "type": ["null", "string"]}]}')
COLUMNS = columns_of(read_reader(PLAIN))


def avro(levels: int) -> str:
    """A record is defined beside the one that it is in: the text itself has few levels."""
    fields: list[dict[str, Any]] = [{"name": "id", "type": ["null", "string"]}]
    for at in range(levels):
        inner: dict[str, Any] = {"name": "v", "type": f"R{at - 1}" if at else "long"}
        fields.append({"name": f"f{at}", "type": {"type": "record", "name": f"R{at}", "fields": [inner]}})
    return json.dumps({"type": "record", "name": "T", "fields": fields})


def json_schema(levels: int) -> str:
    made = '{"properties":{"v":' * levels + "{}" + "}}" * levels
    return with_references(f'{{"properties":{{"id":{{"type":"string"}},"n":{made}}}}}', {})


def protobuf(levels: int) -> str:
    inner = " ".join(f"message M{at} {{ M{at + 1} v = 1; }}" for at in range(levels))
    text = f'syntax = "proto3"; message T {{ string id = 1; M0 n = 2; }} {inner} message M{levels} {{ int64 x = 1; }}'
    return compiled(text, {})


@pytest.mark.parametrize("levels", [90, 110, 300, 500])
@pytest.mark.parametrize(
    ("decoder", "text", "message"),
    [
        (RegisteredAvroDecoder(PLAIN, COLUMNS, {}), avro, b"\x02\x02a"),
        (RegisteredJsonDecoder(COLUMNS, {}, 0, PLAIN), json_schema, b'{"id": "a"}'),
        (RegisteredProtobufDecoder("T", COLUMNS, {}, PLAIN), protobuf, b"\0\x0a\x01a"),
    ],
    ids=["avro", "json", "protobuf"],
)
def test_it_makes_dead_letters_or_rows_and_columns_grow_no_more_than_can_be_read(
    decoder: RegisteredDecoder, text: Any, message: bytes, levels: int
) -> None:
    writer = WriterSchema(text(levels))
    columns = ColumnsSchema()
    columns.text = PLAIN
    try:
        columns.cover({7: writer}, decoder.columns_in)
    except SchemaGrown as grown:
        read_reader(grown.text)
    columns.left_out(decoder.columns_in, writer)
    decoded = decoder.knowing({7: writer}).decode(pa.array([b"\0\0\0\0\x07" + message], pa.binary()))
    assert decoded.rows.num_rows + len(decoded.refused) == 1
