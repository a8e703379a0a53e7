"""Rows of Protobuf messages, to be compared: as Spark makes them of what Google's own library has read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from google.protobuf import unknown_fields
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from google.protobuf.message import Message


def plain(value: Any) -> Any:
    """With maps in the order of their keys, and floats as text: -0.0 is 0.0 otherwise."""
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):
        items = [plain(each) for each in value]
        return sorted(items, key=repr) if items and isinstance(items[0], tuple) else items
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    return repr(value) if isinstance(value, float) else value


def numbers_for_times(rows: pa.RecordBatch) -> list[Any]:
    """Python has no times before the year 1."""
    return pa.StructArray.from_arrays(
        [_without_times(column) for column in rows.columns], names=rows.schema.names
    ).to_pylist()


def _without_times(values: pa.Array) -> pa.Array:
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.view(pa.int64())
    if pa.types.is_struct(kind):
        children = [_without_times(child) for child in values.flatten()]
        return pa.StructArray.from_arrays(children, [field.name for field in kind], mask=values.is_null())
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(values.offsets, _without_times(values.values), mask=values.is_null())
    if pa.types.is_map(kind):
        return pa.MapArray.from_arrays(values.offsets, values.keys, _without_times(values.items), mask=values.is_null())
    return values


def expected_row(message: Any) -> dict[str, Any]:
    """The row that Spark makes of a message that Google's library has read."""
    fields = [field for field in message.DESCRIPTOR.fields if not _is_empty(field)]
    return {field.name: _expected(message, field) for field in fields}


def has_left_out(message: Any) -> bool:
    """Whether Google's library has taken a known field for an unknown one: of a map's entry that has further fields it
    does, unlike Java's.
    """
    known = {field.number for field in message.DESCRIPTOR.fields}
    if any(each.field_number in known for each in unknown_fields.UnknownFieldSet(message)):
        return True
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        is_map = field.message_type.GetOptions().map_entry
        inner = value.values() if is_map else value if field.is_repeated else [value]
        if any(isinstance(each, Message) and has_left_out(each) for each in inner):
            return True
    return False


def _is_empty(field: Any) -> bool:
    return field.message_type is not None and not field.message_type.fields


def _expected(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of_value = field.message_type.fields_by_name["value"]
        of_key = field.message_type.fields_by_name["key"]
        # What is asked for by its key is made if it is not there: so by items().
        return [(_one(of_key, key), _one(of_value, each)) for key, each in value.items()]
    if field.is_repeated:
        return [_one(field, each) for each in value]
    if field.has_presence:
        return _one(field, value) if message.HasField(field.name) or field.has_default_value else None
    is_default = value in {0, "", b""} and not str(value).startswith("-")
    return None if is_default else _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == "google.protobuf.Timestamp":
            nanos = value.nanos
            return value.seconds * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))
        return expected_row(value)
    name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if name == "enum":
        known = field.enum_type.values_by_number.get(value)
        return f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}" if known is None else known.name
    bits = {"uint32": 32, "fixed32": 32, "uint64": 64, "fixed64": 64}.get(name)
    return value - (1 << bits) if bits and value >= 1 << bits - 1 else value
