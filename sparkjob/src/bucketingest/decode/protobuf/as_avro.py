"""The columns of a message's fields as an Avro schema, in whose terms columns grow whatever the messages' format is.

Columns have names and no numbers: a field is the column of its name. What a table cannot have becomes what it can.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from bucketingest.decode.avro.growth import fitted
from bucketingest.decode.avro.resolution import Incompatible
from bucketingest.decode.protobuf.schema import LONG, WHOLE, Field, Message

_TIME: Final = {"type": "long", "logicalType": "timestamp-micros"}
_TYPES: Final[dict[str, Any]] = {
    **dict.fromkeys(["int32", "uint32", "sint32", "fixed32", "sfixed32"], "int"),
    **dict.fromkeys(["int64", "uint64", "sint64", "fixed64", "sfixed64", "duration"], "long"),
    **dict.fromkeys(["string", "enum"], "string"),
    "bool": "boolean",
    "float": "float",
    "double": "double",
    "bytes": "bytes",
    "timestamp": _TIME,
}


def as_avro(message: Message) -> dict[str, Any]:
    """An Avro record. A duration is its microseconds, a map's keys are text, and a field that can be no column is of
    the type null, which says why.
    """
    fields = [{"name": each.name, "type": _type(each)} for each in message.fields]
    fields += [{"name": name, "type": {"type": "null", "why": why}} for name, why in message.left_out]
    # One name for all: which message a type is says nothing about its columns.
    return {"type": "record", "name": "message", "fields": fields}


def _type(field: Field) -> Any:
    if field.is_map:
        assert field.message is not None, "a map has entries"
        return {"type": "map", "values": _type(field.message.fields[1])}
    if field.kind == "message":
        assert field.message is not None, "its kind says so"
        kind: Any = as_avro(field.message)
    else:
        kind = _TYPES[field.kind]
    return {"type": "array", "items": kind} if field.repeated else kind


def fitted_to(reader: Any, writer: Any) -> Any:
    """The writer's type with the reader's for what Protobuf takes for the same: a single value is an array of one, and
    a bool is a number.
    """
    return fitted(reader, writer, _fit)


def _fit(one: dict[str, Any], other: dict[str, Any]) -> Any:
    match one["type"], other["type"]:
        case "array", kind if kind != "map":
            return {"type": "array", "items": fitted_to(one["items"], other)}
        case "int" | "long", "boolean":
            return {"type": one["type"]}
    return other


def only_columns(message: Message, columns: Any) -> Message:
    """The message with those of its fields that are columns, or have one inside. `columns`: Arrow fields, of types that
    the fields' can be read as. Raises Incompatible.
    """
    kinds = {each.name: each.type for each in columns}
    fields = []
    for each in message.fields:
        if each.name in kinds:
            try:
                fields.append(_only(each, kinds[each.name]))
            except Incompatible as error:
                error.path.append(each.name)
                raise
    return replace(message, fields=tuple(each for each in fields if each.message is None or each.message.fields))


def _only(field: Field, column: pa.DataType) -> Field:
    if pa.types.is_list(column) and not field.repeated:
        field = replace(field, repeated=True, required=False)
    if field.kind != "message":
        one = column.value_type if field.repeated else column
        if pa.types.is_timestamp(one) != (field.kind == "timestamp"):  # nobody knows what a number counts
            wanted = "timestamp" if pa.types.is_timestamp(one) else one
            raise Incompatible(f"is {field.kind} and cannot be read as {wanted}")
        if field.kind == "bool" and pa.types.is_integer(one):
            return replace(field, kind="int32", default=None if field.default is None else int(field.default))
        kinds, narrow, bits = (LONG, pa.int32(), 32) if field.kind in LONG else (WHOLE, pa.int64(), 64)
        if field.kind not in kinds or one == narrow:
            return field
        default = None if field.default is None else field.default % 2**bits
        return replace(field, kind=kinds[field.kind], default=default)
    assert field.message is not None, "its kind says so"
    if field.is_map:
        key, value = field.message.fields
        key, value = _only(key, column.key_type), _only(value, column.item_type)
        is_empty = value.message is not None and not value.message.fields
        return replace(field, message=replace(field.message, fields=() if is_empty else (key, value)))
    inside = column.value_type if field.repeated else column
    return replace(field, message=only_columns(field.message, inside))
