from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.text import column_text


@given(st.lists(st.integers(-(10**27), 10**27), max_size=10), st.integers(0, 12))
def test_a_decimal_keeps_its_scale(unscaled: list[int], places: int) -> None:
    scaled = [Decimal(value).scaleb(-places) for value in unscaled]
    expected = [str(value) for value in scaled]  # laid out as BigDecimal.toString is
    assert column_text(pa.array(scaled, pa.decimal128(38, places))).to_pylist() == expected


def test_a_year_beyond_9999_has_javas_plus_sign() -> None:
    days = pa.array(np.array([2932896, 2932897], np.int32)).view(pa.date32())
    assert column_text(days).to_pylist() == ["9999-12-31", "+10000-01-01"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_timestamp_is_its_microseconds_in_every_unit(unit: str, zone: str | None) -> None:
    one_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    column = pa.array([one_second, -one_second, None], pa.timestamp(unit, zone))
    assert column_text(column).to_pylist() == ["1000000", "-1000000", None]


def test_dictionaries_and_large_strings_have_the_text_of_their_values() -> None:
    for column in (pa.array(["a", None, "b"]).dictionary_encode(), pa.array(["a", None, "b"], pa.large_string())):
        text = column_text(column)
        assert text.type == pa.string()
        assert text.to_pylist() == ["a", None, "b"]
