"""Rows that cannot be written: kept as dead letters with their reasons, never dropped.

The dead-letter table is a directory of Parquet files of one schema (`writer` stages and publishes them).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.log.blocks import parquet_bytes
from bucketingest.index.partition_path import PartitionPaths
from bucketingest.index.record_key import KeyColumns
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.years import beyond_years

DEAD_LETTER_SCHEMA: Final = pa.schema(
    [
        ("instant", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""One rejected row. reason: decode, recordKey, partitionPath, orderingField or time. topic to value: the message as it
was; where a row is not made of one message, the others are null and value is the row as JSON.
"""


_INT_BITS: Final = 32
_AS_WITHOUT: Final = (
    "a delete with the ordering value 0 (or 1970-01-01) would also delete newer rows: to Hudi's readers it is one "
    "without a value. Order by a BIGINT or TIMESTAMP column"
)


_AMBIGUOUS: Final = (
    "would be that of another row: a value is __null__ or __empty__, which Hudi writes for null and empty text, or "
    "holds a comma, the name of the next key column and a colon"
)


@dataclass(frozen=True, slots=True)
class Rejected:
    """The rows of a chunk that have no place in the table."""

    kept: npt.NDArray[np.int64]
    """Indices of the others."""
    rows: npt.NDArray[np.int64]
    reasons: list[tuple[str, str]]
    """Of each of `rows`: the reason and its detail."""

    def letters(self, chunk: pa.RecordBatch, instant_time: str) -> pa.RecordBatch:
        """As `DEAD_LETTER_SCHEMA`, with the rows as JSON."""
        return _letters(chunk.take(pa.array(self.rows)), instant_time, self.reasons)


def rejected_of(rows: pa.RecordBatch, plan: WritePlan, keys: KeyColumns, partitions: PartitionPaths) -> Rejected | None:
    """The rows of a chunk that have no place in the table; None if all rows have one, which costs nothing per row."""
    key = f"the record key ({', '.join(plan.rules.record_key.fields)})"
    found = dict.fromkeys(_places(keys.missing), ("recordKey", f"{key} is null, empty or not UTF-8"))
    for at in _places(keys.ambiguous):
        found.setdefault(at, ("recordKey", f"{key} {_AMBIGUOUS}"))
    for at in _places(partitions.refused):
        found.setdefault(at, ("partitionPath", partitions.reason_of_row(at) or "it must not become a directory"))
    if plan.rules.ordering_field:
        ordering = rows.column(plan.rules.ordering_field)
        detail = f"the ordering field ({plan.rules.ordering_field}) is null"
        for at in _places(ordering.is_null() if ordering.null_count else None):
            found.setdefault(at, ("orderingField", detail))
        for at in _places(_as_without_ordering(rows, ordering)):
            found.setdefault(at, ("orderingField", _AS_WITHOUT))
    for at, detail in beyond_years(rows):
        found.setdefault(at, ("time", detail))
    if not found:
        return None
    bad = np.array(sorted(found), np.int64)
    kept = np.ones(rows.num_rows, np.bool_)
    kept[bad] = False
    return Rejected(np.flatnonzero(kept), bad, [found[at] for at in bad.tolist()])


def _as_without_ordering(rows: pa.RecordBatch, ordering: pa.Array) -> pa.Array | None:
    """The deletes that Hudi's readers take for deletes without an ordering value, which delete newer rows, too: those
    of Java's Integer 0, as which Spark also holds a date.
    """
    if DELETE_COLUMN not in rows.schema.names or not pa.types.is_primitive(ordering.type):
        return None
    if pa.types.is_date32(ordering.type):
        ordering = ordering.view(pa.int32())
    if not pa.types.is_integer(ordering.type) or ordering.type.bit_width > _INT_BITS:
        return None
    return pc.and_(pc.equal(ordering, pa.scalar(0, ordering.type)), rows.column(DELETE_COLUMN))


def _letters(rows: pa.RecordBatch, instant_time: str, reasons: list[tuple[str, str]]) -> pa.RecordBatch:
    count = rows.num_rows
    values = [json.dumps(row, default=_json_value, ensure_ascii=False).encode() for row in _python_rows(rows)]
    columns: dict[str, pa.Array] = {
        "instant": pa.array([instant_time] * count, pa.string()),
        "reason": pa.array([reason for reason, _ in reasons], pa.string()),
        "detail": pa.array([detail for _, detail in reasons], pa.string()),
        "value": pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(column.name, pa.nulls(count, column.type)) for column in DEAD_LETTER_SCHEMA],
        schema=DEAD_LETTER_SCHEMA,
    )


def _python_rows(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows. Spark's strings can hold bytes that are not UTF-8, and its times years that Python lacks; such a row is
    rejected, so it must be shown.
    """
    try:
        return rows.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError):
        columns = [_shown(column) for column in rows.columns]
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names).to_pylist()


def _shown(column: pa.Array) -> pa.Array:
    """The column with values that Python has: of text what is UTF-8, of times that are beyond it their numbers."""
    if pa.types.is_string(column.type):
        return _as_text(column)
    if pa.types.is_date32(column.type) or pa.types.is_timestamp(column.type):
        return column.view(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    try:
        column.to_pylist()
    except (UnicodeDecodeError, ValueError, OverflowError):
        return pa.array([str(each) for each in column])
    return column


def _as_text(column: pa.Array) -> pa.Array:
    values = column.cast(pa.binary()).to_pylist()
    return pa.array([None if value is None else value.decode("utf-8", "backslashreplace") for value in values])


def _json_value(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _places(mask: pa.Array | None) -> list[int]:
    if mask is None:
        return []
    return np.flatnonzero(pc.fill_null(mask, False).to_numpy(zero_copy_only=False)).tolist()  # noqa: FBT003 - Arrow's


def dead_letter_file(letters: pa.Table) -> bytes:
    """The rows as one Parquet file."""
    return parquet_bytes(letters).to_pybytes()
