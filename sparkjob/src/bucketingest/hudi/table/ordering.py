"""Java's order of ordering values, in Arrow's terms: which row of a key wins depends on it, for writers and readers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def comparable(ordering: pa.Array) -> pa.Array:
    """The values in a form that Arrow's comparisons order as Java does: of equal types, of any two arrays of a column.

    Integers, dates, timestamps and booleans become int64. So do floats: -0.0 is less than 0.0, every NaN is the same
    and greater than everything else. Strings, binaries and decimals stay. Nulls stay null.
    """
    kind = ordering.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return ordering.cast(pa.int64())
    if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
        return ordering.cast(pa.int64())
    if pa.types.is_date32(kind):
        return ordering.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_floating(kind):
        values = ordering.cast(pa.float64())
        numbers = values.fill_null(0.0).to_numpy(zero_copy_only=False)
        missing = ordering.is_null().to_numpy(zero_copy_only=False) if ordering.null_count else None
        return pa.array(_float_ranks(numbers), mask=missing)
    return ordering


def ranks(ordering: pa.Array) -> npt.NDArray[Any]:
    """Integers in the order of the values, for this array only; equal values get equal integers. No nulls."""
    values = comparable(ordering)
    if pa.types.is_int64(values.type):
        return _numpy(values)
    return _numpy(pc.rank(values, sort_keys="ascending", tiebreaker="dense"))


def _float_ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


def _numpy(array: pa.Array) -> npt.NDArray[Any]:
    return array.to_numpy(zero_copy_only=False)
