"""Hudi's file-system lock: the existence of one file, as its FileSystemBasedLockProvider takes it on a local disk.

Hudi's file is empty; our file names its writer, which Hudi ignores. Hudi's lock is weak (its writer may truncate or
delete another writer's file at the same moment, seen in the sources of 1.2.0), so we check that the file is still our
own after creating it, and at each `check`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bucketingest.hudi.errors import LockLost
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.lock.process_identity import ProcessIdentity
from bucketingest.storage import AlreadyExists, NotFound, Storage, StorageError

log = logging.getLogger(__name__)

LOCK_PATH: Final = ".hoodie/lock"
"""Hudi 1.2.0's default path."""
_DRIFT: Final = timedelta(seconds=2)


class FileLock:
    """The lock file of one table, as one writer takes it.

    A lock file of Hudi never expires, and we never remove it. Our own file that was left behind is removed once its
    process is dead or it has expired. Only the job with the table's lease takes this lock, so no two jobs do that.
    """

    def __init__(
        self, storage: Storage, owner: str, validity: timedelta, *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._storage = storage
        self._owner = owner
        self._validity = validity
        self._clock = clock

    def try_take(self) -> HeldFileLock | str:
        """Take the lock, or return its holder. Raises StorageError."""
        content = _content(self._owner, self._clock() + self._validity)
        try:
            self._storage.create(LOCK_PATH, content)
        except AlreadyExists:
            try:
                stored = self._storage.get(LOCK_PATH)
                made = self._storage.head(LOCK_PATH).modified
            except NotFound:
                return "another writer, which was faster"
            return self._holder(stored, made)
        held = HeldFileLock(self._storage, content)
        return held if held.is_held() else "a Hudi writer that came at the same moment"

    def _holder(self, stored: bytes, made: datetime) -> str:
        """The writer of the existing file; if the file was left behind, it is removed."""
        try:
            found = json.loads(stored)
            owner, until = found["owner"], datetime.fromtimestamp(found["validUntil"] / 1000, UTC)
            process = ProcessIdentity.from_json(found)
        except (ValueError, KeyError, TypeError):
            return f"a Hudi writer ({self._storage.absolute(LOCK_PATH)}, made {made:%Y-%m-%d %H:%M:%S} UTC)"
        if process.is_dead() or self._clock() > until + _DRIFT:
            log.warning("removing a lock that was left behind", extra={"left_by": owner})
            self._storage.delete(LOCK_PATH)
        return f"{owner}, valid until {until:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class HeldFileLock:
    """Our lock file, while we hold the lock."""

    storage: Storage
    content: bytes

    def is_held(self) -> bool:
        """Whether the file still has our content. Raises StorageError."""
        try:
            return self.storage.get(LOCK_PATH) == self.content
        except NotFound:
            return False

    def check(self) -> None:
        """Raise LockLost unless we still hold the lock: reads the file."""
        if not self.is_held():
            raise LockLost(
                f"{self.storage.absolute(LOCK_PATH)}: another writer took the table's lock while we held it; nothing "
                "is committed now"
            )

    def release(self) -> None:
        """Remove the file if we still hold the lock."""
        try:
            if self.is_held():
                self.storage.delete(LOCK_PATH)
                return
        except StorageError as error:
            log.warning("the table's lock was not released", extra={"reason": str(error)})
            return
        log.warning("another writer took the table's lock while we held it", extra={"table": self.storage.url})


def _content(owner: str, until: datetime) -> bytes:
    return json.dumps(
        {
            "owner": owner,
            **ProcessIdentity.own().to_json(),
            "id": str(uuid.uuid4()),  # noqa: TID251 - names the owner, decides nothing
            "validUntil": int(until.timestamp() * 1000),
        }
    ).encode()
