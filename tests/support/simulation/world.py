"""Actors that take turns at storage calls, under a simulated clock, all of it decided by one seed.

Each actor is ordinary blocking code on a thread of its own. Only one runs at any moment: an actor hands the baton back
to the world at a storage call, and the world's random numbers choose when it goes to which actor. So equal seeds give
equal schedules, and any two actors can be interleaved between any two storage calls.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

_START: Final = datetime(2026, 11, 21, 8, tzinfo=UTC)
_STEP: Final = timedelta(milliseconds=1)
_LOG_LENGTH: Final = 4000
_STEPS_MAX: Final = 60_000
_DANGER: Final = 0.25


class Killed(BaseException):
    """The process dies. No code under test may catch it."""


@dataclass(frozen=True, slots=True)
class Chances:
    """How likely each fault is, per storage call."""

    crash: float = 0.0
    unavailable: float = 0.0
    late: float = 0.0
    """The request fails or its process dies, and its effect comes later."""
    stall: float = 0.0
    """The actor does not run for a while: the others continue, a new attempt may be started."""
    switch: float = 0.02
    """Another actor gets its turn."""
    stale_list: float = 0.0
    """A listing of data files or markers misses new objects, or shows deleted ones."""
    torn_list: float = 0.0
    """Others run between the pages of a listing."""


@dataclass(eq=False, frozen=True, slots=True)
class _Late:
    """A request on its way."""

    what: str
    effect: Callable[[], None]
    is_due: Callable[[], bool]
    outlasts: bool
    """Time may pass meanwhile."""


@dataclass(eq=False)
class Actor:
    """One thread of control: a driver process, a task on an executor, another writer."""

    name: str
    body: Callable[[Actor], None]
    baton: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False
    doomed: bool = False
    """Killed at its next storage call, and at every one after."""
    dies_in: int | None = None
    """Storage calls that it still makes; None: it dies by chance only."""
    wakes_at: int = 0
    turn_ends: int = 0
    atomic: int = 0
    looked: int = -1
    """Step of its last listing of the timeline."""
    asked: int = -1
    """Step of its last storage call."""
    waits_for: Callable[[], bool] | None = None
    """It stands still until then, however long that lasts."""
    has_sent: bool = False
    """Whether it stands still within a change, which no storage's client lets last for long."""


