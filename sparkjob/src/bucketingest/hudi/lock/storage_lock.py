"""Hudi's storage-based lock: one object, taken, renewed and released by conditional writes.

Format and rules are those of Hudi 1.2.0's StorageBasedLockProvider, seen in what it wrote and took over.
"""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from bucketingest.hudi.errors import InvalidTable, LockLost, LockNotRenewed
from bucketingest.hudi.lock.clocks import forward_seconds, utc_now
from bucketingest.hudi.lock.renewal_thread import RenewalThread
from bucketingest.storage import AlreadyExists, Changed, ConditionalStorage, NotFound, StorageError, Version

log = logging.getLogger(__name__)

LOCK_PATH: Final = ".hoodie/.locks/table_lock.json"
CLOCK_DRIFT: Final = timedelta(milliseconds=500)
"""How much longer than `validUntil` says Hudi 1.2.0 waits before it takes another writer's lock."""
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class LockContent:
    """What the lock object says; `valid_until_ms` in milliseconds since 1970."""

    expired: bool
    """Released."""
    valid_until_ms: int
    owner: str

    def encode(self) -> bytes:
        """As Hudi writes it: JSON with these names in this order, no spaces."""
        stored = {"expired": self.expired, "validUntil": self.valid_until_ms, "owner": self.owner}
        return json.dumps(stored, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes, path: str) -> Self:
        """From the bytes of any writer; unknown fields are ignored, as Hudi does. Raises InvalidTable."""
        try:
            stored = json.loads(content)
            return cls(bool(stored["expired"]), int(stored["validUntil"]), str(stored["owner"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidTable(f"{path} is not a lock of Hudi ({error!r}): stop all writers, then delete it") from error

    def is_free(self, now_ms: int) -> bool:
        """Whether a writer may take the lock, by Hudi's rule."""
        return self.expired or now_ms > self.valid_until_ms + CLOCK_DRIFT // _MS

    def describe(self) -> str:
        """The holder and the end of its lock, for messages."""
        until = datetime.fromtimestamp(self.valid_until_ms / 1000, UTC)
        return f"{self.owner}, valid until {until:%Y-%m-%d %H:%M:%S} UTC"


class StorageLock:
    """The lock object of one table, as one writer takes it. Used by one thread at a time."""

    def __init__(
        self,
        storage: ConditionalStorage,
        owner: str,
        validity: timedelta,
        *,
        clock: Callable[[], datetime] = utc_now,
        monotonic: Callable[[], float] = forward_seconds,
    ) -> None:
        self._storage = storage
        self._owner = f"{owner} {uuid.uuid4()}"  # noqa: TID251 - as in Hudi one owner per instance
        self._validity = validity
        self._clock = clock
        self._monotonic = monotonic
        self._released: Version | None = None
        """Version of our last release: if it is unchanged, no writer has held the lock since, and no read is needed."""

    def try_take(self) -> HeldStorageLock | str:
        """Take the lock, or return its holder. Raises InvalidTable, StorageError."""
        until = self.usable_until()
        wanted = self.content()
        if self._released is not None:
            released, self._released = self._released, None
            try:
                return HeldStorageLock(self, wanted, self._storage.replace(LOCK_PATH, wanted.encode(), released), until)
            except (Changed, NotFound):
                pass
        try:
            stored, version = self._storage.get_versioned(LOCK_PATH)
        except NotFound:
            return self._create(wanted, until)
        found = self._decode(stored)
        # Our own lock that we do not hold is one whose answer was lost.
        if not found.is_free(self._now_ms()) and found.owner != self._owner:
            return found.describe()
        try:
            return HeldStorageLock(self, wanted, self._storage.replace(LOCK_PATH, wanted.encode(), version), until)
        except (Changed, NotFound):
            return "another writer, which was faster"

    def content(self) -> LockContent:
        """Content that makes the lock our own, from now on."""
        return LockContent(expired=False, valid_until_ms=self._now_ms() + self._validity // _MS, owner=self._owner)

    def usable_until(self) -> float:
        """Forward-clock time until which a request sent now holds the lock: well before it expires for others."""
        return self._monotonic() + (self._validity * 2 / 3).total_seconds()

    def write(self, content: LockContent, version: Version) -> Version | None:
        """Write our lock over this version; returns the new one, None if another writer has it. Raises StorageError."""
        try:
            return self._storage.replace(LOCK_PATH, content.encode(), version)
        except (Changed, NotFound):
            pass
        try:
            stored, found = self._storage.get_versioned(LOCK_PATH)
            if self._decode(stored).owner == self._owner:  # by our own write whose answer was lost
                return self._storage.replace(LOCK_PATH, content.encode(), found)
        except (Changed, NotFound):
            pass
        return None

    def released(self, version: Version) -> None:
        """Remember our release."""
        self._released = version

    def renewal_thread(self, renew: Callable[[], bool]) -> RenewalThread:
        """A thread that renews the lock in time."""
        return RenewalThread("hudi-lock", self._validity / 3, renew)

    def is_past(self, until: float) -> bool:
        """Whether the forward clock has reached this time."""
        return self._monotonic() >= until

    @property
    def where(self) -> str:
        """Full name of the object."""
        return self._storage.absolute(LOCK_PATH)

    @property
    def patience(self) -> timedelta:
        """How long to wait for a running renewal before the lock is left to expire."""
        return self._validity / 3

    def _create(self, wanted: LockContent, until: float) -> HeldStorageLock | str:
        try:
            self._storage.create(LOCK_PATH, wanted.encode())
            stored, version = self._storage.get_versioned(LOCK_PATH)
        except (AlreadyExists, NotFound):
            return "another writer, which was faster"
        found = self._decode(stored)
        return HeldStorageLock(self, wanted, version, until) if found == wanted else found.describe()

    def _decode(self, stored: bytes) -> LockContent:
        return LockContent.decode(stored, self.where)

    def _now_ms(self) -> int:
        return (self._clock() - datetime.fromtimestamp(0, UTC)) // _MS


class HeldStorageLock:
    """The lock object, while we hold it; a thread renews it until it is released."""

    def __init__(self, lock: StorageLock, content: LockContent, version: Version, until: float) -> None:
        self._lock = lock
        self._content = content
        self._version = version
        self._until = until
        self._lost = False
        self._asks = False
        self._changing = threading.Lock()
        self._renewal_thread = lock.renewal_thread(self.renew)

    def check(self) -> None:
        """Raise LockLost unless we certainly still hold the lock. No I/O."""
        if self._lost:
            raise LockLost(f"{self._lock.where}: another writer took the table's lock; nothing is committed now")
        if self._lock.is_past(self._until):
            why = "storage has not answered the renewal" if self._asks else "the process was paused"
            raise (LockNotRenewed if self._asks else LockLost)(
                f"{self._lock.where}: the table's lock was not renewed in time: {why}; nothing is committed now"
            )

    def renew(self) -> bool:
        """Extend the lock; False if it is lost. Raises StorageError, then the outcome is unknown."""
        with self._changing:
            self._asks = True
            until = self._lock.usable_until()
            content = self._lock.content()
            version = self._lock.write(content, self._version)
            if version is None:
                self._lost = True
                log.error("lost the table's lock", extra={"lock": self._lock.where})
                return False
            self._version, self._content, self._until = version, content, until
            self._asks = self._lock.is_past(until)
            return True

    def release(self) -> None:
        """Free the lock for other writers immediately; if that fails it expires by itself."""
        if not self._renewal_thread.stop(self._lock.patience) or self._lost:
            return
        try:
            version = self._lock.write(replace(self._content, expired=True), self._version)
        except StorageError as error:
            log.warning("the table's lock was not released and must expire", extra={"reason": str(error)})
            return
        if version is not None:
            self._lock.released(version)
