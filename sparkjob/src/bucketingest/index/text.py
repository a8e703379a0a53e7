"""The text that Hudi's key generators make of a column's values: record keys and partition paths are built from it.

Formats seen in record keys written by Hudi 1.2.0's Spark writer: a date as `2024-01-02`, a timestamp as its
microseconds since the epoch, a decimal with its scale, a boolean as `true`, floating point as Java's `toString`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.index.errors import MissingKeyColumn, UnsupportedKeyType

_DAYS_TO_YEAR_10000: Final = 2932897


def check_key_column(schema: pa.Schema, name: str) -> None:
    """Raises MissingKeyColumn or UnsupportedKeyType, naming the column, if a key or partition path cannot use it."""
    found = schema.get_all_field_indices(name)
    if len(found) != 1:
        problem = f"is not among the columns ({', '.join(schema.names)})" if not found else f"occurs {len(found)} times"
        raise MissingKeyColumn(f"key column {name!r} {problem}: name a top-level column that the input has once")
    kind = _value_type(schema.field(found[0]).type)
    if not _has_text(kind):
        raise UnsupportedKeyType(
            f"key column {name!r} has type {kind}, which has no text in a record key or partition path: "
            "use a string, integer, decimal, date, timestamp, boolean or floating point column, "
            "or cast it in spec.transform.sql"
        )


def column_text(values: pa.Array) -> pa.Array:
    """The text of each value: pa.StringArray of the same length, null for null. A string array is returned unchanged,
    not copied.

    Floating point is the shortest text that reads back to the same value, in Java's layout. That is `Double.toString`
    since Java 19; older versions print a few values with more digits (2e23 as `1.9999999999999998E23` in Java 17).
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
    if pa.types.is_floating(kind):
        return _java_float_text(values)
    return pc.cast(values, pa.string())


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _has_text(kind: pa.DataType) -> bool:
    checks = pa.types
    return (
        checks.is_string(kind)
        or checks.is_large_string(kind)
        or checks.is_string_view(kind)
        or checks.is_integer(kind)
        or checks.is_decimal(kind)
        or checks.is_date(kind)
        or checks.is_timestamp(kind)
        or checks.is_boolean(kind)
        or checks.is_float32(kind)
        or checks.is_float64(kind)
    )


def _date_text(days: pa.Array) -> pa.Array:
    text = pc.cast(days, pa.string())
    late = pc.greater_equal(days.view(pa.int32()), _DAYS_TO_YEAR_10000)
    if not pc.any(late).as_py():
        return text
    # Java's LocalDate marks years of more than four digits with a plus sign.
    return pc.if_else(late, pc.binary_join_element_wise("+", text, ""), text)


def _java_float_text(values: pa.Array) -> pa.Array:
    """Java's layout: plain with a decimal point for 1e-3 <= |x| < 1e7 and zero, else one digit, point, digits, E,
    exponent.
    """
    text = pc.cast(values, pa.string())
    size = pc.abs(values)
    zero = pc.equal(values, 0.0)
    plain = pc.or_(zero, pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)))
    whole = pc.and_(plain, pc.equal(values, pc.trunc(values)))
    text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pc.all(plain).as_py() is not False:
        return text
    # The rest is rare in keys: formatted in Python, once per distinct value.
    rest = pc.filter(values, pc.invert(plain)).dictionary_encode()
    laid_out = pa.array([_java_scientific(value) for value in rest.dictionary.to_numpy()], pa.string())
    return pc.replace_with_mask(text, pc.fill_null(pc.invert(plain), False), laid_out.take(rest.indices.drop_null()))  # noqa: FBT003


def _java_scientific(value: np.floating) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="0").split("e")
    if mantissa.endswith(".0"):
        # Java shows at least two digits, and then the nearest two: the smallest double is 4.9E-324, not 5.0E-324.
        mantissa, exponent = f"{float(value):.1e}".split("e")
    return f"{mantissa}E{int(exponent)}"
