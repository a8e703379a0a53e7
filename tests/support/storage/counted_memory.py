"""A storage in memory with a clock of its own that counts its requests: so fast that only our own code costs time."""

from __future__ import annotations

import pathlib
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from bucketingest.storage import AlreadyExists, NotFound
from bucketingest.storage.interface import Data, Level, ObjectInfo

_PAGE: Final = 1000
"""Names in one answer of an object store."""


class CountedMemory:
    """`counts`: `requests`, of which `pages` are of listings, and `names` that these had."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self.url = f"memory://{uuid.uuid4()}"
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._contents: dict[str, bytes] = {}
        self._objects: dict[str, dict[str, ObjectInfo]] = {"": {}}
        self._directories: dict[str, dict[str, None]] = {"": {}}

    def get(self, path: str) -> bytes:
        self.counts["requests"] += 1
        try:
            return self._contents[path]
        except KeyError:
            raise NotFound(f"{self.url}/{path}: there is no such object") from None

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.get(path)[start : start + length]

    def head(self, path: str) -> ObjectInfo:
        self.get(path)
        parent, _, name = path.rpartition("/")
        return self._objects[parent][name]

    def exists(self, path: str) -> bool:
        self.counts["requests"] += 1
        return path in self._contents

    def create(self, path: str, data: Data) -> None:
        if path in self._contents:
            self.counts["requests"] += 1
            raise AlreadyExists(f"{self.url}/{path}: the name is taken")
        self.put(path, data)

    def put(self, path: str, data: Data) -> None:
        self.counts["requests"] += 1
        parts = [data.read_bytes()] if isinstance(data, pathlib.Path) else [data] if isinstance(data, bytes) else data
        content = b"".join(parts)
        self._contents[path] = content
        parent, _, name = path.rpartition("/")
        self._add_directory(parent)
        self._objects[parent][name] = ObjectInfo(path, len(content), self._clock(), None)

    def delete(self, path: str) -> None:
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        there = list(paths)
        self.counts["requests"] += -(-len(there) // _PAGE)
        for path in there:
            if self._contents.pop(path, None) is not None:
                parent, _, name = path.rpartition("/")
                del self._objects[parent][name]
                self._remove_if_empty(parent)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        found = list(self._below(prefix))
        self._listed(len(found))
        return iter(found)

    def list_level(self, prefix: str = "") -> Level:
        level = Level([*self._directories.get(prefix, ())], [*self._objects.get(prefix, {}).values()])
        self._listed(len(level.directories) + len(level.objects))
        return level

    def names(self, directory: str) -> tuple[str, ...]:
        """As of a local folder: most listings are for names alone."""
        found = tuple(self._objects.get(directory, ()))
        self._listed(len(found))
        return found

    def absolute(self, path: str) -> str:
        return f"{self.url}/{path}"

    def _below(self, prefix: str) -> Iterator[ObjectInfo]:
        yield from self._objects.get(prefix, {}).values()
        for directory in self._directories.get(prefix, ()):
            yield from self._below(directory)

    def _listed(self, names: int) -> None:
        pages = max(1, -(-names // _PAGE))
        self.counts += Counter(requests=pages, pages=pages, names=names)

    def _add_directory(self, path: str) -> None:
        if path not in self._objects:
            self._objects[path], self._directories[path] = {}, {}
            parent = path.rpartition("/")[0]
            self._add_directory(parent)
            self._directories[parent][path] = None

    def _remove_if_empty(self, path: str) -> None:
        while path and not self._objects[path] and not self._directories[path]:
            del self._objects[path], self._directories[path]
            parent = path.rpartition("/")[0]
            del self._directories[parent][path]
            path = parent
