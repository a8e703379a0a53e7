"""The table's lock as Hudi's own writers take it, held only briefly: while the timeline is read and then changed.

Hudi's writers in optimistic or non-blocking concurrency mode take it around the start and the commit of each write.
We do the same, so their conflict check and our own see each other's commits.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, Protocol

from bucketingest.hudi.errors import LockHeld, UnsupportedTable
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.lock.file_lock import FileLock
from bucketingest.hudi.lock.storage_lock import StorageLock
from bucketingest.hudi.naming import HOODIE_DIRECTORY
from bucketingest.storage import ConditionalStorage, Storage

Provider = Literal["auto", "storage", "fileSystem", "none"]

PROVIDER_PROPERTY: Final = "hoodie.write.lock.provider"
FILE_SYSTEM_PATH_PROPERTY: Final = "hoodie.write.lock.filesystem.path"
_PAUSE_FIRST_SECONDS: Final = 0.05
_PAUSE_MAX_SECONDS: Final = 1.0

_PROVIDERS: Final[dict[str, Provider]] = {
    "StorageBasedLockProvider": "storage",
    "FileSystemBasedLockProvider": "fileSystem",
    "InProcessLockProvider": "none",
    "NoopLockProvider": "none",
}
"""Last part of the class name of Hudi's lock providers → our provider."""


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How the table's lock is taken."""

    provider: Provider = "auto"
    wait: timedelta = timedelta(seconds=60)
    """The longest wait for the lock."""
    validity: timedelta = timedelta(seconds=30)
    """After so long without renewal another writer may take the lock of a dead one."""


class HeldLock(Protocol):
    """A lock that we hold."""

    def check(self) -> None:
        """Raise LockLost unless we certainly still hold the lock."""
        ...

    def release(self) -> None:
        """Free it for other writers. Never raises StorageError."""
        ...


class LockForm(Protocol):
    """One of Hudi's ways to lock a table."""

    def try_take(self) -> HeldLock | str:
        """Take the lock, or return its holder. Does not wait."""
        ...


class HudiLock:
    """The table's lock, or no lock (form None). Shared by the threads of a job; a thread may enter it again."""

    def __init__(
        self,
        form: LockForm | None,
        wait: timedelta,
        *,
        where: str,
        monotonic: Callable[[], float] = forward_seconds,
        sleep: Callable[[float], None] = time.sleep,  # noqa: TID251 - the real one, unless given
    ) -> None:
        self._form = form
        self._wait = wait
        self._where = where
        self._monotonic = monotonic
        self._sleep = sleep
        self._threads = threading.RLock()
        self._held_lock: HeldLock | None = None

    @contextmanager
    def held(self) -> Iterator[HeldLock]:
        """Hold the lock inside the block; yields the held lock, which can check whether it is lost.

        Raises LockHeld if another writer keeps the lock longer than we wait.
        """
        if self._form is None:
            yield _NOTHING
            return
        if not self._threads.acquire(timeout=self._wait.total_seconds()):
            raise LockHeld(f"{self._where}: another thread of this process holds the table's lock for too long")
        try:
            if self._held_lock is not None:  # this thread entered before
                yield self._held_lock
                return
            self._held_lock = self._take(self._form)
            try:
                yield self._held_lock
            finally:
                held_lock, self._held_lock = self._held_lock, None
                held_lock.release()
        finally:
            self._threads.release()

    def check(self) -> None:
        """Raise LockLost if a thread of this job is inside `held` and may have lost the lock."""
        held_lock = self._held_lock
        if held_lock is not None:
            held_lock.check()

    def _take(self, form: LockForm) -> HeldLock:
        began = self._monotonic()
        pause = _PAUSE_FIRST_SECONDS
        while True:
            taken = form.try_take()
            if not isinstance(taken, str):
                return taken
            left = self._wait.total_seconds() - (self._monotonic() - began)
            if left <= 0:
                raise LockHeld(
                    f"{self._where}: the table's lock is held by {taken}; waited {self._wait.total_seconds():g} s. "
                    "If that writer is alive, wait for it or raise spec.table.lock.waitTimeout; if it is dead and left "
                    "a lock that does not expire, delete the lock file"
                )
            self._sleep(min(pause, left))
            pause = min(pause * 2, _PAUSE_MAX_SECONDS)


