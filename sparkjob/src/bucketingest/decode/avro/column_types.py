"""The columns of an Avro record, as docs/kafka-avro.md lists them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from bucketingest.avro.arrow_types import SIMPLE
from bucketingest.decode.avro.schema import AvroRecord

DIGITS_MAX: Final = 38
"""A decimal column has no more; values of a type that has are checked one by one."""
_TYPES: Final = {**SIMPLE, "fixed": pa.binary()}
_LOGICAL: Final = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}


def columns_of(record: AvroRecord) -> pa.Schema:
    """A column of each field, in their order."""
    return pa.schema([pa.field(field["name"], _type(field["type"])) for field in record["fields"]])


def branches_of(avro: Any) -> list[Any]:
    """The types of a union but null."""
    return [branch for branch in avro if branch != "null"]


def member(number: int) -> str:
    """The field of a union's struct that has the values of its type of this number, null not counted."""
    return f"member{number}"


def _type(avro: Any) -> pa.DataType:
    if isinstance(avro, list):
        branches = branches_of(avro)
        if len(branches) == 1:
            return _type(branches[0])
        return pa.struct([pa.field(member(number), _type(branch)) for number, branch in enumerate(branches)])
    kind, logical = avro["type"], avro.get("logicalType")
    match kind:
        case "record":
            return pa.struct([pa.field(field["name"], _type(field["type"])) for field in avro["fields"]])
        case "array":
            return pa.list_(pa.field("element", _type(avro["items"])))
        case "map":
            return pa.map_(pa.string(), _type(avro["values"]))
        case "bytes" | "fixed" if logical == "decimal":
            return pa.decimal128(min(avro["precision"], DIGITS_MAX), avro.get("scale", 0))
    return _LOGICAL.get((kind, logical), _TYPES[kind])
