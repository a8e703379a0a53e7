"""What the journals of compactions and of merges share: folders of objects that are created if absent, numbered
upwards by one.
"""

from __future__ import annotations

from typing import ClassVar

from bucketingest.storage import Storage, create_or_get, get_if_there, remove_directories


class NumberedObjects:
    """Folders `<root>/<number>/` of a table. Objects never change, so of two processes exactly one decides."""

    ROOT: ClassVar[str]
    """Folder of the folders, relative to the table's root."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def numbers(self) -> list[int]:
        """Numbers that still have objects, ascending."""
        names = (path.rpartition("/")[2] for path in self._storage.list_level(self.ROOT).directories)
        return sorted(int(name) for name in names if name.isdecimal())

    def path(self, number: int, name: str) -> str:
        """Path of an object, relative to the table's root."""
        return f"{self.ROOT}/{number:08d}/{name}"

    def forget(self, number: int) -> None:
        """Delete the objects, `done` last: what a crash leaves still says that nothing is left to do."""
        last, folder = self.path(number, "done"), self.path(number, "").rstrip("/")
        self._storage.delete_many([info.path for info in self._storage.list(folder) if info.path != last])
        self._storage.delete(last)
        remove_directories(self._storage, folder)

    def _create(self, number: int, name: str, content: bytes) -> bytes:
        """Create an object, unless it is there; its content."""
        return create_or_get(self._storage, self.path(number, name), content)

    def _get(self, number: int, name: str) -> bytes | None:
        """An object's content; None if it is not there."""
        return get_if_there(self._storage, self.path(number, name))
