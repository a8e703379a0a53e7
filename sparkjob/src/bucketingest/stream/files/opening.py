"""Opens files in the tasks, and makes sure that what is read is the version that the micro-batch has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from bucketingest.decode.files.parts import BadFile, Piece
from bucketingest.storage import InvalidLocation, NotFound, Storage, open_storage
from bucketingest.storage.object_file import ObjectFile
from bucketingest.storage.paths import path_problem
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.source_file import SourceFile, is_local, source_file

_SMALL_BYTES: Final = 1024**2
"""A file up to this size is read with one call: each costs an object store a request."""


class FileChanged(Exception):
    """A file has another version than the micro-batch. The text names it."""


@dataclass(frozen=True)
class Opener:
    """Opens files below one directory. Picklable."""

    root: str
    versions: Mapping[int, str]
    """By the number of the file in the micro-batch."""

    @cached_property
    def _storage(self) -> Storage:
        """One for all files: with an object store it keeps its connections."""
        return open_storage(self.root)

    @contextmanager
    def __call__(self, piece: Piece) -> Iterator[pa.NativeFile]:
        """The file at its first byte. At the end of the block, with an error too, all that was read is of the version.

        Raises BadFile if it is gone or of a refused name, FileChanged, StorageError.
        """
        small = piece.is_whole and piece.end <= _SMALL_BYTES
        if not small:
            self._check(piece)
        try:
            with self._small(piece) if small else self._large(piece) as file:
                yield file
        except Exception:
            self._check(piece)  # half of a file that is being written looks damaged
            raise
        self._check(piece)

    def _small(self, piece: Piece) -> pa.NativeFile:
        try:
            return pa.BufferReader(self._storage.get_range(piece.path, 0, piece.end))
        except (NotFound, InvalidLocation):
            raise _gone(piece.path) from None

    def _large(self, piece: Piece) -> pa.NativeFile:
        storage = self._storage
        try:
            if is_local(storage):
                return pa.OSFile(storage.absolute(piece.path), "rb")
            return pa.PythonFile(ObjectFile(storage, piece.path), "r")
        except (NotFound, FileNotFoundError):
            raise _gone(piece.path) from None

    def _check(self, piece: Piece) -> None:
        found = _now(self._storage, piece.path)
        if found is None:
            raise _gone(piece.path)
        if found.version != self.versions[piece.number]:
            raise FileChanged(piece.path)


def as_they_are(batch: FileBatch) -> FileBatch:
    """The micro-batch with the versions, and so the sizes, that its files have now; one that is gone stays in it."""
    storage = open_storage(batch.root)
    return replace(batch, files=tuple(_now(storage, file.path) or file for file in batch.files))


def _now(storage: Storage, path: str) -> SourceFile | None:
    """None: it is gone, or has a name that no storage takes."""
    with suppress(NotFound, InvalidLocation):
        return source_file(storage.head(path), is_local=is_local(storage))
    return None


def _gone(path: str) -> BadFile:
    problem = path_problem(path)
    return BadFile(
        "was deleted before it was read" if problem is None else f"its name is refused: {problem}. Rename it"
    )
