from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.index.text import column_text


# Printed by Java 17's Double.toString, but for 2e23 where Java 19 and later print the shortest text.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1e7, "1.0E7"), (9999999.5, "9999999.5"), (1e-3, "0.001"), (9.999e-4, "9.999E-4"),
        (1e10, "1.0E10"), (1e-5, "1.0E-5"), (-2.5e-7, "-2.5E-7"), (123456789.125, "1.23456789125E8"), (2e23, "2.0E23"),
        (4.9e-324, "4.9E-324"), (2.0e-322, "2.0E-322"), (1.7976931348623157e308, "1.7976931348623157E308"),
        (1234567.0, "1234567.0"), (float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity"),
    ],
)  # fmt: skip
def test_a_double_has_javas_text(value: float, text: str) -> None:
    assert column_text(pa.array([value, None, 1.5])).to_pylist() == [text, None, "1.5"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e7, "1.0E7"), (1e-3, "0.001"), (9.999e-4, "9.999E-4"), (1e10, "1.0E10"), (1.1e-5, "1.1E-5"),
        (16777216.0, "1.6777216E7"),
        (3.4e38, "3.4E38"), (1.4e-45, "1.4E-45"), (0.3, "0.3"), (2.25, "2.25"), (33554432.0, "3.3554432E7"),
    ],
)  # fmt: skip
def test_a_float_has_javas_text(value: float, text: str) -> None:
    assert column_text(pa.array([value, None], pa.float32())).to_pylist() == [text, None]


@given(st.lists(st.none() | st.floats(), max_size=20))
def test_a_doubles_text_reads_back_to_the_double(values: list[float | None]) -> None:
    texts = column_text(pa.array(values, pa.float64())).to_pylist()
    read = [None if text is None else float(text) for text in texts]
    assert [None if v is None else str(v) for v in values] == [None if r is None else str(r) for r in read]


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
