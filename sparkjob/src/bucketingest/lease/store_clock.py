"""Whether this machine's clock is right, by the storage's: times of instants come from it, and stay in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.errors import ClockError
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now

DIFFERENCE_MAX: Final = timedelta(minutes=5)
"""Between this machine's clock and the storage's. Also the storage's may be wrong by a little."""

_SHOWN: Final = "%Y-%m-%d %H:%M:%S"


@dataclass(frozen=True, slots=True)
class _Seen:
    modified: datetime
    earliest: float
    latest: float
    """The storage's clock showed `modified` between these moments of the forward clock."""


class StoreClock:
    """Compares this machine's wall clock with the storage's date of an object that was just written. A clock that is
    set afterwards is noticed too, by the clock that cannot be set.
    """

    def __init__(
        self,
        url: str,
        wall: Callable[[], datetime] = utc_now,
        forward: Callable[[], float] = forward_seconds,
    ) -> None:
        self._url = url
        self._wall = wall
        self._forward = forward
        self._seen: _Seen | None = None

    def written(self, modified: datetime, since: float) -> None:
        """An object was written after the moment `since` of the forward clock, and the storage says when."""
        self._seen = _Seen(modified, since, self._forward())

    def check(self) -> None:
        """Raise ClockError if the clocks differ by more than `DIFFERENCE_MAX`. No I/O. Nothing was seen yet: they do
        not.
        """
        seen = self._seen
        if seen is None:
            return
        wall, forward = self._wall(), self._forward()
        least = seen.modified + timedelta(seconds=forward - seen.latest)
        most = seen.modified + timedelta(seconds=forward - seen.earliest)
        if least - DIFFERENCE_MAX <= wall <= most + DIFFERENCE_MAX:
            return
        ahead = wall > most
        difference = wall - most if ahead else least - wall
        raise ClockError(
            f"{self._url}: this machine's clock shows {wall:{_SHOWN}} UTC, the storage's {most:{_SHOWN}} UTC: "
            f"{difference} {'ahead' if ahead else 'behind'}, more than the allowed {DIFFERENCE_MAX}. Nothing is "
            "written by a wrong clock, as its times would stay in the table: set the clock that is wrong, start again"
        )
