"""A storage whose process dies: before or after the effect of its n-th change, every later call fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bucketingest.storage.interface import Data, Level, ObjectInfo, Storage


class Crash(Exception):
    """The process is gone. No code under test catches it."""


class CrashingStorage:
    """Passes calls on to `inner` and dies at change number `dies_at` (from 0), after its effect if `after_effect`."""

    def __init__(self, inner: Storage, dies_at: int, *, after_effect: bool) -> None:
        self._inner = inner
        self._dies_at = dies_at
        self._after_effect = after_effect
        self.changes = 0
        self.dead = False

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, path: str) -> bytes:
        self._check()
        return self._inner.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self._check()
        return self._inner.get_range(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        self._check()
        return self._inner.head(path)

    def exists(self, path: str) -> bool:
        self._check()
        return self._inner.exists(path)

    def create(self, path: str, data: Data) -> None:
        self._before()
        self._inner.create(path, data)
        self._after()

    def put(self, path: str, data: Data) -> None:
        self._before()
        self._inner.put(path, data)
        self._after()

    def delete(self, path: str) -> None:
        self._before()
        self._inner.delete(path)
        self._after()

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._check()
        return self._inner.list(prefix)

    def list_level(self, prefix: str = "") -> Level:
        self._check()
        return self._inner.list_level(prefix)

    def absolute(self, path: str) -> str:
        return self._inner.absolute(path)

    def _check(self) -> None:
        if self.dead:
            raise Crash

    def _before(self) -> None:
        self._check()
        if self.changes == self._dies_at and not self._after_effect:
            self.dead = True
            raise Crash

    def _after(self) -> None:
        if self.changes == self._dies_at:
            self.dead = True
            raise Crash
        self.changes += 1
