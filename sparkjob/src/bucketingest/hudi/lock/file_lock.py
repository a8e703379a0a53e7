"""Hudi's file-system lock: the existence of one file, as its FileSystemBasedLockProvider takes it on a local disk.

Hudi's file is empty, ours says who made it; Hudi does not mind. Hudi's way is weak (its writer may truncate or delete
the file of another at the same moment, seen in the sources of 1.2.0), so we look whether the file is still ours after
making it, and whenever we are asked.
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
"""Where Hudi 1.2.0 has it unless it is told otherwise."""
_DRIFT: Final = timedelta(seconds=2)


class FileLock:
    """The lock file of one table, as one writer takes it.

    A lock file of Hudi's never ends by itself and is never removed by us. One of ours that was left behind is removed
    once its process is dead or its time is over: whoever takes this lock holds the table's lease, so no two do that.
    """

    def __init__(
        self, storage: Storage, owner: str, validity: timedelta, *, clock: Callable[[], datetime] = utc_now
    ) -> None:
        self._storage = storage
        self._owner = owner
        self._validity = validity
        self._clock = clock

    def try_take(self) -> FileGrip | str:
        """Take the lock, or say who holds it. Raises StorageError."""
        content = _content(self._owner, self._clock() + self._validity)
        try:
            self._storage.create(LOCK_PATH, content)
        except AlreadyExists:
            try:
                stored = self._storage.get(LOCK_PATH)
                made = self._storage.head(LOCK_PATH).modified
            except NotFound:
                return "another writer, that was faster"
            return self._holder(stored, made)
        grip = FileGrip(self._storage, content)
        return grip if grip.is_ours() else "a Hudi writer that came at the same moment"

    def _holder(self, stored: bytes, made: datetime) -> str:
        """Who made the file that is there; if it was left behind, it is removed."""
        try:
            found = json.loads(stored)
            owner, until = found["owner"], datetime.fromtimestamp(found["validUntil"] / 1000, UTC)
            process = ProcessIdentity.from_json(found)
        except (ValueError, KeyError, TypeError):
            return f"a Hudi writer ({self._storage.absolute(LOCK_PATH)}, made {made:%Y-%m-%d %H:%M:%S} UTC)"
        if process.is_dead() or self._clock() > until + _DRIFT:
            log.warning("removes a lock that was left behind", extra={"left_by": owner})
            self._storage.delete(LOCK_PATH)
        return f"{owner}, valid until {until:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class FileGrip:
    """The lock file is ours."""

    storage: Storage
    content: bytes

    def is_ours(self) -> bool:
        """Whether the file still says what we wrote. Raises StorageError."""
        try:
            return self.storage.get(LOCK_PATH) == self.content
        except NotFound:
            return False

    def check(self) -> None:
        """Raise LockLost unless the file is still ours: reads it."""
        if not self.is_ours():
            raise LockLost(
                f"{self.storage.absolute(LOCK_PATH)}: another writer took the table's lock while we held it; nothing "
                "is committed now"
            )

    def release(self) -> None:
        """Remove the file if it is ours."""
        try:
            if self.is_ours():
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
            "id": str(uuid.uuid4()),
            "validUntil": int(until.timestamp() * 1000),
        }
    ).encode()
