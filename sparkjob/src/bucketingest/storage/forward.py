"""The clock for lengths of time: it cannot be set, and a limit on a request must also count a machine's sleep."""

from __future__ import annotations

import time


def forward_seconds() -> float:
    """Seconds by a clock that only runs forward; if the system has such a clock, also while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
