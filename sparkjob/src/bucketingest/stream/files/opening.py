"""Opens files in the tasks, and makes sure that what is read is the version that the micro-batch has."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from bucketingest.decode.files.parts import BadFile, Piece
from bucketingest.storage import InvalidLocation, NotFound, Storage, open_storage
from bucketingest.storage.object_file import ObjectFile
from bucketingest.storage.paths import path_problem
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.source_file import SourceFile, is_local, source_file


class FileChanged(Exception):
    """A file has another version than the micro-batch. The text names it."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens files below one directory. Picklable."""

    root: str
    versions: Mapping[int, str]
    """By the number of the file in the micro-batch."""

    def __call__(self, piece: Piece) -> pa.NativeFile:
        """The file at its first byte. Raises BadFile if it is gone or of a refused name, FileChanged, StorageError."""
        self.check(piece)
        storage = open_storage(self.root)
        try:
            if is_local(storage):
                return pa.OSFile(storage.absolute(piece.path), "rb")
            return pa.PythonFile(ObjectFile(storage, piece.path), "r")
        except (NotFound, FileNotFoundError):
            raise _gone(piece.path) from None

    def check(self, piece: Piece) -> None:
        """Once more after the file was read: what was read is of one version. Raises as a call does."""
        found = _now(open_storage(self.root), piece.path)
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
