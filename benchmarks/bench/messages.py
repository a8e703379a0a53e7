"""The benchmarks' rows as Kafka messages in three formats with the same values, and how both sides decode them."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from fastavro import parse_schema, schemaless_writer
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from bench.data import Dataset, rows_of

Encoding = Literal["json", "avro", "protobuf"]
MESSAGE_NAME: Final = "bench.Row"
_CHUNK_ROWS: Final = 50_000
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_PROTOBUF: Final = descriptor_pb2.FieldDescriptorProto


def messages(folder: Path, dataset: Dataset, encoding: Encoding) -> Iterator[tuple[bytes, bytes]]:
    """The rows of an input folder as Kafka messages: the record key, and all columns as one value."""
    encode = {"json": _json_values, "avro": _avro_values, "protobuf": _protobuf_values}[encoding]
    for file in sorted(folder.glob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(_CHUNK_ROWS):
            table = pa.table(batch)
            keys = table[dataset.record_key].cast(pa.binary()).to_pylist()
            yield from zip(keys, encode(table, dataset), strict=True)


def message_format(dataset: Dataset, encoding: Encoding) -> dict[str, str]:
    """`spec.format` of a resource that reads the messages; its schema is also what Hudi's side is given."""
    if encoding == "json":
        return {"type": "json", "schema": dataset.schema_ddl}
    if encoding == "avro":
        return {"type": "avro", "schema": json.dumps(avro_schema(dataset))}
    descriptors = base64.b64encode(descriptor_set(dataset).SerializeToString()).decode()
    return {"type": "protobuf", "messageName": MESSAGE_NAME, "schema": descriptors}


def avro_schema(dataset: Dataset) -> dict[str, Any]:
    """The columns as a record: key, partition and ordering column are required, the others may be null."""
    required = {dataset.record_key, dataset.partition_by, dataset.ordering}
    fields = [
        {
            "name": field.name,
            "type": _avro_type(field.type) if field.name in required else ["null", _avro_type(field.type)],
        }
        for field in _schema(dataset)
    ]
    return {"type": "record", "name": "Row", "namespace": "bench", "fields": fields}


def descriptor_set(dataset: Dataset) -> descriptor_pb2.FileDescriptorSet:
    """The columns as a proto3 message with presence, as `protoc --include_imports` describes it.

    Protobuf has no decimals: such a column is an `int64` of its smallest unit, on both sides.
    """
    timestamp = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp)
    file = descriptor_pb2.FileDescriptorProto(
        name="bench.proto", package="bench", syntax="proto3", dependency=[timestamp.name]
    )
    row = file.message_type.add(name=MESSAGE_NAME.split(".")[1])
    for number, field in enumerate(_schema(dataset)):
        kind = _protobuf_type(field.type)
        row.field.add(
            name=field.name,
            number=number + 1,
            label=_PROTOBUF.LABEL_OPTIONAL,
            type=kind,
            type_name=f".{_TIMESTAMP}" if kind == _PROTOBUF.TYPE_MESSAGE else None,
            oneof_index=number,
            proto3_optional=True,
        )
        row.oneof_decl.add(name=f"_{field.name}")
    return descriptor_pb2.FileDescriptorSet(file=[timestamp, file])


def _schema(dataset: Dataset) -> pa.Schema:
    return rows_of(dataset, pa.array([0]), 0).schema


def _json_values(table: pa.Table, _dataset: Dataset) -> Sequence[bytes]:
    """One JSON object per row. No value of the inputs needs escaping."""
    parts: list[Any] = []
    for number, name in enumerate(table.column_names):
        column = table[name].combine_chunks()
        quoted = pa.types.is_string(column.type) or pa.types.is_timestamp(column.type)
        if pa.types.is_timestamp(column.type):
            column = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
        text = column.cast(pa.string())
        parts += [f'{"," if number else "{"}"{name}":', *(['"', text, '"'] if quoted else [text])]
    lines: Sequence[bytes] = pc.binary_join_element_wise(*parts, "}", "").cast(pa.binary()).to_pylist()
    return lines


def _avro_values(table: pa.Table, dataset: Dataset) -> Iterator[bytes]:
    schema = parse_schema(avro_schema(dataset))
    buffer = io.BytesIO()
    for row in table.to_pylist():
        buffer.seek(0)
        buffer.truncate()
        schemaless_writer(buffer, schema, row)
        yield buffer.getvalue()


def _protobuf_values(table: pa.Table, dataset: Dataset) -> Iterator[bytes]:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_set(dataset).file:
        pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE_NAME))
    for row in table.to_pylist():
        yield message(**{name: _protobuf_value(value) for name, value in row.items()}).SerializeToString()


def _avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros"}
    names = {
        pa.string(): "string",
        pa.int32(): "int",
        pa.int64(): "long",
        pa.float64(): "double",
        pa.bool_(): "boolean",
    }
    return names[kind]


def _protobuf_type(kind: pa.DataType) -> descriptor_pb2.FieldDescriptorProto.Type.ValueType:
    if pa.types.is_decimal(kind):
        return _PROTOBUF.TYPE_INT64
    if pa.types.is_timestamp(kind):
        return _PROTOBUF.TYPE_MESSAGE
    return {
        pa.string(): _PROTOBUF.TYPE_STRING,
        pa.int32(): _PROTOBUF.TYPE_INT32,
        pa.int64(): _PROTOBUF.TYPE_INT64,
        pa.float64(): _PROTOBUF.TYPE_DOUBLE,
        pa.bool_(): _PROTOBUF.TYPE_BOOL,
    }[kind]


def _protobuf_value(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value.scaleb(-int(value.as_tuple().exponent)))
    if isinstance(value, datetime):
        return {"seconds": int(value.timestamp()), "nanos": value.microsecond * 1000}
    return value
