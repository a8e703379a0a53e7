"""Which columns Spark makes of an Avro schema, as far as they are decoded here: so that a type which it reads otherwise
is noticed before a message is.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.avro.schema import AvroFields

_STAMPS: Final = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def differing(fields: AvroFields, columns: pa.Schema | pa.StructType) -> str | None:
    """The first field of which Spark makes a type that is not decoded here, in words; None if there is none."""
    if [field["name"] for field in fields] != [column.name for column in columns]:
        return "other columns"
    for field, column in zip(fields, columns, strict=True):
        if (found := _differing(field["type"], column.type)) is not None:
            return found
    return None


def _differing(avro: Any, kind: pa.DataType) -> str | None:
    if isinstance(avro, list):
        avro = next(branch for branch in avro if branch != "null")
    logical = avro.get("logicalType")
    match avro["type"]:
        case "record" if pa.types.is_struct(kind):
            return differing(avro["fields"], kind)
        case "array" if pa.types.is_list(kind):
            return _differing(avro["items"], kind.value_type)
        case "map" if pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            return _differing(avro["values"], kind.item_type)
        case "bytes" | "fixed" if pa.types.is_decimal128(kind):
            same = logical == "decimal" and (avro["precision"], avro.get("scale", 0)) == (kind.precision, kind.scale)
        case "bytes" | "fixed":
            same = kind == pa.binary()
        case "string" | "enum":
            same = kind == pa.string()
        case "int":
            same = kind == (pa.date32() if logical == "date" else pa.int32())
        case "long":
            same = kind == _STAMPS.get(logical, pa.int64())
        case name:
            same = kind == {"boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64()}.get(name)
    return None if same else str(kind)
