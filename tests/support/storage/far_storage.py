"""Object storage that is a network away: each request takes longer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Final

from bucketingest.storage.interface import Level, ObjectInfo, Storage
from support.storage.passing_storage import PassingStorage

_PAGE: Final = 1000
"""Objects in one answer of a listing, and deletions in one request."""


class FarStorage(PassingStorage):
    """Passes calls on to `inner`, each request `away` later."""

    def __init__(self, inner: Storage, away: timedelta) -> None:
        super().__init__(inner)
        self._seconds = away / timedelta(seconds=1)

    def delete_many(self, paths: Iterable[str]) -> None:
        doomed = list(paths)
        self._requests(-(-len(doomed) // _PAGE))
        self._inner.delete_many(doomed)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        found = list(self._inner.list(prefix))
        self._requests(1 + len(found) // _PAGE)
        return iter(found)

    def list_level(self, prefix: str = "") -> Level:
        level = self._inner.list_level(prefix)
        self._requests(1 + (len(level.directories) + len(level.objects)) // _PAGE)
        return level

    def _before_read(self) -> None:
        self._requests(1)

    def _change(self, path: str, act: Callable[[], None]) -> None:
        self._requests(1)
        super()._change(path, act)

    def _requests(self, count: int) -> None:
        time.sleep(count * self._seconds)
