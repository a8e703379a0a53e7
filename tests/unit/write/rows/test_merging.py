"""Which row of a key survives a flush, against the rule written down in plain Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.write.rows.merging import surviving_rows
from support.tables.arrow_values import values

KEYS = st.sampled_from(["a", "b", "", "ä", "k1"])
ORDERING_TYPES = [
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.date32(),
    pa.timestamp("us", tz="Europe/Berlin"),
    pa.decimal128(12, 3),
    pa.decimal128(38, 0),
]
ODD_DOUBLES = [math.nan, -math.nan, 0.0, -0.0, math.inf, -math.inf, 5e-324, -5e-324, 1.5, -1.5]


def expected(keys: list[str], ordering: list[Any], order_of: Callable[[Any], Any] = lambda value: value) -> list[int]:
    """The greatest ordering value of each key, of equals the later row."""
    best: dict[str, int] = {}
    for number, key in enumerate(keys):
        if key not in best or order_of(ordering[number]) >= order_of(ordering[best[key]]):
            best[key] = number
    return sorted(best.values())


def survivors(keys: list[str], ordering: pa.Array | None) -> list[int]:
    found = surviving_rows(pa.array(keys, pa.string()), ordering)
    return list(range(len(keys))) if found is None else found.tolist()


def java_order(value: float) -> tuple[bool, float, float]:
    """Double.compareTo: NaN is the greatest and equal to itself, -0.0 is less than 0.0."""
    return (True, 0.0, 0.0) if math.isnan(value) else (False, value, math.copysign(1.0, value))


@pytest.mark.parametrize("kind", ORDERING_TYPES, ids=str)
@given(data=st.data())
def test_the_greatest_ordering_value_survives_and_of_equals_the_later_row(
    kind: pa.DataType, data: st.DataObject
) -> None:
    few = data.draw(st.lists(values(pa.field("o", kind, nullable=False)), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.tuples(KEYS, st.sampled_from(few)), min_size=1, max_size=12))
    keys, ordering = [key for key, _ in rows], [value for _, value in rows]
    assert survivors(keys, pa.array(ordering, kind)) == expected(keys, ordering)


@given(st.lists(st.tuples(KEYS, st.sampled_from(ODD_DOUBLES) | st.floats(width=32)), min_size=1, max_size=12))
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
def test_floating_ordering_values_are_compared_as_java_does(kind: pa.DataType, rows: list[tuple[str, float]]) -> None:
    keys = [key for key, _ in rows]
    stored = pa.array([value for _, value in rows], kind)
    assert survivors(keys, stored) == expected(keys, stored.to_pylist(), java_order)


def test_every_nan_is_the_same_value_whatever_its_bits() -> None:
    quiet, negative = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (2**63 - 1, 0xFFF8 << 48))
    ordering = pa.Array.from_buffers(pa.float64(), 3, [None, pa.py_buffer(struct.pack("<3d", quiet, negative, 1e308))])
    assert survivors(["k", "k", "k"], ordering) == [1]


def test_the_text_of_a_string_is_compared_not_its_first_appearance() -> None:
    assert survivors(["k", "k", "k"], pa.array(["10", "9", "1"])) == [1]


@given(st.lists(KEYS, min_size=1, max_size=12))
def test_without_an_ordering_field_the_later_row_survives(keys: list[str]) -> None:
    assert survivors(keys, None) == expected(keys, [0] * len(keys))


def test_distinct_keys_all_survive_and_nothing_is_copied() -> None:
    assert surviving_rows(pa.array(["a", "b", "c"]), pa.array([3, 2, 1])) is None


def test_a_part_of_a_larger_column_is_judged_by_its_own_rows() -> None:
    keys, ordering = pa.array(["a", "a", "b", "a"]).slice(1), pa.array([9, 1, 5, 2]).slice(1)
    found = surviving_rows(keys, ordering)
    assert found is not None
    assert found.tolist() == [1, 2]
