"""The threads that keep catalogs up to date: one for each catalog, which looks at one table after the other. A catalog
that hangs keeps back no commit, and no other catalog.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from bucketingest.catalog.keeper import NOTICE_EVERY, CatalogKeeper


class CatalogThreads:
    """Keeps the tables' entries up to date; `add` and `forget` may be called by any thread."""

    def __init__(self, count: int) -> None:
        """`count`: of the catalogs."""
        self._lock = threading.Lock()
        self._keepers: dict[str, Sequence[CatalogKeeper]] = {}
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(at,), name=f"catalog {at}", daemon=True) for at in range(count)
        ]

    def start(self) -> None:
        """Begin, in threads that nobody waits for."""
        for thread in self._threads:
            thread.start()

    def stop(self, wait_seconds: float) -> None:
        """Take one last look at each table, and no other, as far as the time allows. What hangs longer ends with the
        process: what it did may be repeated.
        """
        self._ending.set()
        deadline = time.monotonic() + wait_seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def add(self, topic: str, keepers: Sequence[CatalogKeeper]) -> None:
        """A table is known: one keeper for each catalog, in their order."""
        for keeper in keepers:
            keeper.show()
        with self._lock:
            self._keepers[topic] = keepers

    def forget(self, topic: str) -> None:
        """The table is not known any more."""
        with self._lock:
            self._keepers.pop(topic, None)

    def _run(self, at: int) -> None:
        while True:
            last = self._ending.is_set()
            with self._lock:
                found = [keepers[at] for keepers in self._keepers.values()]
            for keeper in found:
                if last or keeper.is_due:
                    keeper.step()
            if last:
                return
            self._ending.wait(NOTICE_EVERY.total_seconds())
