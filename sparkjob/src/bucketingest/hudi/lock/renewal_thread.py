"""Repeats a renewal on a thread until it is stopped: for leases and locks that would expire otherwise."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from bucketingest.storage import StorageError

log = logging.getLogger(__name__)

_TRIES_PER_INTERVAL = 4
"""A failed renewal is retried after this part of the interval."""


class RenewalThread:
    """A daemon thread that calls `renew` after each interval; it ends when `renew` returns False, or at `stop`.

    `renew` may raise StorageError, which is logged, and the renewal is retried soon.
    """

    def __init__(self, name: str, interval: timedelta, renew: Callable[[], bool]) -> None:
        self._interval = interval
        self._renew = renew
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)  # noqa: TID251 - renews while the work runs
        self._thread.start()

    def stop(self, timeout: timedelta) -> bool:
        """End the thread; returns whether it has ended in time. A running storage call is not interrupted."""
        self._ended.set()
        self._thread.join(timeout.total_seconds())
        return not self._thread.is_alive()

    def _run(self) -> None:
        pause = self._interval
        while not self._ended.wait(pause.total_seconds()):
            pause = self._interval
            try:
                if not self._renew():
                    return
            except StorageError as error:
                log.warning("renewal failed", extra={"what": self._thread.name, "reason": str(error)})
                pause = self._interval / _TRIES_PER_INTERVAL
