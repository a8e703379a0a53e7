"""A storage that is unavailable now and then: chosen changes fail, with or without their effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from bucketingest.storage import StorageUnavailable
from bucketingest.storage.interface import Data, Level, ObjectInfo, Storage

Chooser = Callable[[str], bool]
"""Whether a change of this path fails; asked once per change."""


class FlakyStorage:
    """Passes calls on to `inner`; the changes that `fails` chooses raise StorageUnavailable."""

    def __init__(self, inner: Storage, fails: Chooser, *, after_effect: bool = False) -> None:
        self._inner = inner
        self._fails = fails
        self._after_effect = after_effect
        self.failures = 0

    @property
    def url(self) -> str:
        return self._inner.url

    def get(self, path: str) -> bytes:
        return self._inner.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self._inner.get_range(path, start, length)

    def head(self, path: str) -> ObjectInfo:
        return self._inner.head(path)

    def exists(self, path: str) -> bool:
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

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._inner.list(prefix)

    def list_level(self, prefix: str = "") -> Level:
        return self._inner.list_level(prefix)

    def absolute(self, path: str) -> str:
        return self._inner.absolute(path)

    def _change(self, path: str, act: Callable[[], None]) -> None:
        failing = self._fails(path)
        if not failing or self._after_effect:
            act()
        if failing:
            self.failures += 1
            raise StorageUnavailable(f"{self.url}/{path}: the server answered 503; try again")
