"""A storage with a clock of its own, which a test moves: what it holds was last changed by that clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from bucketingest.storage.interface import Level, ObjectInfo, Storage
from support.storage.passing_storage import PassingStorage


class DatedStorage(PassingStorage):
    """Passes calls on to `inner`, and says of each object that it was changed when `clock` showed so."""

    def __init__(self, inner: Storage, clock: Callable[[], datetime]) -> None:
        super().__init__(inner)
        self._clock = clock
        self._changed: dict[str, datetime] = {}

    def head(self, path: str) -> ObjectInfo:
        return self._dated(super().head(path))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (self._dated(info) for info in self._inner.list(prefix))

    def list_level(self, prefix: str = "") -> Level:
        level = super().list_level(prefix)
        return Level(level.directories, [self._dated(info) for info in level.objects])

    def _change(self, path: str, act: Callable[[], None]) -> None:
        act()
        self._changed[path] = self._clock()

    def _dated(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, modified=self._changed.get(info.path, info.modified))
