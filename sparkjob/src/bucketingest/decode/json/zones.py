"""Time zones as Java's ZoneId reads their names, and what they say about a local time."""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Zone = int | ZoneInfo
"""Seconds east of UTC, or a region."""

_SECONDS_MAX: Final = 18 * 3600
_OFFSET: Final = re.compile(
    r"([+-])(?:([0-9])|([0-9]{2})(?:([0-9]{2})([0-9]{2})?|:([0-9]{2})(?::([0-9]{2}))?)?)"  # +h +hhmm[ss] +hh:mm[:ss]
)
_ONE_HOUR_DIGIT: Final = re.compile(r"([+-])([0-9]):")
_ONE_MINUTE_DIGIT: Final = re.compile(r"([+-])([0-9]{2}):([0-9])$")
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_NOT_IN_JAVA: Final = frozenset({"Factory", "localtime", "posixrules", "ROC", "EST", "MST", "HST"})
_SHORT: Final = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}


@lru_cache(maxsize=1024)
def zone_of(name: str) -> Zone | None:
    """The zone of this name, with Java's short names and Spark's +h:mm and +hh:m; None if there is none."""
    name = _ONE_HOUR_DIGIT.sub(r"\g<1>0\2:", name, count=1)
    name = _ONE_MINUTE_DIGIT.sub(r"\1\2:0\3", name, count=1)
    name = _SHORT.get(name, name)
    if name == "Z":
        return 0
    if name.startswith(("+", "-")):
        return _offset(name)
    for prefix in ("UTC", "GMT", "UT"):
        if name == prefix:
            return 0
        if name.startswith((prefix + "+", prefix + "-")):
            return _offset(name[len(prefix) :])
        if name.startswith(prefix):
            break
    return _region(name)


def seconds_east(zone: Zone, year: int, month: int, day: int, second_of_day: int) -> int:
    """Offset of a local time: in a gap the one before it, of two the earlier, as Java decides."""
    if isinstance(zone, int):
        return zone
    # Python's years end with 9999; rules repeat every 400 years, and before the year 1 there is one offset.
    year = max(1, year) if year <= 9999 else 9600 + year % 400
    local = dt.datetime(year, month, day if (month, day) != (2, 29) or _is_leap(year) else 28, tzinfo=zone)
    offset = local.replace(
        hour=second_of_day // 3600, minute=second_of_day // 60 % 60, second=second_of_day % 60, fold=0
    ).utcoffset()
    assert offset is not None, "a region has an offset at any time"
    return int(offset.total_seconds())


def today_in(zone: Zone) -> tuple[int, int, int]:
    """Year, month and day in the zone now."""
    now = dt.datetime.now(dt.timezone(dt.timedelta(seconds=zone)) if isinstance(zone, int) else zone)
    return now.year, now.month, now.day


def _offset(text: str) -> int | None:
    found = _OFFSET.fullmatch(text)
    if found is None:
        return None
    sign, hour, hours, minutes, seconds, colon_minutes, colon_seconds = found.groups()
    parts = [int(hour or hours), int(minutes or colon_minutes or 0), int(seconds or colon_seconds or 0)]
    total = parts[0] * 3600 + parts[1] * 60 + parts[2]
    if parts[1] > 59 or parts[2] > 59 or total > _SECONDS_MAX:
        return None
    return -total if sign == "-" else total


def _region(name: str) -> ZoneInfo | None:
    if not _REGION.fullmatch(name) or name in _NOT_IN_JAVA or name.startswith(("posix/", "right/")):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
