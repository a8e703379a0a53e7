"""One change of storage that takes effect hours after it was sent, when all who could remember it have forgotten it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from support.simulation.world import World

_INSTANTS: Final = 12
"""So many newer instants complete meanwhile, at least."""
_UNIMPORTANT: Final = re.compile(r"\.hoodie/\.heartbeat/.*")


class Outlasting:
    """Which change it is, and when it comes."""

    def __init__(self, world: World, *, after: int, pause: timedelta, stands: bool) -> None:
        """`after`: so many changes of the pipeline come before it. `stands`: its process goes on afterwards; else that
        one is dead, and only the request is on its way.
        """
        self.stands = stands
        self._world = world
        self._left = after
        self._pause = pause

    def hits(self, path: str) -> bool:
        """Whether it is this change."""
        if _UNIMPORTANT.fullmatch(path):
            return False
        self._left -= 1
        return self._left == 0

    def begin(self, what: str) -> Callable[[], bool]:
        """From now on time passes. Returns whether enough has."""
        world = self._world
        world.note("network", "outlasts all", what)
        instants, leapt = world.counts["completes"] + _INSTANTS, world.leapt + self._pause
        return lambda: world.counts["completes"] >= instants and world.leapt >= leapt
