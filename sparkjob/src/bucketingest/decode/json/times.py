"""Dates and times as JSON texts have them: ISO 8601, of the years 0001 to 9999."""

from __future__ import annotations

import datetime as dt
import re
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Final

from bucketingest.years import MICROS_MAX, MICROS_MIN

MICROS_OF: Final = {"seconds": 1_000_000, "millis": 1000, "micros": 1, "iso": 0}
"""Microseconds of what a number in a TIMESTAMP column counts; 0: a number is no time."""

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFFSET: Final = r"[+-](?:(?:0[0-9]|1[0-7])(?::?[0-5][0-9])?|18(?::?00)?)"
_TIMESTAMP: Final = re.compile(
    rf"{_DATE.pattern}(?:[T ][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]+)?)?(?:Z|{_OFFSET})?)?"
)
"""Of what Python reads: no weeks, no other separators, no offset beyond 18 hours."""
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_FLOOR: Final = Context(prec=60, rounding=ROUND_FLOOR, traps=[])
"""More digits than a time has, and an exponent of any size: what does not fit is rounded down, as the whole is."""


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01 of yyyy-mm-dd; None if it is no such date."""
    if _DATE.fullmatch(text) is None:
        return None
    try:
        return dt.date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
    except ValueError:
        return None


def parse_timestamp(text: str) -> int | None:
    """Microseconds since 1970-01-01T00:00:00Z of yyyy-mm-dd[Thh:mm[:ss[.f]][Z|+hh[:mm]]], a space for T also; without
    a zone it is UTC, and what is less than a microsecond is cut off. None if it is no such time.
    """
    if _TIMESTAMP.fullmatch(text) is None:
        return None
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    micros = (found.replace(tzinfo=found.tzinfo or dt.UTC) - _EPOCH) // _MICROSECOND
    return micros if MICROS_MIN <= micros <= MICROS_MAX else None


def timestamp_of_number(number: str | int | Decimal, unit: int) -> int | None:
    """Microseconds of a number that counts so many each, cut off below one; None if it is in no year of a column."""
    exact = _FLOOR.multiply(_FLOOR.create_decimal(number), unit).to_integral_value(context=_FLOOR)
    return int(exact) if MICROS_MIN <= exact <= MICROS_MAX else None
