"""How the rows of one key become one row: what a table's properties say, and which tables are not compacted here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.merge.unavailable import FILL_PROPERTIES, fillable, fills_unavailable
from bucketingest.hudi.table.table import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING, HoodieTable

IS_DELETED: Final = "_hoodie_is_deleted"
OPERATION: Final = "_hoodie_operation"
DELETING_OPERATIONS: Final = ("D", "-U")
"""Values of `_hoodie_operation` that delete the key (Hudi 1.2.0: HoodieOperation)."""
_DELETE_FIELD: Final = "hoodie.payload.delete.field"
_DELETE_MARKER: Final = "hoodie.payload.delete.marker"
_PROPERTY_OF_MERGE: Final = "hoodie.record.merge.property."
"""Hudi's upgrade to table version 9 stores properties of a payload with this prefix. Of the same table Hudi 1.2.0 on
Spark showed rows with such a delete marker, hudi-rs 0.5.0 did not (tried with log files, with and without a base file).
"""


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How a slice of a table is merged."""

    schema: pa.Schema
    """Columns of the base file, meta columns first: those of the table's newest commit."""
    ordering_field: str | None
    """The row with the greatest value wins, of equal ones the latest. None: the latest row wins."""
    delete_marker: tuple[str, str] | None = None
    """A column and the value with which a row deletes its key."""

    fills: tuple[str, ...] = ()
    """Columns whose placeholders are filled, see `unavailable`."""
    bloom_filter: bool = False
    """Whether base files get the filter that Hudi's BLOOM index needs: a table with a bucket index is never asked."""

    @property
    def delete_columns(self) -> tuple[str, ...]:
        """Columns that say whether a row deletes its key."""
        marker = (self.delete_marker[0],) if self.delete_marker else ()
        return tuple(name for name in (IS_DELETED, OPERATION, *marker) if name in self.schema.names)


def merge_rules(table: HoodieTable, schema: pa.Schema, *, bloom_filter: bool = False) -> MergeRules:
    """The rules of a table whose base files have the columns `schema`. `bloom_filter`: whether they get one.

    Raises `UnsupportedTable` for custom mergers and their properties, partial updates other than those of
    placeholders without an ordering field, and several ordering fields.
    """
    properties, reasons = table.properties, []
    mode = properties.get("hoodie.record.merge.mode", "")
    fields = [name for name in properties.get("hoodie.table.ordering.fields", "").split(",") if name]
    if mode not in (EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING):
        reasons.append(f"hoodie.record.merge.mode is {mode or 'not set'}: compact the table with Hudi")
    fills = fills_unavailable(properties)
    if (partial := properties.get("hoodie.table.partial.update.mode")) and (not fills or fields):
        reasons.append(f"hoodie.table.partial.update.mode is {partial}: compact the table with Hudi")
    reasons += [
        f"{name} is set, which Hudi's readers understand differently: compact the table with Hudi"
        for name in sorted(properties)
        if name.startswith(_PROPERTY_OF_MERGE) and not (fills and name in FILL_PROPERTIES)
    ]
    if mode == EVENT_TIME_ORDERING and len(fields) != 1:
        reasons.append(
            f"hoodie.table.ordering.fields names {len(fields)} columns, not one: compact the table with Hudi"
        )
    reasons += [f"ordering column {name!r} is not in the schema" for name in fields if name not in schema.names]
    if reasons:
        raise UnsupportedTable(table.storage.url, reasons)
    ordering_field = fields[0] if mode == EVENT_TIME_ORDERING else None
    return MergeRules(
        schema, ordering_field, _delete_marker(properties), fillable(schema) if fills else (), bloom_filter
    )


def _delete_marker(properties: Mapping[str, str]) -> tuple[str, str] | None:
    field, value = properties.get(_DELETE_FIELD), properties.get(_DELETE_MARKER)
    return (field, value) if field and value else None
