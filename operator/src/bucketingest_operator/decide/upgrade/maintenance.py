"""Restarts that nobody asked for wait for a maintenance window: those for another default image. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import Final

from bucketingest.spec.fields.runtime import MaintenanceWindow
from bucketingest_operator.decide.pass_state import Pass
from bucketingest_operator.decide.spec_changes import digest, with_image, zone_of
from bucketingest_operator.decide.status import READY, RECONCILING

WINDOW_WAITING: Final = "WindowWaiting"
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK: Final = 7


def window_to_wait_for(work: Pass) -> datetime | None:
    """When the window opens for which the changed spec waits; None if it does not wait.

    Only a driver that works runs on: a repair does not wait. And only where the default image is all that has changed,
    which the last spec that committed shows: an edit of a person does not wait either.
    """
    wanted, good, ready = work.wanted, work.last_good, work.draft.condition(READY)
    if wanted is None or good is None or ready is None or ready.status != "True":
        return None
    if not work.resource.has_default_image or digest(with_image(good, wanted.spec.spark.image)) != digest(wanted):
        return None
    return next_opening(wanted.spec.restart.maintenance_windows, work.now)


def report_window(work: Pass, opens: datetime) -> None:
    """Say what waits, after the driver's health was reported. Nothing is under way: what waits for the resource to
    come to rest need not wait for days.
    """
    message = f"There is another default image. The restart waits for the window until {opens:%Y-%m-%dT%H:%M:%SZ}."
    work.draft.set(RECONCILING, "False", WINDOW_WAITING, message)
    work.look(opens - work.now)


def next_opening(windows: Sequence[MaintenanceWindow], now: datetime) -> datetime | None:
    """When the next of these windows opens, in the time zone of `now`; None if one is open, or there are none."""
    found = [each for window in windows for each in openings(window, now)]
    if any(start <= now < end for start, end in found):
        return None
    return min((start for start, _ in found if start > now), default=None)


def openings(window: MaintenanceWindow, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Start and end of the window on the day before `now`, which may last until now, and on the days of a week."""
    zone = zone_of(window)
    if zone is None:
        return
    today = now.astimezone(zone).date()
    for number in range(-1, _WEEK + 1):
        day = today + timedelta(days=number)
        if not window.days or _DAYS[day.weekday()] in window.days:
            # Clocks that go forward may skip it: then it opens so much later.
            start = datetime.combine(day, time.fromisoformat(window.start), zone).astimezone(now.tzinfo)
            yield start, start + window.duration
