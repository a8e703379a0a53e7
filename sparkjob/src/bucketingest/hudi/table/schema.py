"""Names and types of a table's columns: Arrow schema to the Avro schema that Hudi stores, and back.

Hudi keeps an Avro schema in every log block header and every commit. Readers resolve a block's schema against the
table's by name, so record, namespace and fixed names must be those of Hudi's Spark writer (Hudi 1.2.0, seen in tables
it wrote): record ``<table>_record`` in namespace ``hoodie.<table>``, nested records and decimals below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from bucketingest.avro.arrow_types import SIMPLE
from bucketingest.hudi.errors import SchemaError

AvroSchema = dict[str, Any]
"""A parsed Avro record schema, as ``json.loads`` gives it."""

META_COLUMNS: Final[tuple[str, ...]] = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""The five nullable string columns in front of every stored row, in Hudi's order."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MEMBER: Final = re.compile(r"member\d+")
"""Names by which Hudi knows a union that Spark holds as a struct [Hudi 1.2.0, HoodieSparkSchemaConverters]."""

_PRIMITIVES: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
}

_REMEDIES: Final[tuple[tuple[str, str], ...]] = (
    ("timestamp[us]", "hudi-rs 0.5 cannot open a table with a TIMESTAMP_NTZ column; cast it to TIMESTAMP or STRING"),
    ("timestamp", "cast it to microseconds with a time zone"),
    ("date64", "cast it to a date in days (date32)"),
    ("time", "cast it to a long or a string"),
    ("uint", "cast it to a signed integer that holds its range"),
    ("halffloat", "cast it to float"),
    ("decimal", "cast it to decimal128 with a precision of at most 38"),
    ("duration", "cast it to a long"),
    ("null", "give it a type, for example CAST(NULL AS STRING)"),
    ("map", "cast its keys to string: Avro maps have string keys only"),
    ("struct", "remove it: a struct without fields cannot be stored"),
    ("fixed_size_binary", "cast it to binary"),
    ("fixed_size_list", "cast it to a list of variable size"),
)


def arrow_to_avro(schema: pa.Schema, *, table_name: str) -> AvroSchema:
    """The Avro schema that Hudi's Spark writer gives a table of these columns, without meta columns.

    Meta columns at the front of ``schema`` are left out: see `with_meta_columns`. A nullable field becomes the union
    ``["null", T]`` with default null. Dictionary-encoded columns count as their value type.

    Raises `SchemaError`, naming the column path, for a type or name that the table cannot hold.
    """
    table = _sanitised(table_name)
    record = f"{table}_record"
    names = [name for name in schema.names if name not in META_COLUMNS]
    if not names:
        raise SchemaError(f"table {table_name!r}: the schema has no columns; select at least one")
    if doubled := same_names(names):
        raise SchemaError(f"table {table_name!r}: {doubled}; rename one of each")
    fields = [_avro_field(field, f"hoodie.{table}.{record}", ()) for field in schema if field.name not in META_COLUMNS]
    return {"type": "record", "name": record, "namespace": f"hoodie.{table}", "fields": fields}


def same_names(names: Iterable[str]) -> str:
    """Which names Spark cannot tell apart, in words: its readers fail on such a table. "" if there are none."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(name.lower(), []).append(name)
    found = [f"{' and '.join(each)}" for each in groups.values() if len(each) > 1]
    return f"Spark's readers cannot tell the columns apart: {', '.join(found)}" if found else ""


def with_meta_columns(schema: AvroSchema) -> AvroSchema:
    """The same record schema with Hudi's five meta columns as its first fields, as in block headers."""
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]
    own = [field for field in schema["fields"] if field["name"] not in META_COLUMNS]
    return {**schema, "fields": meta + own}


def schema_json(schema: AvroSchema) -> str:
    """The schema as one line of JSON without blanks, the form that Hudi stores in block headers and commits."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def _sanitised(table_name: str) -> str:
    """Hudi's own replacement of characters that Avro names cannot have [Hudi 1.2.0, HoodieAvroUtils.sanitizeName]."""
    if not table_name:
        raise SchemaError("the table has no name; set spec.table.name")
    first = re.sub(r"^[^A-Za-z_]", "__", table_name)
    return re.sub(r"[^A-Za-z0-9_]", "__", first)


