"""Storage on the local file system, written for what obstore's local store does not give: durability and exact names.

obstore 0.12 neither flushes a file nor its directory, so a crash of the machine could leave a journal object that
exists and is empty; it also refuses names that end in ``#`` and digits.
"""

# These calls are made per object: plain names cost a tenth of pathlib's and keep odd ones exact.
# ruff: noqa: PTH106, PTH108, PTH112, PTH116, PTH117, PTH120

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import NoReturn

from bucketingest.storage.buffers import opened
from bucketingest.storage.errors import (
    AccessDenied,
    AlreadyExists,
    InvalidLocation,
    NotFound,
    StorageError,
    StorageUnavailable,
)
from bucketingest.storage.interface import Data, Level, ObjectInfo
from bucketingest.storage.local import files as local_files
from bucketingest.storage.paths import check_path, check_prefix

_ABSENT = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_LINKS = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}


class LocalStorage:
    """Objects as plain files below one directory, which is made by the first write.

    Create-if-absent is a hard link, for an empty file an exclusive open: atomic between threads, processes and, on NFS,
    machines. With ``durable`` (the default) content and name are flushed to the disk before a write returns, and
    deletions before a delete does.
    """

    def __init__(self, root: str, *, durable: bool = True) -> None:
        """``root`` is an absolute directory path; ``durable=False`` skips the flushes (for scratch data and tests)."""
        if not os.path.isabs(root) or "\0" in root:
            raise InvalidLocation(f"{root!r}: a local storage needs an absolute directory path")
        self._root = os.path.normpath(root)
        self._base = self._root.rstrip("/") + "/"
        self._durable = durable

    @property
    def url(self) -> str:
        """The root directory as an absolute path."""
        return self._root

    def __repr__(self) -> str:
        return f"LocalStorage({self._root!r})"

    def get(self, path: str) -> bytes:
        """The whole content. Raises NotFound."""
        try:
            return local_files.read_all(self.absolute(path))
        except OSError as error:
            self._fail("get", path, error)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Up to ``length`` bytes from byte ``start``. Raises NotFound."""
        if start < 0 or length < 0:
            raise InvalidLocation(
                f"{self._base}{path}: a range must not be negative, is start {start}, length {length}"
            )
        try:
            return local_files.read_range(self.absolute(path), start, length)
        except OSError as error:
            self._fail("get", path, error)

    def head(self, path: str) -> ObjectInfo:
        """Size and times of one object. Raises NotFound."""
        try:
            status = os.stat(self.absolute(path))
        except OSError as error:
            self._fail("head", path, error)
        if not stat.S_ISREG(status.st_mode):
            self._fail("head", path, IsADirectoryError(errno.EISDIR, "is a directory"))
        return _info(path, status)

    def exists(self, path: str) -> bool:
        """Whether a file of this name is there."""
        try:
            self.head(path)
        except NotFound:
            return False
        return True

    def create(self, path: str, data: Data) -> None:
        """Create the file only if the name is free. Raises AlreadyExists."""
        self._write("create", path, data, replace=False)

    def put(self, path: str, data: Data) -> None:
        """Write the file, replacing one that is there."""
        self._write("put", path, data, replace=True)

    def delete(self, path: str) -> None:
        """Delete the file; success when it is absent."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete files; each directory is flushed once."""
        changed: dict[str, str] = {}
        for path in paths:
            name = self.absolute(path)
            try:
                os.unlink(name)
                changed[os.path.dirname(name)] = path
            except _ABSENT:
                continue  # A directory is not an object, so there is nothing to delete.
            except OSError as error:
                if not os.path.isdir(name):  # which some systems refuse as not permitted
                    self._fail("delete", path, error)
        if not self._durable:
            return
        for directory, path in changed.items():
            try:
                local_files.flush_directory(directory)
            except FileNotFoundError:
                continue  # Another process removed the whole directory, and the file with it.
            except OSError as error:
                self._fail("delete", path, error)

    def remove_empty_directories(self, prefix: str) -> None:
        """Remove the directory and those below it, as far as they are empty. Not durable: they may come back."""
        for directory, _, _ in os.walk(self.absolute(prefix), topdown=False):
            try:
                os.rmdir(directory)
            except OSError:  # not empty, or another process was faster
                continue

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every file below the directory, at any depth."""
        return self._list(prefix, lambda _directory: True)

    def list_after(self, after: str) -> Iterator[ObjectInfo]:
        """As ``list``, without directories that have nothing behind a path."""
        last = os.fsencode(after)

        def may_have(directory: str) -> bool:
            first = os.fsencode(f"{directory}/")
            return first > last or last.startswith(first)

        return self._list("", may_have)

    def _list(self, prefix: str, wanted: Callable[[str], bool]) -> Iterator[ObjectInfo]:
        pending = [prefix]
        while pending:
            level = self.list_level(pending.pop())
            yield from level.objects
            pending.extend(filter(wanted, level.directories))

    def list_level(self, prefix: str = "") -> Level:
        """The directories and files directly in the directory."""
        directory = check_prefix(self._root, prefix)
        level = Level()
        start = f"{directory}/" if directory else ""
        self._scan(directory, lambda entry: self._add(level, start + entry.name, entry))
        return level

    def names(self, directory: str) -> tuple[str, ...]:
        """Names of the files directly in the directory. The system says what each name is, without a look at it."""
        found: dict[str, None] = {}

        def take(entry: os.DirEntry[str]) -> None:
            if entry.is_file():
                found[entry.name] = None

        self._scan(check_prefix(self._root, directory), take)
        return tuple(found)

    def _scan(self, directory: str, take: Callable[[os.DirEntry[str]], None]) -> None:
        """Take all that is in the directory, but for unfinished writes."""
        try:
            with os.scandir(self._base + directory) as entries:
                for entry in entries:
                    if not entry.name.startswith(local_files.STAGED_PREFIX):
                        take(entry)
        except _ABSENT:
            return
        except OSError as error:
            self._fail("list", directory, error)

    def absolute(self, path: str) -> str:
        """The plain absolute path of the file."""
        return self._base + check_path(self._root, path)

    def _add(self, level: Level, path: str, entry: os.DirEntry[str]) -> None:
        try:
            if entry.is_dir():
                if entry.is_symlink() and _leads_back(self._base, path):
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), entry.path)
                level.directories.append(path)
            elif entry.is_file():
                level.objects.append(_info(path, entry.stat()))
        except FileNotFoundError:
            return  # Deleted while we list: a listing may show it or not.

    def _write(self, what: str, path: str, data: Data, *, replace: bool) -> None:
        directory, name = os.path.split(self.absolute(path))
        if name.startswith(local_files.STAGED_PREFIX):
            raise InvalidLocation(
                f"{self._base}{path}: names starting with {local_files.STAGED_PREFIX} are taken by unfinished writes"
            )
        with opened(data) as buffers:
            try:
                with local_files.opened_directory(directory, create=True, durable=self._durable) as descriptor:
                    local_files.publish(descriptor, name, buffers, replace=replace, durable=self._durable)
            except OSError as error:
                self._fail(what, path, error)

    def _fail(self, what: str, path: str, error: OSError) -> NoReturn:
        raise _translated(f"{self._base}{path}: {what} failed", what, error) from error


def _leads_back(base: str, path: str) -> bool:
    """Whether a link is to a directory that the path goes through: a listing of two such links would have no end."""
    target, above = os.path.realpath(base + path), path
    while above:
        above = os.path.dirname(above)
        if os.path.realpath(base + above) == target:
            return True
    return False


def _translated(where: str, what: str, error: OSError) -> StorageError:
    """The storage error for an operating system's error. Pure."""
    reason = error.strerror or str(error)
    writing = what in ("create", "put")
    if isinstance(error, FileExistsError):
        return AlreadyExists(f"{where}: the name is taken; another writer created it first")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidLocation(
            f"{where}: the name is too long for the file system; shorten the partition path or the root"
        )
    if isinstance(error, _ABSENT) and not writing:
        return NotFound(f"{where}: there is no such object")
    if isinstance(error, (NotADirectoryError, IsADirectoryError)):
        return InvalidLocation(f"{where}: {reason}; a file is where a directory is needed, or the reverse")
    if error.errno == errno.ELOOP:
        return InvalidLocation(f"{where}: {error.filename}: a link that leads in a circle; remove the link")
    if error.errno in _DENIED:
        return AccessDenied(
            f"{where}: {reason}; let this user read and write the directory (hard links must be allowed too)"
        )
    if error.errno in _NO_LINKS:
        return InvalidLocation(
            f"{where}: {reason}; this file system has no hard links, so create-if-absent cannot be atomic: use another"
        )
    return StorageUnavailable(f"{where}: {reason}; check the disk (space, quota, errors) and try again")


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    try:
        modified = datetime.fromtimestamp(status.st_mtime_ns / 1e9, tz=UTC)
    except (ValueError, OverflowError):  # some file systems hold times that no calendar has
        modified = datetime(9999 if status.st_mtime_ns > 0 else 1, 1, 1, tzinfo=UTC)
    return ObjectInfo(path, status.st_size, modified, f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}")