class _Nothing:
    """The held lock of a table without a lock."""

    def check(self) -> None:
        """Nothing can be lost."""

    def release(self) -> None:
        """Nothing is held."""


_NOTHING: Final = _Nothing()


def open_lock(
    storage: Storage,
    properties: Mapping[str, str],
    settings: LockSettings,
    owner: str,
    *,
    sleep: Callable[[float], None] = time.sleep,  # noqa: TID251 - the real one, unless given
) -> HudiLock:
    """The table's lock by its properties and the settings. `owner`: our name for other writers; `sleep`: waits while
    another writer holds it.

    Raises UnsupportedTable if that lock cannot be taken on this storage, or is unknown.
    """
    match chosen_provider(storage, properties, settings.provider):
        case "storage":
            assert isinstance(storage, ConditionalStorage), "the chosen lock fits the storage"
            form: LockForm | None = StorageLock(storage, owner, settings.validity)
        case "fileSystem":
            form = FileLock(storage, owner, settings.validity)
        case _:
            form = None
    return HudiLock(form, settings.wait, where=storage.url, sleep=sleep)


def chosen_provider(
    storage: Storage, properties: Mapping[str, str], wanted: Provider
) -> Literal["storage", "fileSystem", "none"]:
    """Which lock to take. Auto: the one that the table's properties name, else the lock object on object stores and no
    lock on file systems. Raises UnsupportedTable.
    """
    swaps = isinstance(storage, ConditionalStorage)
    named = properties.get(PROVIDER_PROPERTY)
    provider = wanted
    if wanted == "auto":
        provider = ("storage" if swaps else "none") if named is None else _known(storage, named)
    if provider == "storage" and not swaps:
        reason = (
            "the storage-based lock needs compare-and-swap, which file systems do not have: set "
            "spec.table.lock.provider to fileSystem or none, and Hudi's writers to the same lock"
        )
        raise UnsupportedTable(storage.url, [reason])
    if provider == "fileSystem":
        _check_file_system(storage, properties, swaps=swaps)
    assert provider != "auto", "auto has been resolved"
    return provider


def _known(storage: Storage, named: str) -> Provider:
    provider = _PROVIDERS.get(named.rpartition(".")[2])
    if provider is None:
        reason = (
            f"{PROVIDER_PROPERTY} is {named}: bucketingest cannot take that lock. Use Hudi's StorageBasedLockProvider "
            "or FileSystemBasedLockProvider; if no other writer works at the same time, set spec.table.lock.provider "
            "to none"
        )
        raise UnsupportedTable(storage.url, [reason])
    return provider


def _check_file_system(storage: Storage, properties: Mapping[str, str], *, swaps: bool) -> None:
    reasons = []
    if swaps:
        reasons.append(
            "the file-system lock is for file systems, Hudi refuses it on object stores: set spec.table.lock.provider "
            "to storage or none"
        )
    directory = properties.get(FILE_SYSTEM_PATH_PROPERTY)
    if directory is not None and directory.removeprefix("file:").rstrip("/") not in (
        f"{storage.url}/{HOODIE_DIRECTORY}",
        f"//{storage.url}/{HOODIE_DIRECTORY}",
    ):
        reasons.append(
            f"{FILE_SYSTEM_PATH_PROPERTY} is {directory}: bucketingest takes the lock in {HOODIE_DIRECTORY} of the "
            "table only, Hudi's default; leave the property out"
        )
    if reasons:
        raise UnsupportedTable(storage.url, reasons)