class World:
    """The clock, the actors, and the faults that are left."""

    def __init__(self, seed: int | str, chances: Chances, faults: int) -> None:
        self.rng = random.Random(seed)
        self.chances = chances
        self.faults_left = faults
        self.aims_left = 0
        """Faults that hit where a view aims."""
        self.steps_max = _STEPS_MAX
        self.outlived = 0.0
        """How often a change of the timeline comes only when its instant, or a newer one, has been archived."""
        self.steps = 0
        self.log: deque[tuple[int, str, str, str]] = deque(maxlen=_LOG_LENGTH)
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        """How often each kind of step was noted."""
        self.watched = False
        """Whether the last actor stopped where a change by another actor is most dangerous."""
        self.on_turn: Callable[[str], None] = lambda _: None
        """Called with an actor's name before it gets a turn."""
        self.watched_change: tuple[Actor, str] | None = None
        """Who stopped there, and the object that it had created."""
        self.leapt = timedelta(0)
        """Time that passed without a step."""
        self._actors: list[Actor] = []
        self._late: list[_Late] = []
        self._main = threading.Lock()
        self._main.acquire()

    def now(self) -> datetime:
        """The simulated time: a millisecond per storage call."""
        return _START + self.leapt + self.steps * _STEP

    def forward(self) -> float:
        """Seconds by a clock that cannot be set."""
        return (self.leapt + self.steps * _STEP).total_seconds()

    def leap(self, time: timedelta) -> bool:
        """Let time pass, unless an actor is stalled or a request is delayed which would not last so long."""
        awake = [actor for actor in self._actors if not actor.done and actor.waits_for is None]
        if any(actor.has_sent for actor in self._actors if not actor.done and actor.waits_for is not None):
            return False
        if len(awake) > 1 or any(actor.wakes_at > self.steps for actor in awake):
            return False
        if not all(each.outlasts for each in self._late):
            return False
        self.leapt += time
        self.note("clock", "leaps", str(time))
        return True

    def note(self, actor: str, what: str, detail: str = "") -> None:
        """Remember a step for the report of a failure."""
        self.counts[what] += 1
        self.log.append((self.steps, actor, what, detail))

    def violation(self, what: str) -> None:
        """Record a state that must never occur."""
        self.violations.append(what)
        self.note("checker", "VIOLATION", what)

    def spawn(self, name: str, body: Callable[[Actor], None], *, starts_in: int = 0) -> Actor:
        """A new actor, which gets its first turn after so many steps."""
        actor = Actor(name, body, wakes_at=self.steps + starts_in)
        actor.baton.acquire()
        self._actors.append(actor)
        threading.Thread(target=self._live, args=(actor,), name=name, daemon=True).start()
        return actor

    def run(self, between_turns: Callable[[], None]) -> None:
        """Give turns until every actor is done, or waits for what does not come. `between_turns` may spawn more."""
        while True:
            between_turns()
            if self.violations or self.steps > self.steps_max:
                break
            self._actors = [actor for actor in self._actors if not actor.done]
            if not self._actors:
                break
            self._wake()
            awake = [actor for actor in self._actors if actor.waits_for is None]
            if not awake:
                break
            ready = [actor for actor in awake if actor.wakes_at <= self.steps]
            if not ready:
                self.steps = min(actor.wakes_at for actor in awake)
                continue
            self._give_turn(ready[self.rng.randrange(len(ready))])
        if self.steps > self.steps_max:
            self.violation(f"no end after {self.steps_max} steps")

    def end(self) -> None:
        """Kill every actor that is left."""
        for actor in self._actors:
            while not actor.done:
                actor.doomed = True
                self._hand_over(actor)
        self._actors.clear()

    def land_late(self, *, all_of_them: bool = False) -> None:
        """Let delayed requests take effect."""
        due = [each for each in self._late if all_of_them or each.is_due()]
        self._late = [each for each in self._late if each not in due]
        for each in due:
            self.note("network", "lands late", each.what)
            each.effect()

    def delay(self, what: str, effect: Callable[[], None], *, without_bound: bool = False) -> None:
        """Let the effect come later; `without_bound`: perhaps when all others have come to rest."""
        step = self.steps + self.rng.choice((3, 30, 100, 300, _STEPS_MAX if without_bound else 1000))
        self.delay_until(what, effect, lambda: step <= self.steps)

    def delay_until(
        self, what: str, effect: Callable[[], None], is_due: Callable[[], bool], *, outlasts: bool = False
    ) -> None:
        """Let the effect come when it is due, at the latest when all others have come to rest."""
        self._late.append(_Late(what, effect, is_due, outlasts))

    def pause(self, actor: Actor) -> None:
        """Called by the actor before each storage call: the others may have their turn now."""
        if actor.dies_in is not None:
            actor.dies_in -= 1
            actor.doomed = actor.doomed or actor.dies_in < 0
        if actor.doomed:
            raise Killed
        self.steps += 1
        if self._late:
            self.land_late()
        if actor.atomic:
            actor.asked = self.steps
            return
        if self.chances.stall and self.faults_left > 0 and self.rng.random() < self.chances.stall:
            self.faults_left -= 1
            self.stall(actor)
        if actor.turn_ends <= self.steps:
            self._main.release()
            actor.baton.acquire()
            if actor.doomed:
                raise Killed
        actor.asked = self.steps

    def dangerous(self, actor: Actor, path: str, *, very: bool = False) -> None:
        """The actor did something after which much can go wrong: others are likely to have their turn now."""
        if not actor.atomic and self.rng.random() < (2 * _DANGER if very else _DANGER):
            actor.turn_ends = self.steps
            self.watched = True
            self.watched_change = actor, path

    def stall(self, actor: Actor, steps: int | None = None) -> None:
        """Let the actor sleep from its next pause on."""
        actor.wakes_at = self.steps + (steps or self.rng.choice((30, 100, 300, 1000)))
        actor.turn_ends = self.steps
        self.note(actor.name, "stalls", f"until step {actor.wakes_at}")

    def wait(self, actor: Actor, is_due: Callable[[], bool], *, sent: bool = False) -> None:
        """Let the actor stand still from its next pause on, until this is so: time may pass meanwhile, but for one that
        has `sent` a change.
        """
        actor.waits_for, actor.has_sent = is_due, sent
        actor.turn_ends = self.steps
        self.note(actor.name, "stands still")

    @property
    def outlasting(self) -> bool:
        """Whether an actor stands still, or a request is on its way, for longer than anything else takes."""
        return any(actor.waits_for for actor in self._actors) or any(each.outlasts for each in self._late)

    @property
    def is_anybody_awake(self) -> bool:
        """Whether an actor is left that does not stand still."""
        return any(not actor.done and actor.waits_for is None for actor in self._actors)

    def wake_all(self) -> None:
        """Whoever stands still goes on."""
        for actor in self._actors:
            actor.waits_for = None

    def _wake(self) -> None:
        for actor in self._actors:
            if actor.waits_for is not None and actor.waits_for():
                actor.waits_for = None
                self.note(actor.name, "goes on")

    @contextmanager
    def atomically(self, actor: Actor) -> Iterator[None]:
        """No other actor has a turn within."""
        actor.atomic += 1
        try:
            yield
        finally:
            actor.atomic -= 1

    def _give_turn(self, actor: Actor) -> None:
        switch, self.watched, self.watched_change = self.chances.switch, False, None
        actor.turn_ends = self.steps + 1 + int(self.rng.expovariate(switch))
        self._hand_over(actor)

    def _hand_over(self, actor: Actor) -> None:
        self.on_turn(actor.name)
        actor.baton.release()
        self._main.acquire()

    def _live(self, actor: Actor) -> None:
        actor.baton.acquire()
        try:
            if not actor.doomed:
                actor.body(actor)
        except Killed:
            self.note(actor.name, "is dead")
        except BaseException as error:  # noqa: BLE001 - no error of an actor may pass unseen
            brief = f"{type(error).__name__}: {str(error)[:200]}"
            where = "".join(traceback.format_tb(error.__traceback__))
            self.violation(f"{actor.name} failed: {brief}\n{where}")
        finally:
            actor.done = True
            self._main.release()
