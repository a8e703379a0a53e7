"""A storage with a clock of its own, which a test moves: what it holds was last changed by that clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from bucketingest.storage.interface import Data, Level, ObjectInfo, Storage


class DatedStorage:
    """Passes calls on to `inner`, and says of each object that it was changed when `clock` showed so."""

    def __init__(self, inner: Storage, clock: Callable[[], datetime]) -> None:
        self._inner = inner
        self._clock = clock
        self._changed: dict[str, datetime] = {}

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._inner.get_range(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        return self._dated(self._inner.head(path))

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def create(self, path: str, data: Data) -> None:
        self._inner.create(path, data)
        self._changed[path] = self._clock()

    def put(self, path: str, data: Data) -> None:
        self._inner.put(path, data)
        self._changed[path] = self._clock()

    def delete(self, path: str) -> None:
        self._inner.delete(path)

    def delete_many(self, paths: Iterable[str]) -> None:
        self._inner.delete_many(paths)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return (self._dated(info) for info in self._inner.list(prefix))

    def list_level(self, prefix: str = "") -> Level:
        level = self._inner.list_level(prefix)
        return Level(level.directories, [self._dated(info) for info in level.objects])

    def absolute(self, path: str) -> str:
        return self._inner.absolute(path)

    def _dated(self, info: ObjectInfo) -> ObjectInfo:
        return replace(info, modified=self._changed.get(info.path, info.modified))
