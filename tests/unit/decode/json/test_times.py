"""Dates, times and numbers that are times: what is one, and what only looks like one."""

from __future__ import annotations

import datetime as dt

import pytest

from bucketingest.decode.json.times import MICROS_OF, parse_date, parse_timestamp, timestamp_of_number

MIDNIGHT = int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2026-01-01T00:00:00Z", MIDNIGHT),
        ("2026-01-01 00:00:00", MIDNIGHT),
        ("2026-01-01", MIDNIGHT),
        ("2026-01-01T00:00Z", MIDNIGHT),
        ("2026-01-01T00:00:00.1234567+01:00", MIDNIGHT - HOUR + 123456),
        ("2026-01-01T00:00:00-0130", MIDNIGHT + HOUR * 3 // 2),
        ("2026-01-01T00:00:00+02", MIDNIGHT - 2 * HOUR),
        ("0001-01-01T00:00:00Z", -62135596800_000_000),
        ("9999-12-31T23:59:59.999999Z", 253402300800_000_000 - 1),
        ("0001-01-01T00:00:00+00:01", None),
        ("9999-12-31T23:59:59-00:01", None),
        ("2026-01-01T00:00:00+18:01", None),
        ("2026-01-01T00:00:00+01:60", None),
        ("2026-01-01T24:00:00", None),
        ("2026-01-01T23:59:60Z", None),
        ("2026-02-29", None),
        ("2026-1-1", None),
        ("2026", None),
        ("T12:30", None),
        ("2026-01-01 00:00:00 Europe/Berlin", None),
        ("٢٠٢٦-01-01", None),
        ("1767225600", None),
    ],
)
def test_timestamps(text: str, micros: int | None) -> None:
    assert parse_timestamp(text) == micros


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("1970-01-02", 1),
        ("0001-01-01", -719162),
        ("9999-12-31", 2932896),
        ("0000-12-31", None),
        ("10000-01-01", None),
        ("-0044-03-15", None),
        ("1970-01-02T00:00:00Z", None),
        ("1970-01-02 anything", None),
        ("17", None),
    ],
)
def test_dates(text: str, days: int | None) -> None:
    assert parse_date(text) == days


@pytest.mark.parametrize(
    ("number", "unit", "micros"),
    [
        ("1767225600", "seconds", MIDNIGHT),
        ("1767225600.1234567", "seconds", MIDNIGHT + 123456),
        ("-0.0000001", "seconds", -1),
        ("1767225600000", "millis", MIDNIGHT),
        ("1767225600000000", "micros", MIDNIGHT),
        ("1.7672256e9", "seconds", MIDNIGHT),
        ("253402300799.999999", "seconds", 253402300800_000_000 - 1),
        ("253402300800", "seconds", None),
        ("1767225600000", "seconds", None),
        ("1767225600000000", "millis", None),
        ("1e999999999", "micros", None),
        ("1e-999999999", "micros", 0),
        ("-1e-999999999", "micros", -1),
        ("1e99999999999999999999", "micros", None),
        ("0e99999999999999999999", "micros", 0),
        ("-1e-99999999999999999999", "micros", -1),
        ("1." + "9" * 40, "micros", 1),
        ("1767225600." + "9" * 900, "seconds", MIDNIGHT + 999_999),
    ],
)
def test_a_number_is_what_its_unit_says_or_no_time(number: str, unit: str, micros: int | None) -> None:
    assert timestamp_of_number(number, MICROS_OF[unit]) == micros
