"""Dates and times as Spark's `from_json` reads them out of strings without a pattern; the session's zone is UTC."""

from __future__ import annotations

import re
from typing import Final

from bucketingest.decode.json.calendar import days_of, from_julian_days
from bucketingest.decode.json.zones import seconds_east, today_in, zone_of

_TRIMMED: Final = bytes([*range(33), 127])
_TIME: Final = (
    rb"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    rb"(?:\.(?P<fraction>[0-9]*)(?P<zone>[^0-9].*)?|(?P<zone_>[^0-9.].*))?)?)?"
)
_MOMENT: Final = re.compile(
    rb"(?P<sign>[+-]?)(?P<year>[0-9]{4,6})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T]" + _TIME + rb")?)?)?",
    re.DOTALL,
)
_TIME_ONLY: Final = re.compile(_TIME, re.DOTALL)
_DATE: Final = re.compile(
    rb"(?P<sign>[+-]?)(?P<year>[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL
)
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_INT_LENGTH_MAX: Final = 4000
"""Characters of a number above which it is too large in any case; Python refuses to read more than 4300."""
_DAY_SECONDS: Final = 86_400
_MICROS: Final = 1_000_000
_GREGORIAN_START: Final = -141_427
"""Day of 1582-10-15. Before it, Spark takes numbers of days as the Julian calendar's."""
_LEGACY: Final = "GMT"
"""What Spark removes from a string that it cannot read otherwise."""


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01; None if Spark cannot read it. `text` as Java holds it, surrogates one by one."""
    days = _days(text)
    if days is None and _LEGACY in text:
        days = _days(text.replace(_LEGACY, ""))
    if days is not None:
        return days
    if not _WHOLE_NUMBER.fullmatch(text) or len(text) > _INT_LENGTH_MAX or not -(2**31) <= int(text) < 2**31:
        return None
    days = int(text)
    return from_julian_days(days) if days < _GREGORIAN_START else days


def parse_timestamp(text: str) -> int | None:
    """Microseconds since 1970-01-01T00:00:00Z; None if Spark cannot read it. `text` as for `parse_date`."""
    micros = _micros_of(text)
    if micros is None and _LEGACY in text:
        micros = _micros_of(text.replace(_LEGACY, ""))
    return micros


def _days(text: str) -> int | None:
    found = _DATE.fullmatch(_bytes(text).strip(_TRIMMED))
    if found is None:
        return None
    days = days_of(*_date_of(found))
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _micros_of(text: str) -> int | None:
    untrimmed = _bytes(text)
    trimmed = untrimmed.strip(_TRIMMED)
    found = _MOMENT.fullmatch(trimmed)
    is_time_only = found is None
    if found is None:
        has_mark = untrimmed.startswith(b"T")
        found = _TIME_ONLY.fullmatch(trimmed, 1 if has_mark else 0)
        if found is None or not (has_mark or b":" in trimmed):
            return None
    part = found.groupdict()
    zone_text = part["zone"] or part["zone_"]
    # Java's trim takes all that is not above a space.
    zone = 0 if zone_text is None else zone_of(zone_text.decode("utf-8", "replace").strip(_JAVA_TRIMMED))
    if zone is None:
        return None
    hour, minute, second = (int(part[name] or 0) for name in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    date = today_in(zone) if is_time_only else _date_of(found)
    days = days_of(*date)
    if days is None:
        return None
    second_of_day = hour * 3600 + minute * 60 + second
    seconds = days * _DAY_SECONDS + second_of_day - seconds_east(zone, *date, second_of_day)
    micros = seconds * _MICROS + int((part["fraction"] or b"")[:6].ljust(6, b"0"))
    return micros if -(2**63) <= micros < 2**63 else None


_JAVA_TRIMMED: Final = "".join(map(chr, range(33)))


def _date_of(found: re.Match[bytes]) -> tuple[int, int, int]:
    year = int(found["year"])
    return (-year if found["sign"] == b"-" else year), int(found["month"] or 1), int(found["day"] or 1)


def _bytes(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass").encode("utf-8", "replace")
