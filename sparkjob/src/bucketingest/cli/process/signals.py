"""Ctrl-C and SIGTERM: the first lets the micro-batch finish, within a time limit; the second kills everything."""

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
    """A stop signal came before there was a query to finish. Not an Exception: no handler may swallow it."""


class StopSignals:
    """Counts stop signals. The first only sets a field, which the loop that waits reads; before there is such a loop it
    raises StoppedEarly instead.

    It is raised wherever the main thread is, and what runs there may make another error of it: Python 3.11 makes a
    RuntimeError of it where a class is made, as in each import. So what leaves `installed` tells nothing: whether a
    signal came does.
    """

    def __init__(
        self, end_immediately: Callable[[signal.Signals], None], on_first: Callable[[], None] = lambda: None
    ) -> None:
        """Both run in the signal handler: `on_first` for the first signal, `end_immediately` for the second, before the
        process exits.
        """
        self._end_immediately = end_immediately
        self._on_first = on_first
        self.first: signal.Signals | None = None
        self.watched = False
        """Whether a loop reads `first`."""

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals here until the context ends. Main thread only. Raises StoppedEarly for every error after
        a signal that nothing watched for.
        """
        before = {number: signal.getsignal(number) for number in _HANDLED}
        try:
            self.install()
            yield
        except Exception as error:
            if self.interrupted:
                raise StoppedEarly from error
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def interrupted(self) -> bool:
        """Whether a signal came that no loop reads: StoppedEarly was raised, and may have become another error."""
        return self.first is not None and not self.watched

    def install(self) -> None:
        """Take the signals, again if need be: a new SparkContext takes SIGINT for itself."""
        for number in _HANDLED:
            signal.signal(number, self._handle)

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Let the block finish before a first signal raises StoppedEarly: what it starts could not be ended if it were
        interrupted.
        """
        self.watched = True
        yield
        self.watched = False
        if self.first is not None:
            raise StoppedEarly

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.first is not None:
            self._end_immediately(signal.Signals(number))
            os.write(2, b"\nkilled; the next start finishes or rolls back what was started\n")
            os._exit(_EXIT_BASE + number)
        self.first = signal.Signals(number)
        self._on_first()
        if not self.watched:
            raise StoppedEarly
