"""Changes of storage that take effect long after they were planned: those who could remember it may have forgotten."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from support.simulation.world import World

_UNIMPORTANT: Final = re.compile(r"\.hoodie/\.heartbeat/.*")


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

    def __init__(self, late: Late, *, after: int, stands: bool) -> None:
        """`after`: so many changes of the pipeline come before it. `stands`: its process goes on afterwards; else that
        one is dead, and only the request is on its way.
        """
        self.stands = stands
        self.late = late
        self._left = after

    def hits(self, path: str) -> bool:
        """Whether it is this change."""
        if _UNIMPORTANT.fullmatch(path):
            return False
        self._left -= 1
        return self._left == 0
