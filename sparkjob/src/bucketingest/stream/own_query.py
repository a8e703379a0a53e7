"""The loop that runs micro-batches that are planned here and not by Spark: of files, and of Kafka where commits are
less than a second apart. In a thread of its own, with the calls that Spark's queries have: what waits for a query,
stops it and reports on it is the same for all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Generic, Protocol, TypeVar

_Batch_co = TypeVar("_Batch_co", covariant=True)
_Batch = TypeVar("_Batch")
_THREAD: Final = "micro-batches"
_LOOK_SECONDS: Final = 0.1
"""Between two looks at a source without new input, at least."""
_LOOK_SHARE: Final = 10
"""Looks that find nothing take at most one of so many seconds: one at a million files takes long."""


class OwnQueryFailed(Exception):
    """The loop has ended with the error that is its cause."""


class Planner(Protocol[_Batch_co]):
    """Knows what comes next."""

    def next(self) -> _Batch_co | None:
        """The next micro-batch; None: the source has nothing new."""


class OwnQuery(Generic[_Batch]):
    """A running query. The same calls as PySpark's `StreamingQuery`, as far as they are used."""

    def __init__(
        self,
        planner: Planner[_Batch],
        write: Callable[[_Batch], None],
        *,
        trigger: timedelta | None,
        stopped: tuple[type[Exception], ...],
    ) -> None:
        """`write`: writes a micro-batch. `trigger`: time between starts of micro-batches; None: end with the input.
        `stopped`: errors of `write` that are no failures.
        """
        self._planner = planner
        self._write = write
        self._trigger = None if trigger is None else trigger.total_seconds()
        self._stopped = stopped
        self._stopping = threading.Event()
        self._error: BaseException | None = None
        self._is_waiting = False
        self._has_found = True
        """Whether the last look found something: then there may be more."""
        self._thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        """Whether it has not ended."""
        return self._thread.is_alive()

    @property
    def lastProgress(self) -> Any:  # noqa: N802 - Spark's name
        """Nothing: what a micro-batch took is in the log."""
        return None

    @property
    def status(self) -> dict[str, Any]:
        """Whether it waits for input, as Spark says it."""
        waiting = self._is_waiting
        message = "Waiting for input" if waiting else "Processing input"
        return {"message": message, "isTriggerActive": not waiting, "isDataAvailable": not waiting or self._has_found}

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - Spark's name
        """Wait for the end; False if it has not come in these seconds. Raises OwnQueryFailed."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise OwnQueryFailed(str(self._error)) from self._error
        return True

    def stop(self) -> None:
        """End it, after the micro-batch that is being written."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                started = time.monotonic()
                batch = self._planner.next()
                looked = time.monotonic() - started
                self._has_found = batch is not None
                if batch is not None:
                    self._write(batch)
                elif self._trigger is None:
                    return
                self._pause(started, None if batch is not None else looked)
        except self._stopped:
            return
        except BaseException as error:  # noqa: BLE001 - the thread that waits raises it
            self._error = error

    def _pause(self, started: float, looked: float | None) -> None:
        if self._trigger is None:
            return
        left = started + interval(self._trigger, looked) - time.monotonic()
        self._is_waiting = True
        self._stopping.wait(max(0.0, left))
        self._is_waiting = False


def interval(trigger: float, looked: float | None) -> float:
    """Seconds between the starts of two looks. `looked`: how long the first took, if it found nothing. Pure."""
    return trigger if looked is None else max(trigger, _LOOK_SECONDS, _LOOK_SHARE * looked)
