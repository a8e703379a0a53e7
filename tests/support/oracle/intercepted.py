"""The moment at which a deltacommit becomes visible, held open: something happens right before or right after it.

Hudi's services run in processes of their own, so they come at any moment; the one that matters is the creation of the
completed file, whose name has a time that was chosen before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from bucketingest.storage.interface import Data, Storage
from support.storage.crashing_storage import Crash, CrashingStorage

_NEVER: Final = -1
_COMPLETED: Final = re.compile(r"\.hoodie/timeline/\d+_\d+\.deltacommit")


def nothing() -> None:
    """What happens at a moment by default."""


class InterceptedStorage(CrashingStorage):
    """Passes calls on to `inner`; `before` and `after` are called around the first completed file of a deltacommit."""

    def __init__(
        self, inner: Storage, *, before: Callable[[], object] = nothing, after: Callable[[], object] = nothing
    ) -> None:
        super().__init__(inner, _NEVER, after_effect=False)
        self._happens_before = before
        self._happens_after = after
        self.reached = False
        """Whether the moment has come."""

    @classmethod
    def that_crashes(cls, inner: Storage) -> InterceptedStorage:
        """One whose process dies before the completed file is there."""

        def crash() -> None:
            storage.dead = True
            raise Crash

        storage = cls(inner, before=crash)
        return storage

    def create(self, path: str, data: Data) -> None:
        self._around(path, lambda: super(InterceptedStorage, self).create(path, data))

    def put(self, path: str, data: Data) -> None:
        self._around(path, lambda: super(InterceptedStorage, self).put(path, data))

    def _around(self, path: str, act: Callable[[], None]) -> None:
        first = not self.reached and _COMPLETED.fullmatch(path) is not None
        if first:
            self.reached = True
            self._happens_before()
        act()
        if first:
            self._happens_after()
