"""The end of patience: a process that was told to stop ends by itself before somebody kills it without a word."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta


class StopDeadline:
    """Runs `give_up` in a thread of its own when the time is over, whatever the main thread waits for."""

    def __init__(self, grace: timedelta, give_up: Callable[[], None]) -> None:
        """`give_up` must end the process."""
        self._timer = threading.Timer(grace.total_seconds(), give_up)
        self._timer.name = "stop-deadline"
        self._timer.daemon = True
        self._running = False

    def start(self) -> None:
        """The time runs from now. Safe in a signal handler."""
        if not self._running:
            self._running = True
            self._timer.start()

    def cancel(self) -> None:
        """All is done."""
        self._timer.cancel()
