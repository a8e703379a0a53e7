"""A running query and its end: waiting for it, stopping it between micro-batches, raising what really went wrong."""

from __future__ import annotations

import time
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from bucketingest.errors import BucketIngestError
from bucketingest.stream.errors import JvmFailed, QueryFailed
from bucketingest.stream.failures import essence
from bucketingest.stream.progress import Progress
from bucketingest.stream.query import MicroBatchFunction, StopRequested

_POLL_SECONDS: Final = 0.2


class RunningIngest:
    """A started ingestion. `wait` in the main thread; `request_stop` from anywhere, also from a signal handler."""

    def __init__(self, query: StreamingQuery, function: MicroBatchFunction) -> None:
        self.query = query
        self._function = function

    def progress(self) -> Progress:
        """What the query is doing now."""
        self._function.board.polled(self.query.lastProgress, self.query.status)
        return self._function.board.snapshot()

    def request_stop(self) -> None:
        """End the query after the micro-batch that is being written, if there is one."""
        self._function.stop_requested.set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the query has ended; False if it has not after the time-out.

        Raises the error that ended it: a BucketIngestError as it was raised, QueryFailed for everything else.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while deadline is None or time.monotonic() < deadline:
            try:
                if self.query.awaitTermination(_POLL_SECONDS):  # type: ignore[arg-type] # PySpark takes fractions
                    return True
            except StreamingQueryException as error:
                self._raise(error)
                return True
            except (Py4JError, OSError) as error:
                raise JvmFailed(
                    "Spark's JVM is gone, killed or out of memory (spark.driver.memory); the next start finishes or "
                    "takes back what was begun"
                ) from error
            self._stop_if_idle()
        return False

    def _stop_if_idle(self) -> None:
        """Stop a query that waits for data. The lock keeps a micro-batch from starting, so none is interrupted."""
        if self._function.stop_requested.is_set() and self._function.busy.acquire(blocking=False):
            try:
                self.query.stop()
            finally:
                self._function.busy.release()

    def _raise(self, error: StreamingQueryException) -> None:
        if self._function.stop_requested.is_set() and StopRequested.__name__ in str(error):
            return
        failure = self._function.failure
        if isinstance(failure, BucketIngestError):
            raise failure
        message, cause = essence(failure or error)
        raise QueryFailed(f"the query ended with an error: {message}", cause) from (failure or error)
