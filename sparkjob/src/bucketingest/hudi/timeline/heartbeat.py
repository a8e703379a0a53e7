"""Heartbeat of a pending instant, by which Hudi's lazily cleaning writers distinguish live and failed instants."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from bucketingest.hudi.naming import HEARTBEAT_DIRECTORY
from bucketingest.storage.errors import NotFound, StorageError
from bucketingest.storage.interface import Storage

log = logging.getLogger(__name__)

INTERVAL = timedelta(seconds=60)
"""Time between beats: Hudi 1.2.0's default of hoodie.client.heartbeat.interval_in_ms."""

TOLERABLE_MISSES = 2
"""Beats that may be missing before an instant counts as dead: Hudi 1.2.0's default."""


def heartbeat_path(instant_time: str) -> str:
    """Path of an instant's heartbeat, relative to the table's root."""
    return f"{HEARTBEAT_DIRECTORY}/{instant_time}"


def beat(storage: Storage, instant_time: str, content: bytes = b"") -> None:
    """Renew the heartbeat: only its modification time counts. Hudi's are empty; other `content` says whose it is.

    The first beat must come before the requested file, so that no writer sees a requested instant without one.
    """
    storage.put(heartbeat_path(instant_time), content)


def last_beat(storage: Storage, instant_time: str) -> datetime | None:
    """Time of the last beat by the store's clock; None if there is no heartbeat."""
    try:
        return storage.head(heartbeat_path(instant_time)).modified
    except NotFound:
        return None


def is_expired(
    last: datetime | None, now: datetime, interval: timedelta = INTERVAL, tolerable_misses: int = TOLERABLE_MISSES
) -> bool:
    """Whether Hudi 1.2.0 treats the instant as dead: no heartbeat, or one older than `interval * tolerable_misses`."""
    return last is None or now - last > interval * tolerable_misses


def stop(storage: Storage, instant_time: str) -> None:
    """Remove the heartbeat: after completion, or as the last step of a rollback."""
    storage.delete(heartbeat_path(instant_time))


@contextmanager
def beating(storage: Storage, instant: str, interval: timedelta = INTERVAL, content: bytes = b"") -> Iterator[None]:
    """Renew the instant's heartbeat after each interval, on a thread that ends with the context.

    A failed beat is not retried before the next one: by Hudi's default two may be missing.
    """
    ended = threading.Event()

    def beat_on() -> None:
        while not ended.wait(interval.total_seconds()):
            try:
                beat(storage, instant, content)
            except StorageError as error:
                log.warning("missed a heartbeat", extra={"instant": instant, "reason": str(error)})

    thread = threading.Thread(target=beat_on, name=f"heartbeat-{instant}", daemon=True)  # noqa: TID251 - beats while the work runs
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
