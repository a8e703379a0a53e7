"""A storage that passes calls on to another one, so that a test's storage says only what is different about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bucketingest.storage.interface import Data, Level, ObjectInfo, Storage, remove_directories


class PassingStorage:
    """Passes calls on to `inner`: reads after `_before_read`, each changed object through `_change`."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, path: str) -> bytes:
        self._before_read()
        return self._inner.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        self._before_read()
        return self._inner.get_range(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        self._before_read()
        return self._inner.head(path)

    def exists(self, path: str) -> bool:
        self._before_read()
        return self._inner.exists(path)

    def create(self, path: str, data: Data) -> None:
        self._change(path, lambda: self._inner.create(path, data))

    def put(self, path: str, data: Data) -> None:
        self._change(path, lambda: self._inner.put(path, data))

    def delete(self, path: str) -> None:
        self._change(path, lambda: self._inner.delete(path))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def remove_empty_directories(self, prefix: str) -> None:
        """Nothing where `inner` has no directories."""
        remove_directories(self._inner, prefix)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        self._before_read()
        return self._inner.list(prefix)

    def list_level(self, prefix: str = "") -> Level:
        self._before_read()
        return self._inner.list_level(prefix)

    def absolute(self, path: str) -> str:
        return self._inner.absolute(path)

    def _before_read(self) -> None:
        """What comes before a read."""

    def _change(self, path: str, act: Callable[[], None]) -> None:
        """Change one object: `act` does it."""
        act()
