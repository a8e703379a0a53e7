"""Messages with a schema's id, and a decoder that knows the schemas."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow as pa

from bucketingest.decode.avro.column_types import columns_of
from bucketingest.decode.avro.registered import RegisteredAvroDecoder
from bucketingest.decode.avro.schema import read_reader
from bucketingest.decode.registered.wire_format import WriterSchema
from bucketingest.decode.rows import Decoded

OLD: dict[str, Any] = {
    "type": "record",
    "name": "a.Order",
    "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}, {"name": "gone", "type": "string"}],
}


NEW: dict[str, Any] = {
    "type": "record",
    "name": "b.Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


def header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def encoded(schema: dict[str, Any], value: dict[str, Any], schema_id: int = 1) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return header(schema_id) + out.getvalue()


def decoder(reader: dict[str, Any], writers: dict[int, dict[str, Any] | WriterSchema]) -> RegisteredAvroDecoder:
    known = {
        number: each if isinstance(each, WriterSchema) else WriterSchema(json.dumps(each))
        for number, each in writers.items()
    }
    return RegisteredAvroDecoder(json.dumps(reader), columns(reader), known)


def columns(reader: dict[str, Any]) -> pa.Schema:
    return columns_of(read_reader(json.dumps(reader)))


def decode(found: RegisteredAvroDecoder, *messages: bytes | None) -> Decoded:
    return found.decode(pa.array(messages, pa.binary()))


def record(kind: Any, **field: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind, **field}]}


def value(writer: Any, reader: Any, given: Any, **field: Any) -> Any:
    decoded = decode(decoder(record(reader, **field), {1: record(writer)}), encoded(record(writer), {"x": given}))
    assert decoded.refused == []
    return decoded.rows.column("x")[0].as_py()


def why(writer: dict[str, Any], reader: dict[str, Any], message: bytes) -> str:
    decoded = decode(decoder(reader, {1: writer}), message)
    assert decoded.rows.num_rows == 0
    (refused,) = decoded.refused
    return refused.why
