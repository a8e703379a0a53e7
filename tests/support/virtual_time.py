"""An event loop whose clock jumps to the next thing that is due: minutes of waiting take no time, in a fixed order."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _NoWaiting(selectors.DefaultSelector):
    """Instead of waiting, time passes."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("all wait for each other: nothing is due any more")
        self.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """For tasks that only wait for each other and for the clock: no sockets, no threads."""

    def __init__(self) -> None:
        self._clock = _NoWaiting()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._clock.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, in a `VirtualLoop`."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
