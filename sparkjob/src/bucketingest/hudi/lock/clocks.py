"""The two clocks of leases and locks: one that other machines can compare with their own, one that cannot be set."""

from __future__ import annotations

import time
from datetime import UTC, datetime


def utc_now() -> datetime:
    """The time by the wall clock of this machine."""
    return datetime.now(UTC)


def forward_seconds() -> float:
    """Seconds by a clock that only runs forward; if the system has such a clock, also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
