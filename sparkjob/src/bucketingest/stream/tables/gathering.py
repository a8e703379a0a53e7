"""Brings the micro-batches of tables together that are ready at about the same time: each table's thread hands its own
in and waits; one thread writes what has come as one job.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future
from typing import Final

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.stream.tables.combined import Work, Write
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)

WAIT_SECONDS: Final = 1.0
"""So long the first one waits for the others: one whose storage is slow comes with the next job."""
_POLL_SECONDS: Final = 0.05


class Ended(Exception):
    """The job ends: nothing more is written."""


class Gathering:
    """`submit` from the tables' threads; a thread of its own writes, from `start` until `stop`."""

    def __init__(self, write: Write) -> None:
        """`write`: as `write_combined`."""
        self._write = write
        self._announced: set[str] = set()
        """Tables that may hand something in soon."""
        self._came = threading.Condition()
        self._waiting: list[tuple[Work, Future[list[WriteStatus]]]] = []
        self._first = 0.0
        self._ends = False
        self.written_at = forward_seconds()
        """When the last job's tasks had all ended, by the forward clock."""
        self._thread = threading.Thread(target=self._run, name="tables-jobs", daemon=True)

    def start(self) -> None:
        """Write from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more; what waits is not written, and its table's thread gets Ended."""
        with self._came:
            self._ends = True
            self._came.notify_all()

    def announce(self, topic: str) -> None:
        """A table will hand something in, or withdraw."""
        with self._came:
            self._announced.add(topic)

    def withdraw(self, topic: str) -> None:
        """A table that was announced does not."""
        with self._came:
            self._announced.discard(topic)
            self._came.notify_all()

    def submit(self, topic: str, work: Work) -> list[WriteStatus]:
        """Write it with others, and wait. Raises what its tasks do, and Ended."""
        future: Future[list[WriteStatus]] = Future()
        with self._came:
            if self._ends:
                raise Ended
            if not self._waiting:
                self._first = forward_seconds()
            self._waiting.append((work, future))
            self._announced.discard(topic)
            self._came.notify_all()
        return future.result()

    def _run(self) -> None:
        while (taken := self._taken()) is not None:
            try:
                answers = self._write([work for work, _ in taken])
            except BaseException as error:  # noqa: BLE001 - each table's thread raises it
                for _, future in taken:
                    future.set_exception(error)
                continue
            self.written_at = forward_seconds()
            for (_, future), answer in zip(taken, answers, strict=True):
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        with self._came:
            for _, future in self._waiting:
                future.set_exception(Ended())

    def _taken(self) -> list[tuple[Work, Future[list[WriteStatus]]]] | None:
        """What is written next; None at the end."""
        with self._came:
            while not self._ends:
                if self._waiting:
                    late = forward_seconds() - self._first >= WAIT_SECONDS
                    if late or not self._announced:
                        taken, self._waiting = self._waiting, []
                        return taken
                self._came.wait(_POLL_SECONDS if self._waiting else None)
            return None
