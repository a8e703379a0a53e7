"""A storage whose process dies at its n-th change: every later call fails."""

from __future__ import annotations

import threading
from collections.abc import Callable

from bucketingest.storage.interface import Storage
from support.storage.passing_storage import PassingStorage


class Crash(BaseException):
    """The process is gone: a BaseException, which no code under test takes for an error."""


class CrashingStorage(PassingStorage):
    """Passes calls on to `inner` and dies at change number `dies_at` (from 0), before its effect.

    A process that dies after a change leaves the same as one that dies before the next. Only where a process changes a
    second storage too do they differ: `after_effect`.
    """

    def __init__(self, inner: Storage, dies_at: int, *, after_effect: bool = False) -> None:
        super().__init__(inner)
        self._dies_at = dies_at
        self._after_effect = after_effect
        self._counting = threading.Lock()
        self.changes = 0
        self.dead = False

    def _before_read(self) -> None:
        if self.dead:
            raise Crash

    def _change(self, path: str, act: Callable[[], None]) -> None:
        self._before_read()
        if self.changes == self._dies_at and not self._after_effect:
            self.dead = True
            raise Crash
        act()  # one that fails is no change
        with self._counting:  # objects are also put side by side
            dies = self.changes == self._dies_at
            self.changes += 1
        if dies:
            self.dead = True
            raise Crash
