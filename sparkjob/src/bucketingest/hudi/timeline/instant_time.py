"""Instant times: moments as the timeline writes them, and the next one that no writer has used.

Hudi's readers order instants by the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from bucketingest.hudi.errors import InvalidName

TIME_LENGTH = 17
"""Characters of an instant time: yyyyMMddHHmmssSSS."""

_TIME = re.compile(r"\d{17}")
_MILLISECOND = timedelta(milliseconds=1)
CLOCKS_DIFFER = timedelta(hours=1)
"""So much a time of another writer may be wrong, where rows are at stake."""


def format_time(moment: datetime) -> str:
    """An aware datetime as an instant time in UTC, cut (not rounded) to the millisecond."""
    if moment.tzinfo is None:
        raise ValueError("an instant time needs an aware datetime, got a naive one")
    utc = moment.astimezone(UTC)
    return f"{utc:%Y%m%d%H%M%S}{utc.microsecond // 1000:03d}"


def parse_time(text: str) -> datetime:
    """The moment that an instant time of a UTC table denotes, as an aware UTC datetime. Raises `InvalidName`."""
    if _TIME.fullmatch(text) is None:
        raise InvalidName(f"instant time {text!r} is not of the form yyyyMMddHHmmssSSS")
    try:
        moment = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidName(f"instant time {text!r} is not a date and time: {error}") from error
    return moment + int(text[14:]) * _MILLISECOND


def next_instant_time(now: datetime, known_times: Iterable[str]) -> str:
    """A time greater than every known one and not less than now.

    `known_times` are all request and completion times known: active, archived, abandoned. Hudi's readers order by
    them, so a time that does not increase would hide rows. If a writer's clock was ahead once, times go on after its
    own until the clock has passed them: whether this machine's clock is right is checked by the storage's.
    """
    now_text = format_time(now)
    newest = newest_time(known_times)
    if newest is None or newest < now_text:
        return now_text
    return format_time(parse_time(newest) + _MILLISECOND)


def newest_time(times: Iterable[str]) -> str | None:
    """Greatest full instant time; shorter ones (Hudi's bootstrap marks such as 00000000000001) do not count."""
    return max([time for time in times if len(time) == TIME_LENGTH], default=None)
