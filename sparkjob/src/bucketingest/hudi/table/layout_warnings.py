"""Warnings about a table's layout: what will surprise its readers, found before anything is written.

Warnings, not refusals: Hudi's own writer allows all of it. Each fact was seen with Hudi 1.2.0's Spark bundle or hudi-rs
0.5.0 on tables with such columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal

import pyarrow as pa

from bucketingest.hudi.table.table import TableDefinition

LogBlock = Literal["parquet", "avro"]
"""How rows are encoded in a log file."""
BlockChoice = LogBlock | Literal["by size"]
"""By size: Avro for blocks of few rows, Parquet for the others."""


def best_log_block(definition: TableDefinition, rows: pa.Schema) -> BlockChoice:
    """By size, but Avro where Hudi's Spark reader would merge Parquet blocks wrongly, and else Parquet where hudi-rs
    cannot read Avro blocks.
    """
    if _orders_by_text(definition, rows):
        return "avro"
    return "parquet" if any(_has_time_inside(column.type) for column in rows) else "by size"


def _has_time_inside(kind: pa.DataType) -> bool:
    """Whether there is a timestamp inside a struct, array or map."""
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return any(pa.types.is_timestamp(each) or _has_time_inside(each) for each in inside)


def _orders_by_text(definition: TableDefinition, rows: pa.Schema) -> bool:
    name = definition.ordering_field
    kind = None if name is None else rows.field(name).type
    return kind is not None and (pa.types.is_string(kind) or pa.types.is_large_string(kind))


def layout_warnings(
    definition: TableDefinition, rows: pa.Schema, *, has_deletes: bool, log_block: LogBlock | None = None
) -> Iterator[str]:
    """Warnings about these columns in this table, each with a remedy. `log_block`: if the spec names one."""
    return chain(
        _text_ordering(definition, rows) if log_block == "parquet" else (),
        _times_inside(rows) if (log_block or best_log_block(definition, rows)) == "avro" else (),
        _partition_columns(definition, rows),
        _record_key(definition, rows),
        _ordering_of_deletes(definition, rows) if has_deletes else (),
        _local_timestamps(rows),
    )


def _partition_columns(definition: TableDefinition, rows: pa.Schema) -> Iterator[str]:
    for name in definition.partition_fields:
        if pa.types.is_timestamp(rows.field(name).type):
            yield (
                f"partition column {name}: Hudi's Spark reader shows null for a timestamp in a partition path; "
                f"partition by text, such as date_format({name}, 'yyyy-MM-dd')"
            )


def _record_key(definition: TableDefinition, rows: pa.Schema) -> Iterator[str]:
    for name in definition.record_key:
        kind = rows.field(name).type
        if pa.types.is_floating(kind):
            yield f"record key column {name}: the text of a {kind} depends on the Java version; cast it to DECIMAL"
    last = definition.record_key[-1]
    if last not in definition.effective_hash_fields:
        yield (
            f"record key column {last} is the last one and not hashed: Hudi's writer hangs on a value of it that "
            "holds a colon; hash it too, or name it before a hashed column"
        )


def _text_ordering(definition: TableDefinition, rows: pa.Schema) -> Iterator[str]:
    if _orders_by_text(definition, rows):
        # The reader keeps a reference to the text in a buffer that it fills again (Hudi 1.2.0, seen).
        yield (
            f"ordering column {definition.ordering_field}: Hudi's Spark reader compares text in Parquet log blocks "
            "with that of another row, and shows wrong rows; remove table.logBlock or set it to avro, or order by a "
            "number or TIMESTAMP"
        )


def _times_inside(rows: pa.Schema) -> Iterator[str]:
    for column in rows:
        if _has_time_inside(column.type):
            yield (
                f"column {column.name}: hudi-rs cannot read a TIMESTAMP inside a STRUCT, ARRAY or MAP in Avro log "
                "blocks; remove table.logBlock or set it to parquet, and order by a number or TIMESTAMP"
            )


def _ordering_of_deletes(definition: TableDefinition, rows: pa.Schema) -> Iterator[str]:
    name = definition.ordering_field
    if name is not None and rows.field(name).type in (pa.int32(), pa.date32()):
        yield (
            f"ordering column {name}: a delete with the value 0 (1970-01-01) removes newer rows too; cast the column "
            "to BIGINT or TIMESTAMP if that value can occur"
        )


def _local_timestamps(rows: pa.Schema) -> Iterator[str]:
    for column in rows:
        if pa.types.is_timestamp(column.type) and column.type.tz is None:
            yield (
                f"column {column.name}: hudi-rs cannot read a table with a timestamp without time zone; "
                "cast the column to TIMESTAMP"
            )
