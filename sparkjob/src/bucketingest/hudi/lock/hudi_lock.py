"""The table's lock as Hudi's own writers take it, held for moments only: while the timeline is read and then changed.

Hudi's writers in optimistic or non-blocking concurrency mode take it around the start and the commit of each write.
Holding it around ours, too, makes their conflict check and ours see each other's commits.
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
"""Hudi's lock providers by the last part of their class names → what it means for us."""


@dataclass(frozen=True, slots=True)
class LockSettings:
    """How the table's lock is taken."""

    provider: Provider = "auto"
    wait: timedelta = timedelta(seconds=60)
    """The longest wait for the lock."""
    validity: timedelta = timedelta(seconds=30)
    """After so long without renewal others may take the lock of a writer that died."""


class Grip(Protocol):
    """The lock is ours."""

    def check(self) -> None:
        """Raise LockLost unless the lock is still certainly ours."""
        ...

    def release(self) -> None:
        """Let others have it. Never raises for storage's sake."""
        ...


class LockForm(Protocol):
    """One of Hudi's ways to lock a table."""

    def try_take(self) -> Grip | str:
        """Take the lock, or say who holds it. Does not wait."""
        ...


class HudiLock:
    """The table's lock, or none (form None). Shared by the threads of a job; a thread may enter it again."""

    def __init__(
        self,
        form: LockForm | None,
        wait: timedelta,
        *,
        where: str,
        monotonic: Callable[[], float] = forward_seconds,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._form = form
        self._wait = wait
        self._where = where
        self._monotonic = monotonic
        self._sleep = sleep
        self._threads = threading.RLock()
        self._grip: Grip | None = None

    @contextmanager
    def held(self) -> Iterator[Grip]:
        """Hold the lock inside the block; what is yielded can be asked whether it is still ours.

        Raises LockHeld when somebody else keeps the lock longer than we wait.
        """
        if self._form is None:
            yield _NOTHING
            return
        if not self._threads.acquire(timeout=self._wait.total_seconds()):
            raise LockHeld(f"{self._where}: another thread of this process holds the table's lock for too long")
        try:
            if self._grip is not None:  # by this very thread, further out
                yield self._grip
                return
            self._grip = self._take(self._form)
            try:
                yield self._grip
            finally:
                grip, self._grip = self._grip, None
                grip.release()
        finally:
            self._threads.release()

    def check(self) -> None:
        """Raise LockLost if a thread of this job is inside `held` and the lock is not certainly ours any more."""
        grip = self._grip
        if grip is not None:
            grip.check()

    def _take(self, form: LockForm) -> Grip:
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
                    "a lock without an end, delete the lock file"
                )
            self._sleep(min(pause, left))
            pause = min(pause * 2, _PAUSE_MAX_SECONDS)


class _Nothing:
    """What is held where there is no lock."""

    def check(self) -> None:
        """Nothing can be lost."""

    def release(self) -> None:
        """Nothing is held."""


_NOTHING: Final = _Nothing()

NO_LOCK: Final = HudiLock(None, timedelta(0), where="")
"""For a table that nobody else writes at the same time."""


def open_lock(
    storage: Storage,
    properties: Mapping[str, str],
    settings: LockSettings,
    owner: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> HudiLock:
    """The table's lock as its properties and the settings say. `owner`: how others shall read who holds it; `sleep`:
    is what waits while somebody else does.

    Raises UnsupportedTable if that lock cannot be taken on this storage, or is one that we do not know.
    """
    match chosen_provider(storage, properties, settings.provider):
        case "storage":
            assert isinstance(storage, ConditionalStorage), "what was chosen fits the storage"
            form: LockForm | None = StorageLock(storage, owner, settings.validity)
        case "fileSystem":
            form = FileLock(storage, owner, settings.validity)
        case _:
            form = None
    return HudiLock(form, settings.wait, where=storage.url, sleep=sleep)


def chosen_provider(
    storage: Storage, properties: Mapping[str, str], wanted: Provider
) -> Literal["storage", "fileSystem", "none"]:
    """Which lock to take. Auto: what the table's properties name, else the lock object on object stores and none on
    file systems. Raises UnsupportedTable.
    """
    swaps = isinstance(storage, ConditionalStorage)
    named = properties.get(PROVIDER_PROPERTY)
    provider = wanted
    if wanted == "auto":
        provider = ("storage" if swaps else "none") if named is None else _known(storage, named)
    if provider == "storage" and not swaps:
        reason = (
            "the storage-based lock needs a store that can compare and swap, which file systems cannot: set "
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
