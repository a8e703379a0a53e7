"""The years that a DATE or a TIMESTAMP may have: 0001 to 9999. SQL, Python and every reader of a table agree on them;
beyond, one fails where the next shows another day. A time beyond them is mostly a number whose unit is another.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_DAY_MICROS: Final = 86_400_000_000
DAYS_MIN: Final = dt.date.min.toordinal() - _EPOCH
DAYS_MAX: Final = dt.date.max.toordinal() - _EPOCH
MICROS_MIN: Final = DAYS_MIN * _DAY_MICROS
MICROS_MAX: Final = (DAYS_MAX + 1) * _DAY_MICROS - 1
_UNITS: Final = {"s": 1_000_000, "ms": 1000, "us": 1}

Mask = npt.NDArray[np.bool_]


def beyond_years(rows: pa.RecordBatch) -> list[tuple[int, str]]:
    """The rows that have a date or time beyond the years, in order, and of each the first such field in words.

    Rows that are as they should be cost the least and the largest value of each such column.
    """
    found: dict[int, str] = {}
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if not has_times(field.type):
            continue
        for path, numbers, values, odd in _beyond(field.name, column, None):
            for place in np.flatnonzero(odd).tolist():
                row = int(place if numbers is None else numbers[place])
                found.setdefault(row, f"field {path}: {_shown(values, place)} is beyond the years 0001 to 9999")
    return sorted(found.items())


@lru_cache(4096)
def has_times(kind: pa.DataType) -> bool:
    """Whether there are dates or times in a type."""
    if pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
        return True
    return any(has_times(kind.field(at).type) for at in range(kind.num_fields)) if pa.types.is_nested(kind) else False


def _beyond(
    path: str, column: pa.Array, numbers: npt.NDArray[np.int64] | None
) -> Iterator[tuple[str, npt.NDArray[np.int64] | None, pa.Array, Mask]]:
    """Each column of times in this one: its path, the row of each of its values, the values, and which are beyond."""
    kind = column.type
    if pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            if has_times(kind.field(at).type):
                yield from _beyond(f"{path}.{kind.field(at).name}", pc.struct_field(column, [at]), numbers)
    elif pa.types.is_map(kind) or pa.types.is_list(kind):
        lengths = pc.fill_null(pc.list_value_length(_as_list(column)), 0).to_numpy(zero_copy_only=False)
        owners = np.repeat(np.arange(len(column)) if numbers is None else numbers, lengths)
        yield from _beyond(f"{path}[]", _as_list(column).flatten(), owners)
    elif has_times(kind):
        values = column.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
        low, high = _limits(kind)
        ends = pc.min_max(values)
        if ends["min"].as_py() is not None and (ends["min"].as_py() < low or ends["max"].as_py() > high):
            whole = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
            yield path, numbers, values, (whole < low) | (whole > high)


def _as_list(column: pa.Array) -> pa.ListArray:
    if not pa.types.is_map(column.type):
        return column
    entries = pa.struct([column.type.key_field, column.type.item_field])
    return column.cast(pa.list_(pa.field("entries", entries, nullable=False)))


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_date32(kind):
        return DAYS_MIN, DAYS_MAX
    unit = _UNITS.get(kind.unit)
    if unit is None:  # nanoseconds in 64 bits are all within the years
        return -(2**63), 2**63 - 1
    return MICROS_MIN // unit, MICROS_MAX // unit


def _shown(values: pa.Array, place: int) -> str:
    value: Any = values[place].as_py()
    return f"day {value}" if pa.types.is_int32(values.type) else f"time {value}"
