"""Renews an instant's heartbeat while its tasks run, however long they take."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from bucketingest.hudi.timeline import heartbeat
from bucketingest.storage import Storage, StorageError

log = logging.getLogger(__name__)


@contextmanager
def beating(
    storage: Storage, instant: str, interval: timedelta = heartbeat.INTERVAL, content: bytes = b""
) -> Iterator[None]:
    """Renew the instant's heartbeat after each interval, on a thread that ends with the context.

    A failed beat is not retried before the next one: by Hudi's default two may be missing.
    """
    ended = threading.Event()

    def beat_on() -> None:
        while not ended.wait(interval.total_seconds()):
            try:
                heartbeat.beat(storage, instant, content)
            except StorageError as error:
                log.warning("missed a heartbeat", extra={"instant": instant, "reason": str(error)})

    thread = threading.Thread(target=beat_on, name=f"heartbeat-{instant}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
