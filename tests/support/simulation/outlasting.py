"""Requests that a process is paused before or within for longer than any limit: those who could remember what it looked
at may have forgotten, and the request takes effect on a table of much later.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from support.simulation.spec import REGIONS
from support.simulation.world import Actor, World

_DANGEROUS: Final = tuple(
    map(
        re.compile,
        (
            r".*/instants/\d+/decision",
            r"[^/]+/\.[^/]*\.log\.[^/]*",
            r"\.hoodie/timeline/\d+\.deltacommit\.(?:requested|inflight)",
            r"\.hoodie/timeline/\d+_\d+\.[a-z]+",
            r".*/services/.*|[^/]+/[^/]*\.parquet",
        ),
    )
)
"""Changes that half of the pauses are at, of one of these sorts."""
_OF_SORT: Final = 12
"""Of so many first changes of its sort, it is one."""
_KINDS: Final = 80
"""Of so many kinds of requests that come first, it is one."""
_TIMES: Final = (1, 1, 2)
"""How often a request of its kind came, when it is paused."""
_CHANGES: Final = frozenset({"create", "put", "delete"})
_UNIQUE: Final = re.compile(rf"[0-9a-f]{{8}}-[0-9a-f-]{{27}}|[0-9a-f]{{32,}}|\d[\d_]*|\b(?:{'|'.join(REGIONS)})(?=/|$)")
_READS: Final = {"get": "read", "head": "read", "list level": "list"}
_PAUSES: Final = (1, 2, 4, 4)
"""In a schedule; each of another process."""

Place = Literal["within", "after", "alone"]
"""Where a process is paused: before the effect of its request; after it, and so before its next request; or it is dead,
and the request takes effect without it.
"""


def kind_of(what: str, path: str) -> str:
    """The kind of a request: what it does to which sort of object; numbers and ids do not count."""
    return f"{_READS.get(what, what)} {_UNIQUE.sub('*', path)}"


@dataclass(frozen=True, slots=True)
class Late:
    """How much comes between a plan and its effect."""

    instants: int
    """So many of the pipeline complete."""
    pause: timedelta = timedelta(0)
    """So much time passes without a step."""

    def begin(self, world: World, what: str, *, sent: bool = False) -> Callable[[], bool]:
        """From now on time passes. Returns whether enough has. `sent`: a change is on its way to the storage: other
        instants may come between, but no long time, because its client ends it.
        """
        world.note("network", "outlasts all", what)
        pause = timedelta(0) if sent else self.pause
        instants, leapt = world.counts["completes"] + self.instants, world.leapt + pause
        return lambda: world.counts["completes"] >= instants and world.leapt >= leapt


class Outlasting:
    """Which requests these are, and when they come. It counts the kinds of requests that it saw, and their pauses."""

    def __init__(self, late: Late, rng: random.Random) -> None:
        self.late = late
        self.place: Place = "within"
        self._rng = rng
        self._pauses = rng.choice(_PAUSES)
        self._seen: Counter[str] = Counter()
        self._paused: set[str] = set()
        """Processes that make their first request since a pause next."""
        self.draw()

    def end(self) -> None:
        """No further pause: whoever stood still could not be waited for."""
        self._pauses = 0

    def draw(self) -> None:
        """Choose the next pause."""
        self.next_place: Place = self._rng.choice(("within", "within", "after", "after", "alone"))
        self.sort = self._rng.choice(_DANGEROUS) if self._rng.random() < 0.5 else None
        self.left = self._rng.randint(1, _OF_SORT if self.sort else _KINDS)
        self._times = self._rng.choice(_TIMES)
        self._seen.clear()

    def hits(self, world: World, actor: Actor, what: str, path: str) -> bool:
        """Whether it is one of them; `place` says what happens then."""
        kind = kind_of(what, path)
        if actor.name in self._paused:
            self._paused.remove(actor.name)
            world.counts[f"pauses before: {kind}"] += 1
        self._seen[kind] += 1
        world.counts[f"requests: {kind}"] += 1
        if not self._pauses or actor.atomic:
            return False
        if self.sort is not None:
            self.left -= what in _CHANGES and self.sort.fullmatch(path) is not None
        else:
            self.left -= self._seen[kind] == self._times
        if self.left > 0:
            return False
        self.place = "within" if self.next_place == "alone" and what not in _CHANGES else self.next_place
        if self.place == "after":
            self._paused.add(actor.name)
        else:
            world.counts[f"pauses within: {kind}"] += 1
        self._pauses -= 1
        self.draw()
        return True
