"""What was decoded of messages, in the types of the columns."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from bucketingest.avro.conversion import converted, exact
from bucketingest.decode.rows import Decoded


def as_columns(decoded: Decoded, columns: pa.Schema, count: int) -> Decoded:
    """What was decoded of so many messages, with these columns: null where it has none. Messages with a value that
    does not fit are refused.
    """
    try:
        return replace(decoded, rows=_rows(decoded.rows, columns))
    except pa.ArrowInvalid:
        why = {
            at: text for at in range(decoded.rows.num_rows) if (text := _why_not(decoded.rows[at : at + 1], columns))
        }
        kept = decoded.without(why, count)
        return replace(kept, rows=_rows(kept.rows, columns))


def _why_not(row: pa.RecordBatch, columns: pa.Schema) -> str | None:
    for name, array in zip(row.schema.names, row.columns, strict=True):
        try:
            converted(array, columns.field(name).type, exact)
        except pa.ArrowInvalid as error:
            return f"field {name}: {error}"
    return None


def _rows(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    known = dict(zip(rows.schema.names, rows.columns, strict=True))
    made = [
        converted(known[each.name], each.type, exact) if each.name in known else pa.nulls(rows.num_rows, each.type)
        for each in columns
    ]
    return pa.RecordBatch.from_arrays(made, schema=columns)
