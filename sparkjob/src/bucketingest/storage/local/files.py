"""The system calls behind local storage: publish a file whole or not at all, and let it survive a machine's crash.

A file is written without its name, flushed to the disk, then given its name in one step: ``link`` fails when the name
is taken (create-if-absent), ``rename`` replaces it (overwrite). Flushing the directory afterwards keeps the name.
"""

# These calls are made per object: plain names cost a tenth of pathlib's and keep odd ones exact.
# ruff: noqa: PTH102, PTH120

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator

from bucketingest.storage.forward import forward_seconds
from bucketingest.storage.limits import TRANSFER_TIMEOUT

STAGED_PREFIX = ".bucketingest-staged-"
"""Names of files being written where the file system cannot hold a file without a name. Never listed as objects."""

_BUFFERS_PER_WRITE = 512
"""Linux takes at most 1024 buffers in one writev (IOV_MAX)."""

_FILE_MODE = 0o666  # The umask narrows it, as for any file that a program makes.
_NO_UNNAMED_FILES = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT}


@contextlib.contextmanager
def opened_directory(path: str, *, create: bool, durable: bool) -> Iterator[int]:
    """A descriptor of the directory; with ``create`` it and its parents are made. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        if not create:
            raise
        make_directory(path, durable=durable)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_directory(path: str, *, durable: bool) -> None:
    """Make the directory and its parents; each new name is flushed to the disk when ``durable``. Raises OSError."""
    parent = os.path.dirname(path)
    try:
        os.mkdir(path)
    except FileNotFoundError:
        make_directory(parent, durable=durable)
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
    except FileExistsError:
        pass
    # Also when another process made it: it may not have flushed it yet, and our file will be in it.
    if durable:
        flush_directory(parent)


def flush_directory(path: str) -> None:
    """Make the names in a directory survive a crash of the machine. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(directory: int, name: str, buffers: list[memoryview], *, replace: bool, durable: bool) -> None:
    """Give the directory a file of this name and content in one step, within ``TRANSFER_TIMEOUT`` or not at all.

    Raises FileExistsError when the name is taken and not ``replace``, TimeoutError, and OSError. Nothing is left behind
    then.
    """
    started = forward_seconds()
    if not replace and not any(buffer.nbytes for buffer in buffers):
        _publish_empty(directory, name, durable=durable)
        return
    descriptor, staged = _open_staged(directory)
    try:
        _write_all(descriptor, buffers)
        if durable:
            os.fsync(descriptor)
        _check_time(started)
        if replace:
            # An unnamed file cannot replace another one: it gets a name first, then moves over the old one.
            if staged is None:
                staged = _staged_name()
                _link(descriptor, None, directory, staged)
            os.rename(staged, name, src_dir_fd=directory, dst_dir_fd=directory)
            staged = None
        else:
            _link(descriptor, staged, directory, name)
        if durable:
            os.fsync(directory)
    finally:
        os.close(descriptor)
        if staged is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(staged, dir_fd=directory)


def _publish_empty(directory: int, name: str, *, durable: bool) -> None:
    """The same for an empty file, such as a marker: no content can be missing, so an exclusive open is one step."""
    os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE, dir_fd=directory))
    if durable:
        os.fsync(directory)


def read_all(path: str) -> bytes:
    """The file's whole content. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _read_up_to(descriptor, os.fstat(descriptor).st_size, 0)
    finally:
        os.close(descriptor)


def read_range(path: str, start: int, length: int) -> bytes:
    """Up to ``length`` bytes from byte ``start``. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return _read_up_to(descriptor, length, start)
    finally:
        os.close(descriptor)


def _read_up_to(descriptor: int, length: int, start: int) -> bytes:
    first = os.pread(descriptor, length, start)
    if len(first) == length:
        return first
    # One call reads at most 2 GiB, so a short answer is not the end; an empty one is.
    chunks = [first]
    position = start + len(first)
    end = start + length
    while chunks[-1] and position < end:
        chunks.append(os.pread(descriptor, end - position, position))
        position += len(chunks[-1])
    return b"".join(chunks)


def _check_time(started: float) -> None:
    """As an object store's client ends a request: what a process was paused in for hours must not take effect."""
    if forward_seconds() - started > TRANSFER_TIMEOUT.total_seconds():
        raise TimeoutError(errno.ETIMEDOUT, f"the write took longer than {TRANSFER_TIMEOUT}")


def _open_staged(directory: int) -> tuple[int, str | None]:
    """A new file in the directory: its descriptor, and its temporary name unless it has none.

    A file without a name vanishes with a killed process. File systems without such files (NFS, macOS) get a name.
    """
    unnamed: int | None = getattr(os, "O_TMPFILE", None)
    if unnamed is not None:
        try:
            return os.open(".", unnamed | os.O_WRONLY, _FILE_MODE, dir_fd=directory), None
        except OSError as error:
            if error.errno not in _NO_UNNAMED_FILES:
                raise
    name = _staged_name()
    return os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE, dir_fd=directory), name


def _staged_name() -> str:
    return f"{STAGED_PREFIX}{uuid.uuid4().hex}"


def _link(descriptor: int, staged: str | None, directory: int, name: str) -> None:
    if staged is None:
        # With a directory descriptor Python calls linkat with AT_SYMLINK_FOLLOW, which reaches the unnamed file.
        os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=True)
    else:
        os.link(staged, name, src_dir_fd=directory, dst_dir_fd=directory)


def _write_all(descriptor: int, buffers: list[memoryview]) -> None:
    pending = buffers
    while pending:
        written = os.writev(descriptor, pending[:_BUFFERS_PER_WRITE])
        done = 0
        while done < len(pending) and written >= pending[done].nbytes:
            written -= pending[done].nbytes
            done += 1
        pending = pending[done:]
        if written:
            pending = [pending[0][written:], *pending[1:]]
