"""The rules by which a row's columns decide its place in a table: partition, file group, order of rows with one key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast, get_args

import pyarrow as pa

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.table.table import TableDefinition
from bucketingest.index.bucket_hash import BucketHash
from bucketingest.index.errors import InvalidKeyRule
from bucketingest.index.partition_path import PartitionPathRule
from bucketingest.index.record_key import RecordKeyRule
from bucketingest.index.text import has_text


@dataclass(frozen=True, slots=True)
class RowRules:
    """How a row's columns decide its place in the table. Fixed for the life of the table."""

    record_key: RecordKeyRule
    partition_path: PartitionPathRule
    ordering_field: str | None
    hash: BucketHash
    fills_unavailable: bool = False
    """Whether values may be placeholders, see `hudi.merge.unavailable`."""


def row_rules(definition: TableDefinition) -> RowRules:
    """The rules by which a row's columns decide its place."""
    return RowRules(
        record_key=RecordKeyRule.of(
            definition.record_key, definition.partition_fields, definition.effective_hash_fields
        ),
        partition_path=PartitionPathRule(definition.partition_fields, definition.hive_style_partitioning),
        ordering_field=definition.ordering_field,
        hash=_known_hash(definition),
        fills_unavailable=definition.fills_unavailable,
    )


def _known_hash(definition: TableDefinition) -> BucketHash:
    for known in get_args(BucketHash):
        if definition.hash == known:
            return cast(BucketHash, known)
    raise InvalidKeyRule(f"unknown hash {definition.hash!r}: known are {', '.join(get_args(BucketHash))}")


def check_columns(rules: RowRules, incoming: pa.Schema) -> None:
    """Raise UnsupportedTable, with every column that is missing, and what the single rules raise."""
    named = {
        "recordKey": rules.record_key.fields,
        "partitionBy": rules.partition_path.fields,
        "orderingField": () if rules.ordering_field is None else (rules.ordering_field,),
    }
    missing = [
        f"spec.table.{field}: the rows have no column {column!r}; columns are {', '.join(incoming.names)}"
        for field, columns in named.items()
        for column in columns
        if column not in incoming.names
    ]
    if missing:
        raise UnsupportedTable("as specified", missing)
    rules.record_key.check(incoming)
    rules.partition_path.check(incoming)
    if rules.ordering_field is not None:
        kind = incoming.field(rules.ordering_field).type
        if not (has_text(kind) or pa.types.is_floating(kind)):
            reason = (
                f"spec.table.orderingField: column {rules.ordering_field!r} has type {kind}, whose values Hudi's "
                "readers cannot compare, or not alike; take a number, time, date or text; transform.sql can cast"
            )
            raise UnsupportedTable("as specified", [reason])
