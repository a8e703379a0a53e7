"""The one interface through which all layers above touch storage, small enough to be wrapped by fault injection."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, runtime_checkable

BytesLike: TypeAlias = bytes | bytearray | memoryview
"""One contiguous buffer of bytes. Others, as pyarrow.Buffer, are passed as ``memoryview(buffer)``."""

Data: TypeAlias = bytes | Sequence[BytesLike] | pathlib.Path
"""What an object is made of: bytes, buffers to be joined in order, or the path of a local file."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing says about one object."""

    path: str
    """Path relative to the storage's root."""
    size: int
    """Bytes."""
    modified: datetime
    """Last modification, timezone-aware, UTC, by the store's clock."""
    etag: str | None
    """Changes whenever the content does; None where the store has none."""


@dataclass(frozen=True, slots=True)
class Level:
    """One directory of a storage: what lies directly in it."""

    directories: list[str] = field(default_factory=list)
    """Paths of sub-directories relative to the storage's root, without a trailing slash."""
    objects: list[ObjectInfo] = field(default_factory=list)
    """The objects directly in the directory."""


@dataclass(frozen=True, slots=True)
class Version:
    """Names one content of one object, in the store's own terms: what a replace takes as its condition."""

    etag: str | None
    generation: str | None = None
    """Google Cloud Storage compares this number, the others the etag."""


@runtime_checkable
class Storage(Protocol):
    """Objects below one root URL, named by paths relative to it.

    Paths are ``/``-separated unicode text, taken as they are: nothing is URL-encoded, so a reader of the same files
    sees exactly these names. ``bucketingest.storage.paths.check_path`` says which paths are refused. Implementations
    are safe to share between threads and can be pickled; in another process they open the same place again.

    Every call may raise ``AccessDenied``, ``StorageUnavailable`` (transient, after the implementation's own bounded
    retries) and ``InvalidLocation``.
    """

    @property
    def url(self) -> str:
        """The root, without a trailing slash and without secrets."""
        ...

    def get(self, path: str) -> bytes:
        """The whole content. Raises NotFound."""
        ...

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """``length`` bytes from byte ``start`` on, fewer where the object ends before. Raises NotFound."""
        ...

    def head(self, path: str) -> ObjectInfo:
        """Size and times of one object. Raises NotFound."""
        ...

    def exists(self, path: str) -> bool:
        """Whether the object is there. A directory is not an object."""
        ...

    def create(self, path: str, data: Data) -> None:
        """Create the object only if the name is free, atomically: of any number of racers exactly one succeeds.

        No reader ever sees a part of the content, and a crash leaves either nothing or everything. Raises
        AlreadyExists, also when the existing content is equal: a caller that wants to adopt it compares it.
        Raises ObjectTooLarge where the store does not take the size in one atomic request.
        """
        ...

    def put(self, path: str, data: Data) -> None:
        """Write the object whether or not the name is taken. Readers see the old or the new content, whole."""
        ...

    def delete(self, path: str) -> None:
        """Delete the object; success when it is already absent."""
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete objects; those already absent are no error. Not atomic: some may be gone when it fails."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below the directory ``prefix`` ("" is the root), at any depth, in no promised order.

        ``a/b`` is the directory: neither ``a/bc`` nor an object named ``a/b`` is in it. An absent one is empty.
        """
        ...

    def list_level(self, prefix: str = "") -> Level:
        """The directories and objects directly in the directory ``prefix``. An absent directory is empty."""
        ...

    def absolute(self, path: str) -> str:
        """The full name as Hudi would write it: URL and path, on a local file system the plain absolute path."""
        ...


@runtime_checkable
class SkippingStorage(Storage, Protocol):
    """A storage whose listing can begin in the middle, so it does not take the longer the more is before."""

    def list_after(self, after: str) -> Iterator[ObjectInfo]:
        """As ``list``, without paths up to ``after`` in the order of their UTF-8 bytes, as far as that saves work."""
        ...


@runtime_checkable
class NamingStorage(Storage, Protocol):
    """A storage that lists names for less than it costs to list sizes and times too, which are a look at each file."""

    def names(self, directory: str) -> tuple[str, ...]:
        """As ``object_names`` has them."""
        ...


@runtime_checkable
class ConditionalStorage(Storage, Protocol):
    """A storage that can also compare and swap. Object stores can; file systems cannot, and do not pretend to."""

    def get_versioned(self, path: str) -> tuple[bytes, Version]:
        """The whole content, and its version. Raises NotFound."""
        ...

    def replace(self, path: str, data: Data, version: Version) -> Version:
        """Write the object only if it is still of this version, atomically; the version it is then.

        Of any number of racers with the same version exactly one succeeds, if no content is ever written twice: the
        version of S3 is a digest of the content. Raises Changed, and NotFound if the object is gone. After
        StorageUnavailable the outcome is unknown.
        """
        ...


@runtime_checkable
class HasDirectories(Protocol):
    """A storage whose directories stay when they are empty."""

    def remove_empty_directories(self, prefix: str) -> None:
        """Remove the directory and those below it, as far as they are empty. A creation there meanwhile may fail."""
        ...


def remove_directories(storage: Storage, prefix: str) -> None:
    """Remove what is left of a directory without objects, where the storage has directories: they would be listed."""
    if isinstance(storage, HasDirectories):
        storage.remove_empty_directories(prefix)


def object_names(storage: Storage, directory: str) -> tuple[str, ...]:
    """Names of the objects directly in the directory, without their sizes and times. An absent one is empty."""
    if isinstance(storage, NamingStorage):
        return storage.names(directory)
    return tuple(info.path.rpartition("/")[2] for info in storage.list_level(directory).objects)
