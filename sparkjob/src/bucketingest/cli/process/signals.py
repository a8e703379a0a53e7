"""Ctrl-C and SIGTERM: the first lets the micro-batch finish, within a time; the second ends everything at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_HANDLED: Final = (signal.SIGINT, signal.SIGTERM)
_EXIT_BASE: Final = 128


class StoppedEarly(BaseException):
    """Told to stop before there was a query that could finish anything. Not an Exception: nobody may swallow it."""


class StopSignals:
    """Counts stop signals. The first only sets a field, and who waits looks at it; before there is anybody who waits it
    raises StoppedEarly instead.
    """

    def __init__(
        self, end_at_once: Callable[[signal.Signals], None], on_first: Callable[[], None] = lambda: None
    ) -> None:
        """Both run in the signal handler: `on_first` for the first signal, `end_at_once` for the second, before the
        process exits.
        """
        self._end_at_once = end_at_once
        self._on_first = on_first
        self.first: signal.Signals | None = None
        self.watched = False
        """Whether somebody looks at `first`."""

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

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Let the block come to its end before a first signal raises StoppedEarly: what it starts could not be ended
        if it were left in the middle.
        """
        self.watched = True
        yield
        self.watched = False
        if self.first is not None:
            raise StoppedEarly

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.first is not None:
            self._end_at_once(signal.Signals(number))
            os.write(2, b"\nended at once; the next start finishes or takes back what was begun\n")
            os._exit(_EXIT_BASE + number)
        self.first = signal.Signals(number)
        self._on_first()
        if not self.watched:
            raise StoppedEarly
