"""Changes of storage that take effect long after they were planned: those who could remember it may have forgotten."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from support.simulation.world import World

_KINDS: Final = tuple(
    map(
        re.compile,
        (
            r"(?!\.hoodie/\.heartbeat/).*",
            r".*/instants/\d+/decision",
            r"[^/]+/\.[^/]*\.log\.[^/]*",
            r"\.hoodie/timeline/\d+\.deltacommit\.(?:requested|inflight)",
            r"\.hoodie/timeline/\d+_\d+\.[a-z]+",
            r".*/services/.*|[^/]+/[^/]*\.parquet",
        ),
    )
)
"""Of which kind the change is."""
_ANY: Final = 400
_OF_KIND: Final = 12
"""Of so many first changes of its kind, it is one."""
_STANDS: Final = 0.7


@dataclass(frozen=True, slots=True)
class Late:
    """How much comes between a plan and its effect."""

    instants: int
    """So many of the pipeline complete."""
    pause: timedelta = timedelta(0)
    """So much time passes without a step."""

    def begin(self, world: World, what: str) -> Callable[[], bool]:
        """From now on time passes. Returns whether enough has."""
        world.note("network", "outlasts all", what)
        instants, leapt = world.counts["completes"] + self.instants, world.leapt + self.pause
        return lambda: world.counts["completes"] >= instants and world.leapt >= leapt


class Outlasting:
    """Which change it is, and when it comes."""

    def __init__(self, late: Late, rng: random.Random) -> None:
        self.late = late
        self.stands = rng.random() < _STANDS
        """Its process goes on afterwards; else that one is dead, and only the request is on its way."""
        self._kind = rng.choice(_KINDS)
        self._left = rng.randint(1, _ANY if self._kind is _KINDS[0] else _OF_KIND)

    def hits(self, path: str) -> bool:
        """Whether it is this change."""
        if not self._kind.fullmatch(path):
            return False
        self._left -= 1
        return self._left == 0
