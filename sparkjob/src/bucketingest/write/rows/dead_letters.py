"""Rows that cannot be written: kept as dead letters with their reasons, never dropped.

The dead-letter table is a directory of Parquet files of one schema (`dead_letter_files` has their way there).
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
from bucketingest.write.plan import WritePlan

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
"""One rejected row. reason: decode, recordKey, partitionPath or orderingField. value: the message as it was (decode),
else the row as JSON. topic to key: where the message came from, null for rows rejected after decoding or from another
source.
"""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The rejected rows of a chunk."""

    kept: npt.NDArray[np.int64]
    """Indices of the rows that can be written."""
    letters: pa.RecordBatch
    """The others, as `DEAD_LETTER_SCHEMA`."""


def dead_letters(
    rows: pa.RecordBatch, plan: WritePlan, keys: KeyColumns, partitions: PartitionPaths
) -> Rejected | None:
    """The rows of a chunk that have no place in the table; None if all rows have one, which costs nothing per row."""
    reasons = [
        (
            "recordKey",
            f"the record key ({', '.join(plan.rules.record_key.fields)}) is null, empty or not UTF-8",
            keys.missing,
        ),
        ("partitionPath", "the partition path must not become a directory", partitions.refused),
    ]
    if plan.rules.ordering_field:
        ordering = rows.column(plan.rules.ordering_field)
        missing = ordering.is_null() if ordering.null_count else None
        reasons.append(("orderingField", f"the ordering field ({plan.rules.ordering_field}) is null", missing))
    reason = np.full(rows.num_rows, -1, dtype=np.int8)
    for number, (_, _, mask) in enumerate(reasons):
        if mask is not None:
            reason[(reason < 0) & _numpy(mask)] = number
    bad = np.flatnonzero(reason >= 0)
    if not len(bad):
        return None
    found = [reasons[number][:2] for number in reason[bad]]
    if partitions.refused is not None:
        rows_found = zip(bad.tolist(), found, strict=True)
        found = [
            (why, partitions.reason_of_row(at) if why == "partitionPath" else text) for at, (why, text) in rows_found
        ]
    return Rejected(np.flatnonzero(reason < 0), _letters(rows.take(pa.array(bad)), plan.instant_time, found))


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
    """The rows. Spark's strings can hold bytes that are not UTF-8; such a row is rejected, so it must be shown."""
    try:
        return rows.to_pylist()
    except UnicodeDecodeError:
        columns = [_as_text(column) if pa.types.is_string(column.type) else column for column in rows.columns]
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names).to_pylist()


def _as_text(column: pa.Array) -> pa.Array:
    values = column.cast(pa.binary()).to_pylist()
    return pa.array([None if value is None else value.decode("utf-8", "backslashreplace") for value in values])


def _json_value(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _numpy(mask: pa.Array) -> npt.NDArray[np.bool_]:
    return pc.fill_null(mask, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's signature


def dead_letter_file(letters: pa.Table) -> bytes:
    """The rows as one Parquet file."""
    return parquet_bytes(letters).to_pybytes()
