"""Days of the proleptic Gregorian calendar, of any year: Python's own dates end with the year 9999."""

from __future__ import annotations

from typing import Final

_CYCLE_DAYS: Final = 146_097
"""Days in 400 years."""
_EPOCH: Final = 719_468
"""Days from 0000-03-01 to 1970-01-01."""
_JULIAN_EPOCH: Final = 719_470
"""The same in the Julian calendar."""
_LENGTHS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_JULIAN_CYCLE_DAYS: Final = 1461


def days_of(year: int, month: int, day: int) -> int | None:
    """Days since 1970-01-01; None if there is no such day."""
    if not 1 <= month <= len(_LENGTHS) or not 1 <= day <= _length(year, month):
        return None
    return _unchecked(year, month, day)


def from_julian_days(days: int) -> int:
    """The day that the Gregorian calendar calls as the Julian one calls this day; a 29 February it lacks is 1 March."""
    cycle, of_cycle = divmod(days + _JULIAN_EPOCH, _JULIAN_CYCLE_DAYS)
    year_of_cycle = min(of_cycle // 365, 3)
    of_year = of_cycle - 365 * year_of_cycle
    march_month = (5 * of_year + 2) // 153
    day = of_year - (153 * march_month + 2) // 5 + 1
    year = 4 * cycle + year_of_cycle + (march_month >= 10)
    return _unchecked(year, march_month + 3 if march_month < 10 else march_month - 9, day)


def _unchecked(year: int, month: int, day: int) -> int:
    if month <= 2:
        year -= 1
    cycle, year_of_cycle = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return cycle * _CYCLE_DAYS + year_of_cycle * 365 + year_of_cycle // 4 - year_of_cycle // 100 + of_year - _EPOCH


def _length(year: int, month: int) -> int:
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if month == 2 and is_leap else _LENGTHS[month - 1]
