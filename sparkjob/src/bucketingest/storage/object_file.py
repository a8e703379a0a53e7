"""An object as a file that can be read at any place, for libraries that read files, as Arrow's Parquet reader."""

from __future__ import annotations

import io

from bucketingest.storage.interface import Storage


class ObjectFile(io.RawIOBase):
    """Reads ranges of one object. Raises NotFound."""

    def __init__(self, storage: Storage, path: str, size: int | None = None) -> None:
        """`size`: bytes of the object, if the caller knows them."""
        self._storage = storage
        self._path = path
        self._size = storage.head(path).size if size is None else size
        self._position = 0

    def readable(self) -> bool:
        """Whether it can be read, as libraries ask of a file."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read at any place, as libraries ask of a file."""
        return True

    def tell(self) -> int:
        """The position in bytes."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a byte; past the end is allowed."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        """The next bytes, all that are left by default."""
        wanted = self._size - self._position if size < 0 else size
        data = self._storage.get_range(self._path, self._position, wanted) if wanted else b""
        self._position += len(data)
        return data