def _avro_field(field: pa.Field, namespace: str, parents: tuple[str, ...]) -> dict[str, Any]:
    path = (*parents, field.name)
    if not _NAME.fullmatch(field.name):
        raise SchemaError(
            f"column {'.'.join(path)!r}: Avro names are ASCII letters, digits and '_', and do not start with a digit; "
            "rename it, for example in transform.sql"
        )
    avro = _avro_type(field.type, field.name, namespace, path)
    if field.nullable:
        return {"name": field.name, "type": ["null", avro], "default": None}
    return {"name": field.name, "type": avro}


def _avro_type(kind: pa.DataType, name: str, namespace: str, path: tuple[str, ...]) -> Any:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    if pa.types.is_decimal128(kind):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": decimal_bytes(kind.precision),
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz:
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _avro_nullable(kind.value_field, name, namespace, (*path, "element"))
        return {"type": "array", "items": items}
    if pa.types.is_map(kind) and kind.key_type in (pa.string(), pa.large_string()):
        return {"type": "map", "values": _avro_nullable(kind.item_field, name, namespace, (*path, "value"))}
    if pa.types.is_struct(kind) and kind.num_fields:
        where = f"column {'.'.join(path)!r}"
        if doubled := same_names(field.name for field in kind):
            raise SchemaError(f"{where}: {doubled}; rename one of each")
        if all(_MEMBER.fullmatch(field.name) for field in kind):
            raise SchemaError(
                f"{where}: Hudi's readers in Spark take a struct of the fields member0, member1, ... for a union, and "
                "fail; take it apart in transform.sql, for example coalesce(u.member0, string(u.member1))"
            )
        fields = [_avro_field(field, f"{namespace}.{name}", path) for field in kind]
        return {"type": "record", "name": name, "namespace": namespace, "fields": fields}
    raise SchemaError(f"column {'.'.join(path)!r}: type {kind} cannot be stored; {_remedy(kind)}")


def _avro_nullable(field: pa.Field, name: str, namespace: str, path: tuple[str, ...]) -> Any:
    avro = _avro_type(field.type, name, namespace, path)
    return ["null", avro] if field.nullable else avro


def _remedy(kind: pa.DataType) -> str:
    text = str(kind)
    return next((remedy for start, remedy in _REMEDIES if text.startswith(start)), "cast it to a supported type")


def decimal_bytes(precision: int) -> int:
    """Spark's byte size of a fixed decimal: the fewest bytes whose signed range holds ``precision`` digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 1 + 7) // 8


_FROM_AVRO: Final[dict[str, pa.DataType]] = {
    **SIMPLE,
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


def avro_to_arrow(schema: AvroSchema) -> pa.Schema:
    """The Arrow schema of rows read with this Avro record schema, meta columns included if it has them.

    Raises `SchemaError` for a union of more than null and one type, and for named types used before their definition.
    """
    return pa.schema(list(_arrow_struct(schema, ())))


def _arrow_struct(record: AvroSchema, parents: tuple[str, ...]) -> pa.StructType:
    return pa.struct([_arrow_field(f["name"], f["type"], (*parents, f["name"])) for f in record["fields"]])


def _arrow_field(name: str, avro: Any, path: tuple[str, ...]) -> pa.Field:
    nullable = isinstance(avro, list)
    if nullable:
        others = [branch for branch in avro if branch != "null"]
        if len(others) != 1:
            raise SchemaError(
                f"column {'.'.join(path)!r}: union {avro} has no Arrow type; only a union of null and one type has"
            )
        nullable, avro = len(others) < len(avro), others[0]
    return pa.field(name, _arrow_type(avro, path), nullable)


def _arrow_type(avro: Any, path: tuple[str, ...]) -> pa.DataType:
    if isinstance(avro, str):
        avro = {"type": avro}
    kind, logical = avro["type"], avro.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(avro["precision"], avro.get("scale", 0))
    if kind == "fixed":
        return pa.binary(avro["size"])
    if kind == "array":
        return pa.list_(_arrow_field("element", avro["items"], (*path, "element")))
    if kind == "map":
        return pa.map_(pa.string(), _arrow_field("value", avro["values"], (*path, "value")))
    if kind == "record":
        return _arrow_struct(avro, path)
    found = _FROM_AVRO.get(logical) if logical else None
    found = found or _FROM_AVRO.get(kind)
    if found is None:
        raise SchemaError(f"column {'.'.join(path)!r}: Avro type {kind!r} has no Arrow type here")
    return found
