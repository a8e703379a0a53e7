"""What Spark says again and again is said once, then counted: a refused executor is an error each second."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable
from typing import Final

AGAIN_SECONDS: Final = 300.0
"""After so long it is said again, with the number of times."""
_KEPT_MAX: Final = 100
_NUMBERS: Final = re.compile(r"[0-9]+")


class Repeats:
    """Counts lines that differ by their numbers only. Of more than a hundred different ones the oldest are forgotten.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: dict[Hashable, float] = {}
        self._unsaid: dict[Hashable, int] = {}

    def times(self, *words: str) -> int:
        """How often this has been said since it was last passed on, now included; 0: do not pass it on now."""
        key = tuple(_NUMBERS.sub("0", each) for each in words)
        before, now = self._said.get(key), self._clock()
        self._unsaid[key] = self._unsaid.get(key, 0) + 1
        if before is not None and now - before < AGAIN_SECONDS:
            return 0
        self._said.pop(key, None)
        self._said[key] = now
        if len(self._said) > _KEPT_MAX:
            oldest = next(iter(self._said))
            del self._said[oldest]
            self._unsaid.pop(oldest, None)
        return self._unsaid.pop(key)
