"""A storage in memory whose objects are files too, for readers that know only files: no listing looks at a disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from bucketingest.storage import AlreadyExists, NotFound
from bucketingest.storage.buffers import opened
from bucketingest.storage.interface import Data, Level, ObjectInfo


class FiledStorage:
    """Only this object changes the folder, or `look` is called after others did. Nothing is flushed to a disk."""

    def __init__(self, folder: Path) -> None:
        self._root = str(folder)
        self._changing = threading.Lock()
        self._etags = count()
        self._contents: dict[str, bytes] = {}
        self._objects: dict[str, dict[str, ObjectInfo]] = {}
        """Directory → what is directly in it, by name. One without objects below it is none."""
        self._inside: dict[str, dict[str, str]] = {}
        """Directory → paths of those directly in it, by name."""

    def look(self) -> None:
        """Another process has changed the folder. Hadoop's checksums of files go: they are of no use here, and wrong
        for a file that changes.
        """
        with self._changing:
            self._contents.clear()
            self._objects.clear()
            self._inside.clear()
            for each in sorted(Path(self._root).rglob("*")):
                if each.name.endswith(".crc"):
                    each.unlink()
                elif each.is_file():
                    path, changed = each.relative_to(self._root).as_posix(), each.stat().st_mtime
                    self._keep(path, each.read_bytes(), datetime.fromtimestamp(changed, UTC))

    @property
    def url(self) -> str:
        return self._root

    def get(self, path: str) -> bytes:
        try:
            return self._contents[path]
        except KeyError:
            raise NotFound(f"{self._root}/{path}: there is no such object") from None

    def get_range(self, path: str, start: int, length: int) -> bytes:
        return self.get(path)[start : start + length]

    def head(self, path: str) -> ObjectInfo:
        self.get(path)
        directory, _, name = path.rpartition("/")
        return self._objects[directory][name]

    def exists(self, path: str) -> bool:
        return path in self._contents

    def create(self, path: str, data: Data) -> None:
        with self._changing:
            if path in self._contents:
                raise AlreadyExists(f"{self._root}/{path}: the name is taken; another writer created it first")
            self._store(path, data)

    def put(self, path: str, data: Data) -> None:
        with self._changing:
            self._store(path, data)

    def delete(self, path: str) -> None:
        with self._changing:
            if self._contents.pop(path, None) is None:
                return
            directory, _, name = path.rpartition("/")
            del self._objects[directory][name]
            os.unlink(self.absolute(path))  # noqa: PTH108 - a tenth of pathlib's
            while directory and not self._objects.get(directory) and not self._inside.get(directory):
                above, _, name = directory.rpartition("/")
                del self._inside[above][name]
                directory = above

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.delete(path)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        level = self.list_level(prefix)
        yield from level.objects
        for each in level.directories:
            yield from self.list(each)

    def list_level(self, prefix: str = "") -> Level:
        prefix = prefix.removesuffix("/")
        return Level([*self._inside.get(prefix, {}).values()], [*self._objects.get(prefix, {}).values()])

    def names(self, directory: str) -> tuple[str, ...]:
        return (*self._objects.get(directory.removesuffix("/"), ()),)

    def absolute(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _store(self, path: str, data: Data) -> None:
        with opened(data) as buffers:
            content = b"".join(buffers)
        directory = path.rpartition("/")[0]
        if not self._is_known(directory):
            Path(self.absolute(directory)).mkdir(parents=True, exist_ok=True)
        with open(self.absolute(path), "wb", buffering=0) as file:  # noqa: PTH123 - a tenth of pathlib's
            file.write(content)
        self._keep(path, content, datetime.now(UTC))

    def _keep(self, path: str, content: bytes, changed: datetime) -> None:
        directory, _, name = path.rpartition("/")
        self._is_known(directory)
        info = ObjectInfo(path, len(content), changed, str(next(self._etags)))
        self._objects.setdefault(directory, {})[name] = info
        self._contents[path] = content

    def _is_known(self, directory: str) -> bool:
        """Whether it was there; now it is."""
        known = True
        while directory:
            above, _, name = directory.rpartition("/")
            inside = self._inside.setdefault(above, {})
            if name in inside:
                break
            inside[name], directory, known = directory, above, False
        return known
