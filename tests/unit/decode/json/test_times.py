"""Dates, times and numbers as text where Spark's and Java's rules are their own."""

from __future__ import annotations

import datetime as dt

import pytest

from bucketingest.decode.json.calendar import days_of, from_julian_days
from bucketingest.decode.json.java_text import double_text
from bucketingest.decode.json.times import parse_date, parse_timestamp

MIDNIGHT = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-01T00:00:00Z", MIDNIGHT),
        (" 2026-1-1 0:0:0 ", MIDNIGHT),
        ("2026", MIDNIGHT),
        ("2026-01-01T00:00:00.1234567+01:00", MIDNIGHT - HOUR + 123456),
        ("2026-01-01T00:00:00+1:00", MIDNIGHT - HOUR),
        ("2026-01-01 00:00:00 Europe/Berlin", MIDNIGHT - HOUR),
        ("2026-01-01T00:00GMT", MIDNIGHT),
        ("2026-01-01 00:00:00 PST", MIDNIGHT + 8 * HOUR),
        ("2026-01-01T00:00:00+18:01", None),
        ("2026-01-01T00:00Z", None),
        ("2026-01-01T24:00:00", None),
        ("2026-02-29", None),
        ("2026-01-01 00:00:00 Nowhere/Land", None),
        ("294247-01-10T04:00:54.775807Z", 2**63 - 1),
        ("294247-01-10T04:00:54.775808Z", None),
    ],
)
def test_timestamps(text: str, micros: int | None) -> None:
    assert parse_timestamp(text) == micros


def test_in_a_gap_the_offset_before_it_counts_and_of_two_the_earlier_one() -> None:
    gap = parse_timestamp("2026-03-29 02:30:00 Europe/Berlin")
    assert gap == parse_timestamp("2026-03-29T01:30:00Z")
    twice = parse_timestamp("2026-10-25 02:30:00 Europe/Berlin")
    assert twice == parse_timestamp("2026-10-25T00:30:00Z")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-02", 1),
        ("1970-01-02 anything", 1),
        ("GMT1970-01-02", 1),
        ("17", 17),
        ("-00141427", -141427),
        ("-00141428", -141438),
        ("-141427", days_of(-141427, 1, 1)),
        ("yesterday", None),
        ("2147483648", None),
        ("26-01-01", None),
    ],
)
def test_dates(text: str, days: int | None) -> None:
    assert parse_date(text) == days


def test_days_are_those_of_pythons_calendar() -> None:
    for ordinal in range(1, 3_652_060, 997):
        date = dt.date.fromordinal(ordinal)
        assert days_of(date.year, date.month, date.day) == ordinal - 719_163
    assert days_of(2100, 2, 29) is None
    assert from_julian_days(-141_428) == days_of(1582, 10, 4)


@pytest.mark.parametrize(
    "text",
    ["0.0", "-0.0", "1.0", "0.001", "1.0E-4", "1234567.0", "1.0E7", "1.9999999999999998E23", "4.9E-324", "0.1"],
)
def test_numbers_have_the_text_that_java_gives_them(text: str) -> None:
    assert double_text(float(text)) == text
    assert double_text(3.0617315596860195e25) == "3.0617315596860195E25"
