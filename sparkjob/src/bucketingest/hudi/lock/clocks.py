"""The two clocks of leases and locks: one that other machines can compare with their own, one that cannot be set."""

from __future__ import annotations

from datetime import UTC, datetime

from bucketingest.storage.forward import forward_seconds

__all__ = ["forward_seconds", "utc_now"]


def utc_now() -> datetime:
    """The time by the wall clock of this machine."""
    return datetime.now(UTC)  # noqa: TID251 - the one place that reads the clock
