"""The table's columns and partitions in Iceberg's terms: an Avro schema, and a partition's path. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, Final

import pyarrow as pa

from bucketingest.catalog.errors import CatalogRefused
from bucketingest.catalog.table_state import TableState
from bucketingest.hudi.table.schema import AvroSchema, avro_to_arrow, with_meta_columns
from bucketingest.index.partition_path import DEFAULT_PARTITION

_EPOCH: Final = date(1970, 1, 1).toordinal()
_FROM_TEXT: Final[Mapping[pa.DataType, Callable[[str], Any]]] = {
    pa.string(): str,
    pa.int32(): int,
    pa.int64(): int,
    pa.bool_(): {"true": True, "false": False}.__getitem__,
    pa.date32(): lambda text: date.fromisoformat(text).toordinal() - _EPOCH,
}
"""Types whose values a path has as they are: the value as Iceberg stores it."""


def wanted_schema(schema: AvroSchema) -> pa.Schema:
    """The columns, Hudi's meta columns in front. All may be null: Iceberg adds no others to a table that is there."""
    return pa.schema([_field(field) for field in avro_to_arrow(with_meta_columns(schema))])


def _field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _type(field.type), nullable=True)


def _type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)  # Iceberg has no milliseconds; readers convert those of a file
    if pa.types.is_time(kind):
        return pa.time64("us")
    if pa.types.is_list(kind):
        return pa.list_(_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, _field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_field(field) for field in kind])
    return kind


def identity_columns(state: TableState, schema: pa.Schema) -> tuple[str, ...]:
    """Partition columns that are partition fields of the Iceberg table: engines take their values from there, not from
    the rows, so only those whose values the paths have as they are. Raises CatalogRefused.
    """
    for name in state.facts.partition_fields:
        if name not in schema.names:
            raise CatalogRefused(
                f"partition column {name} is in paths only and not in the files: an Iceberg table cannot have it; "
                "write the table with hoodie.datasource.write.drop.partition.columns=false"
            )
    if not state.values_in_paths:
        return ()
    return tuple(name for name in state.facts.partition_fields if schema.field(name).type in _FROM_TEXT)


def partition_record(state: TableState, schema: pa.Schema, path: str) -> tuple[Any, ...]:
    """Values of `identity_columns` in a partition, as Iceberg stores them. Raises CatalogRefused."""
    wanted = identity_columns(state, schema)
    if not wanted:
        return ()
    texts = dict(zip(state.facts.partition_fields, state.values(path), strict=True))
    return tuple(_value(texts[name], schema.field(name).type, path) for name in wanted)


def _value(text: str, kind: pa.DataType, path: str) -> Any:
    if text == DEFAULT_PARTITION:
        return None
    try:
        return _FROM_TEXT[kind](text)
    except (ValueError, KeyError) as error:
        raise CatalogRefused(
            f"partition {path}: {text!r} is no {kind}, which its column is: no Iceberg table has it"
        ) from error
