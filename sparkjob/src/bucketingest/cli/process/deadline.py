"""The time limit of a stop: the process ends by itself before Kubernetes kills it without a message."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta


class StopDeadline:
    """Runs `give_up` in a thread of its own when the time is up, whatever the main thread waits for."""

    def __init__(self, grace: timedelta, give_up: Callable[[], None]) -> None:
        """`give_up` must end the process."""
        self._timer = threading.Timer(grace.total_seconds(), give_up)
        self._timer.name = "stop-deadline"
        self._timer.daemon = True
        self._running = False

    def start(self) -> None:
        """Start the time. Safe in a signal handler."""
        if not self._running:
            self._running = True
            self._timer.start()

    def cancel(self) -> None:
        """The process ends in time."""
        self._timer.cancel()
