"""The columns of a message, as docs/kafka-protobuf.md lists them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from bucketingest.decode.protobuf.schema import LONG, WHOLE, Field, Message

_TYPES: Final = {
    **dict.fromkeys(["int32", "uint32", "sint32", "fixed32", "sfixed32"], pa.int32()),
    **dict.fromkeys(["int64", "uint64", "sint64", "fixed64", "sfixed64", *LONG.values()], pa.int64()),
    **dict.fromkeys(WHOLE.values(), pa.uint64()),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "duration": pa.duration("us"),
}


def columns_of(message: Message) -> pa.Schema:
    """A column of each field, in their order."""
    return pa.schema([pa.field(field.name, type_of(field)) for field in message.fields])


def type_of(field: Field) -> pa.DataType:
    """Of a field's column."""
    if field.is_map:
        assert field.message is not None, "a map has entries"
        key, value = field.message.fields
        return pa.map_(value_type(key), type_of(value))
    one = value_type(field)
    return pa.list_(pa.field("element", one)) if field.repeated else one


def value_type(field: Field) -> pa.DataType:
    """Of one value of a field."""
    if field.kind == "message":
        assert field.message is not None, "its kind says so"
        return pa.struct([pa.field(each.name, type_of(each)) for each in field.message.fields])
    return _TYPES[field.kind]
