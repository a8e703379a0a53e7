"""The columns that Spark makes of an Avro schema, for tests without Spark; those with it ask Spark."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from bucketingest.decode.avro.schema import read_fields

_TIMES = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
}


def spark_columns(schema: dict[str, Any]) -> pa.Schema:
    """The Arrow schema of rows of this record."""
    return pa.schema([pa.field(field["name"], _column(field["type"])) for field in read_fields(json.dumps(schema))])


def _column(avro: Any) -> pa.DataType:
    if isinstance(avro, list):
        avro = next(branch for branch in avro if branch != "null")
    logical = avro.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    match avro["type"]:
        case "record":
            return pa.struct([pa.field(field["name"], _column(field["type"])) for field in avro["fields"]])
        case "array":
            return pa.list_(pa.field("element", _column(avro["items"])))
        case "map":
            return pa.map_(pa.string(), _column(avro["values"]))
        case name:
            return _TIMES.get(logical) or _PLAIN[name]
