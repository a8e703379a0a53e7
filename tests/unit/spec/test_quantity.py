from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketingest.spec.quantity import (
    format_cores,
    format_duration,
    format_quantity,
    parse_cores,
    parse_duration,
    parse_quantity,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("0s", 0), ("1h1s", 3601), ("90m", 5400)],
)
def test_a_duration_is_read_as_kubernetes_writes_it(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "30", "s", "-5s", "5s1m", "5s5s", "1.5h", "5 s", "1d", "30s\n", "٣s"])
def test_what_is_not_a_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30s"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_duration_that_was_written_reads_back_the_same(milliseconds: int) -> None:
    duration = timedelta(milliseconds=milliseconds)
    assert parse_duration(format_duration(duration)) == duration


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [("0", 0), ("1024", 1024), ("256Mi", 268435456), ("2Gi", 2147483648), ("1.5G", 1500000000), ("1k", 1000)],
)
def test_a_quantity_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert parse_quantity(text) == size_bytes


@pytest.mark.parametrize("text", ["", "Gi", "2gi", "-1Gi", "2 Gi", "1e3", "2GB", "2Gi\n"])
def test_what_is_not_a_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity such as 256Mi"):
        parse_quantity(text)


@given(st.integers(min_value=0, max_value=2**60 - 1).filter(lambda size: len(format_quantity(size)) <= 14))
def test_a_quantity_that_was_written_reads_back_the_same(size_bytes: int) -> None:
    text = format_quantity(size_bytes)
    if len(text.rstrip("KMGTPi")) <= 12:
        assert parse_quantity(text) == size_bytes


@pytest.mark.parametrize(("text", "millicores"), [("1", 1000), ("500m", 500), ("0.5", 500), ("2.25", 2250)])
def test_cores_are_read_in_thousandths(text: str, millicores: int) -> None:
    assert parse_cores(text) == millicores


@pytest.mark.parametrize("text", ["0", "0m", "", "m", "1.5m", "-1", "1c", "0.0"])
def test_what_is_not_a_number_of_cores_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of CPU cores"):
        parse_cores(text)


@given(st.integers(min_value=1, max_value=256_000))
def test_cores_that_were_written_read_back_the_same(millicores: int) -> None:
    text = format_cores(millicores)
    assert parse_cores(text) == millicores
