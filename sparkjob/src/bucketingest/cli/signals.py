"""Ctrl-C and SIGTERM: the first lets the micro-batch finish, the second ends everything at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_HANDLED: Final = (signal.SIGINT, signal.SIGTERM)
_EXIT_BASE: Final = 128


class StopSignals:
    """Counts stop signals. The handler only sets a field; who waits looks at it."""

    def __init__(self, end_at_once: Callable[[], None]) -> None:
        """`end_at_once` runs in the handler of the second signal, before the process exits."""
        self._end_at_once = end_at_once
        self.first: signal.Signals | None = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals here until the context ends. Main thread only."""
        before = {number: signal.getsignal(number) for number in _HANDLED}
        try:
            self.install()
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def install(self) -> None:
        """Take the signals, again if need be: a new SparkContext takes SIGINT for itself."""
        for number in _HANDLED:
            signal.signal(number, self._handle)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.first is None:
            self.first = signal.Signals(number)
            return
        self._end_at_once()
        os.write(2, b"\nended at once; the next start finishes or takes back what was begun\n")
        os._exit(_EXIT_BASE + number)
