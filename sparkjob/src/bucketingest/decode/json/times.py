"""Dates and times as JSON texts have them: ISO 8601, of the years 0001 to 9999."""

from __future__ import annotations

import datetime as dt
import re
from decimal import ROUND_FLOOR, Context
from typing import Final

from bucketingest.years import MICROS_MAX, MICROS_MIN

MICROS_OF: Final = {"seconds": 1_000_000, "millis": 1000, "micros": 1, "iso": 0}
"""Microseconds of what a number in a TIMESTAMP column counts; 0: a number is no time."""

_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP: Final = re.compile(
    _DATE.pattern + r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)
_EPOCH: Final = dt.date(1970, 1, 1).toordinal()
_OFFSET_MAX: Final = 18 * 60
_FLOOR: Final = Context(prec=60, rounding=ROUND_FLOOR, traps=[])
"""More digits than a time has, and an exponent of any size: what does not fit is rounded down, as the whole is."""


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01 of yyyy-mm-dd; None if it is none."""
    found = _DATE.fullmatch(text)
    return None if found is None else _days(found)


def parse_timestamp(text: str) -> int | None:
    """Microseconds since 1970-01-01T00:00:00Z of yyyy-mm-dd[Thh:mm[:ss[.f]][Z|+hh[:mm]]], a space for T also; without
    a zone it is UTC, and what is less than a microsecond is cut off. None if it is none.
    """
    found = _TIMESTAMP.fullmatch(text)
    days = None if found is None else _days(found)
    if found is None or days is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.group(4, 5, 6))
    zone = int(found[9] or 0) * 60 + int(found[10] or 0)
    if hour > 23 or minute > 59 or second > 59 or int(found[10] or 0) > 59 or zone > _OFFSET_MAX:
        return None
    minutes = (days * 24 + hour) * 60 + minute - (-zone if found[8] == "-" else zone)
    micros = (minutes * 60 + second) * 1_000_000 + int((found[7] or "")[:6].ljust(6, "0"))
    return micros if MICROS_MIN <= micros <= MICROS_MAX else None


def timestamp_of_number(number: str, unit: int) -> int | None:
    """Microseconds of a number that counts so many each, cut off below one; None if it is in no year of a column."""
    exact = _FLOOR.multiply(_FLOOR.create_decimal(number), unit).to_integral_value(context=_FLOOR)
    return int(exact) if MICROS_MIN <= exact <= MICROS_MAX else None


def _days(found: re.Match[str]) -> int | None:
    try:
        return dt.date(int(found[1]), int(found[2]), int(found[3])).toordinal() - _EPOCH
    except ValueError:
        return None
