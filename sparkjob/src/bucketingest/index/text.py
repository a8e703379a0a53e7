"""The text that Hudi's key generators make of a column's values: record keys and partition paths are built from it.

Formats seen in record keys written by Hudi 1.2.0's Spark writer: a date as `2024-01-02`, a timestamp as its
microseconds since the epoch, a decimal with its scale, a boolean as `true`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.index.errors import MissingKeyColumn, UnsupportedKeyType

_DAYS_TO_YEAR_10000: Final = 2932897


def check_key_column(schema: pa.Schema, name: str) -> pa.DataType:
    """The column's type. Raises MissingKeyColumn or UnsupportedKeyType, naming the column, if a key or a partition path
    cannot use it.
    """
    kind = _type_of(schema, name)
    if pa.types.is_floating(kind):
        raise UnsupportedKeyType(
            f"key column {name!r} has type {kind}: the text of such a number depends on the version of Java, so Hudi's "
            "writers would give a row another key; cast it to DECIMAL or STRING in spec.transform.sql"
        )
    if not has_text(kind):
        raise UnsupportedKeyType(
            f"key column {name!r} has type {kind}, which has no text in a record key or partition path: use a string, "
            "integer, decimal, date, timestamp or boolean column, or cast it in spec.transform.sql"
        )
    return kind


def column_text(values: pa.Array) -> pa.Array:
    """The text of each value: pa.StringArray of the same length, null for null. A string array is returned unchanged,
    not copied.
    """
    kind = values.type
    if pa.types.is_string(kind):
        return values
    if pa.types.is_dictionary(kind):
        return column_text(values.dictionary_decode())
    if pa.types.is_date(kind):
        return _date_text(values.cast(pa.date32()))
    if pa.types.is_timestamp(kind):
        micros = pc.cast(values, pa.timestamp("us", kind.tz), safe=False)
        return micros.view(pa.int64()).cast(pa.string())
    return pc.cast(values, pa.string())


def has_own_text(kind: pa.DataType) -> bool:
    """Whether the values are texts themselves, of any kind."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _type_of(schema: pa.Schema, name: str) -> pa.DataType:
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        problem = f"is not among the columns ({', '.join(schema.names)})" if not found else f"occurs {len(found)} times"
        raise MissingKeyColumn(f"key column {name!r} {problem}: name a top-level column that the input has once")
    kind = schema.field(found[0]).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def has_text(kind: pa.DataType) -> bool:
    """Whether a value has one text, whoever writes it; all these types have an order, too."""
    checks = pa.types
    return (
        has_own_text(kind)
        or checks.is_integer(kind)
        or checks.is_decimal(kind)
        or checks.is_date(kind)
        or checks.is_timestamp(kind)
        or checks.is_boolean(kind)
    )


def _date_text(days: pa.Array) -> pa.Array:
    text = pc.cast(days, pa.string())
    late = pc.greater_equal(days.view(pa.int32()), _DAYS_TO_YEAR_10000)
    if not pc.any(late).as_py():
        return text
    # Java's LocalDate marks years of more than four digits with a plus sign.
    return pc.if_else(late, pc.binary_join_element_wise("+", text, ""), text)
