"""The pipeline under attack, kept alive as an operator would: one attempt at a time, a new one when one has ended."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from soak.job.attempt import Attempt
from soak.job.resource import Places, write_resource
from soak.judge.watch import TableWatch
from soak.waiting import SoakFailed, until

FAILED_IN_A_ROW_MAX = 4


@dataclass(frozen=True, slots=True)
class End:
    """An attempt that ended by itself."""

    attempt: int
    code: int
    said: str
    expected: bool
    """Whether a fault makes it plausible."""


@dataclass
class Pipeline:
    """Starts attempts and waits for their commits. `patience`: seconds that a next commit may take."""

    places: Places
    bootstrap_servers: str
    environment: Mapping[str, str]
    watch: TableWatch
    modes: random.Random
    interval_allowed: bool
    patience: float
    say: Callable[[str], None]
    ends: list[End] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _current: Attempt | None = None
    _all: list[Attempt] = field(default_factory=list)
    _failed_in_a_row: int = 0

    @property
    def current(self) -> Attempt:
        """The attempt that should be working."""
        assert self._current is not None, "started"
        return self._current

    @property
    def attempts(self) -> int:
        """How many have been started."""
        return len(self._all)

    def start(self) -> Attempt:
        """Start the next attempt; whatever the current one is doing, it is not the current one any more."""
        number = next(self._numbers)
        interval = self.interval_allowed and self.modes.random() < 0.5
        file = write_resource(self.places, number, self.bootstrap_servers, interval=interval)
        self._current = Attempt(number, file, self.places.log(number), self.environment)
        self._all.append(self._current)
        return self._current

    def wait_for_commit(self, after: float, why: str, *, may_end: bool = False) -> float:
        """Wait until an instant completes after a moment, starting a new attempt when one ends.

        Returns when it completed. `may_end`: what was done makes the end of the current attempt plausible.
        """
        until(
            lambda: self._supervised(after, may_end=may_end),
            f"a commit after {why}; {self._state()}",
            within=self.patience,
            poll=0.1,
        )
        self._failed_in_a_row = 0
        moment = self.watch.first_after(after)
        assert moment is not None, "just seen"
        return moment

    def note_end(self, attempt: Attempt, *, expected: bool) -> None:
        """Remember how an attempt ended; all of it is gone afterwards."""
        code = attempt.code
        assert code is not None, "ended"
        self.ends.append(End(attempt.number, code, attempt.last_words()[:400], expected))
        if not expected:
            self.say(f"attempt {attempt.number} ended by itself with {code}: {attempt.last_words()[:300]}")
        attempt.kill_all()

    def kill_all(self) -> None:
        """End everything."""
        for attempt in self._all:
            attempt.kill_all()

    def _supervised(self, after: float, *, may_end: bool) -> bool:
        if self.watch.newest() > after:
            return True
        if not self.current.running:
            self.note_end(self.current, expected=may_end)
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= FAILED_IN_A_ROW_MAX:
                raise SoakFailed(f"{self._failed_in_a_row} attempts in a row failed; {self.current.tail()}")
            self.start()
        return False

    def _state(self) -> str:
        return f"attempt {self.current.number}, log {self.current.log}"
