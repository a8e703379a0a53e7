"""A running query and its end: committing between micro-batches, starting again when the table was rolled back or Kafka
answers again, stopping, raising the error that really ended it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.catalog.keeping import CatalogThreads
from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.lease.table_lease import TableLease
from bucketingest.stream.errors import JvmFailed, QueryFailed, SourceUnreachable
from bucketingest.stream.foreach_batch import StopRequested
from bucketingest.stream.own_query import OwnQuery, OwnQueryFailed
from bucketingest.stream.report.progress import Progress
from bucketingest.stream.source.columns_schema import SchemaGrown
from bucketingest.stream.spark.executors import registered_executors
from bucketingest.stream.spark.failures import checkpoint_failure, essence, got_no_answer
from bucketingest.stream.starter import Query, QueryStarter
from bucketingest.write.errors import ColumnsChanged, PositionLost

log = logging.getLogger(__name__)

RESTARTS_MAX: Final = 10
"""How often one process starts again because other writers rolled instants back, before it fails."""
_POLL_SECONDS: Final = 0.2
Reopen = Callable[[SchemaGrown | None, threading.Event], QueryStarter]
"""Opens the table again, with the columns that are asked for, or those that it has now. The event: the job is to
stop.
"""
CATALOG_SECONDS: Final = 30.0
"""So long a run that ends with its input waits for a catalog to take its last commit."""
ONCE_WAITS_SECONDS: Final = 60.0
"""So long a run that ends with its input waits for Kafka; any other waits until it answers."""


class RunningIngest:
    """A started ingestion. `wait` in the main thread: it also commits instants that are due while no micro-batch is
    written. `request_stop` from anywhere, also from a signal handler.
    """

    def __init__(
        self,
        starter: QueryStarter,
        lease: TableLease,
        catalogs: Sequence[CatalogKeeper] = (),
        reopen: Reopen | None = None,
    ) -> None:
        """`reopen`: makes another starter when the columns become more."""
        self._starter = starter
        self._reopen = reopen
        self._catalogs = CatalogThreads(len(catalogs))
        self._lease = lease
        self._function = starter.function
        self._restarts = 0
        self._unanswered_since: float | None = None
        self._asked = 0.0
        self.query: Query | None = None
        """None while Kafka does not answer."""
        self._begin()
        self._catalogs.add("", catalogs)
        self._catalogs.start()

    def progress(self) -> Progress:
        """What the query is doing now."""
        board = self._function.board
        if self.query is not None:
            board.polled(self.query.lastProgress, self.query.status)
        board.executors(registered_executors(self._starter.rows.sparkSession), self._function.executors_wanted)
        return board.snapshot()

    def request_stop(self) -> None:
        """End the query after the micro-batch that is being written, if there is one, and commit what is written."""
        self._function.board.stopping()
        self._function.stop_requested.set()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the query has ended; False if it has not after the time-out.

        Raises the error that ended it: a BucketIngestError as it was raised, QueryFailed for everything else. LeaseLost
        at once when another job took the table: a micro-batch may wait for ever, as for executors that are gone.
        """
        try:
            ended = self._wait(None if timeout_seconds is None else time.monotonic() + timeout_seconds)
        except Exception:
            self._release()
            raise
        if ended:
            self._release()
        return ended

    def _release(self) -> None:
        if self._starter.topics is not None:
            self._starter.topics.close()
        if self._starter.whole is not None:
            self._starter.whole.close()
        self._function.stop_services()
        self._lease.release()
        # A run that ends with its input has no later time for its last commit.
        self._catalogs.stop(CATALOG_SECONDS if self._starter.once else 0.0)

    @property
    def service_pid(self) -> int | None:
        """Process id of the table services beside the query, if they run."""
        return self._function.service_pid

    def _wait(self, deadline: float | None) -> bool:
        while deadline is None or time.monotonic() < deadline:
            try:
                self._lease.refuse_taken()
                if self._has_ended_for_good():
                    return True
            except SourceUnreachable as error:
                self._wait_for_source(error)
            except Exception as error:
                # Another OSError is of this process's disk, say.
                if isinstance(error, Py4JError | ConnectionError) or got_no_answer(error):
                    raise _jvm_failed() from error
                raise
        return False

    def _has_ended_for_good(self) -> bool:
        """Wait a moment for the query's end; start another one if it ended for that."""
        try:
            return self._has_ended()
        except PositionLost as error:
            if self._function.stop_requested.is_set():
                log.warning("stopped; the next start ingests again", extra={"reason": str(error)})
                self._stop()
                return True
            self._start_again(error)
        except SchemaGrown as grown:
            self._open_again(grown)
        except ColumnsChanged as error:
            log.warning("opening the table again", extra={"reason": str(error)})
            self._open_again(None)
        return False

    def _has_ended(self) -> bool:
        """Wait a moment for the query's end, and do what is due between micro-batches."""
        if self.query is None:
            return self._waited()
        try:
            ended = bool(self.query.awaitTermination(_POLL_SECONDS))  # type: ignore[arg-type] # PySpark takes fractions
        except (StreamingQueryException, OwnQueryFailed) as error:
            self._raise(error)
            ended = True
        if ended:
            with self._function.busy:
                self._function.keep_beginning()
                self._function.commit(now=True)
            ended = self._are_services_done()
        elif self._function.busy.acquire(blocking=False):  # held, it keeps a micro-batch from starting
            try:
                self._commit_or_stop()
            finally:
                self._function.busy.release()
            if not self._function.stop_requested.is_set():
                self._leave_spark()
        return ended

    def _leave_spark(self) -> None:
        """From the first commit on, the micro-batches of some pipelines need no query of Spark's."""
        is_sparks = self.query is not None and not isinstance(self.query, OwnQuery)
        if is_sparks and self._starter.leaves_spark(self._starter.coordinator.position):
            self._stop()
            self._begin()

    def _begin(self) -> None:
        """Start the query, or wait until its source answers."""
        try:
            self.query = self._starter.start()
        except SourceUnreachable as error:
            self._wait_for_source(error)

    def _wait_for_source(self, error: SourceUnreachable) -> None:
        """There is no query until Kafka answers. Raises the error where nobody would wait for that."""
        topics, now = self._starter.topics, time.monotonic()
        if topics is None:
            raise error
        self._asked = forward_seconds()
        if self.query is not None:
            self.query = None
            self._starter.coordinator.start()  # only then an instant that a micro-batch of it failed can be committed
            self._function.board.query_ended(self._starter.coordinator.inflight)
        if self._unanswered_since is None:
            self._unanswered_since = now
            log.warning("waiting for Kafka; no restart is needed", extra={"reason": str(error)})
        elif self._starter.once and now - self._unanswered_since > ONCE_WAITS_SECONDS:
            raise error

    def _waited(self) -> bool:
        """Wait a moment for Kafka, and do what is due; whether the job is to stop."""
        stopping = self._function.stop_requested.wait(_POLL_SECONDS)
        with self._function.busy:
            self._function.commit(now=stopping)
            if not stopping:
                self._function.serve_table()
        topics = self._starter.topics
        assert topics is not None, "only Kafka is waited for"
        waited = 0.0 if self._unanswered_since is None else time.monotonic() - self._unanswered_since
        is_late = self._starter.once and waited > ONCE_WAITS_SECONDS
        if not stopping and (is_late or topics.watch.has_answered_since(self._asked)):
            self._begin()
            if self.query is not None:
                self._unanswered_since = None
        return stopping

    def _are_services_done(self) -> bool:
        """A run that ended with its input has no later time for table services: they do what is due now."""
        stop = self._function.stop_requested
        if not self._starter.once or stop.is_set():
            return True
        with self._function.busy:
            done = self._function.finish_services()
        return done or stop.wait(_POLL_SECONDS)

    def _commit_or_stop(self) -> None:
        self._function.keep_beginning()
        if self._function.stop_requested.is_set():
            self._function.commit(now=True)
            self._stop_query()
        else:
            self._function.commit(now=False)
            self._function.serve_table()
            self._function.scale()

    def _start_again(self, error: PositionLost) -> None:
        """The table was rolled back behind the query: start again from the table, with a new checkpoint."""
        self._function.board.position_lost()
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise error
        log.warning("starting again from the table", extra={"reason": str(error), "restarts": self._restarts})
        self._stop()
        self._begin()

    def _open_again(self, grown: SchemaGrown | None) -> None:
        """Start again from the table with more columns. Nothing of the micro-batch is written; what the open instant
        has of earlier ones is written again.
        """
        assert self._reopen is not None, "the table's columns may change under each query that is started"
        before = self._function
        self._stop()
        before.stop_services()
        before.board.query_ended(None)  # what follows may take as long as a start
        self._starter.coordinator.give_up("columns become more")
        self._starter = self._reopen(grown, before.stop_requested)
        self._function = self._starter.function
        if before.stop_requested.is_set():
            self._function.stop_requested.set()
        self._begin()

    def _stop(self) -> None:
        self._function.ending.set()  # else a micro-batch that is about to start waits for the lock, and Spark for it
        with self._function.busy:  # no micro-batch is interrupted
            self._stop_query()

    def _stop_query(self) -> None:
        if self.query is not None:
            self.query.stop()

    def _raise(self, error: StreamingQueryException | OwnQueryFailed) -> None:
        if self._function.gives_way and StopRequested.__name__ in str(error):
            return
        failure = error.__cause__ if isinstance(error, OwnQueryFailed) else self._function.failure
        if isinstance(failure, BucketIngestError | ConnectionError | SchemaGrown):
            raise failure
        if got_no_answer(failure):
            raise _jvm_failed() from failure
        message, cause = essence(failure or error)
        details = f"{failure}\n{error}"
        if failure is None:
            unwritable = checkpoint_failure(error, self._starter.pipeline.checkpoint_directory())
            if unwritable is not None:
                raise unwritable from error
        failed = QueryFailed(f"the query ended with an error: {message}", cause, details)
        topics = self._starter.topics
        judged = failed if topics is None else topics.judged(failed, self._starter.coordinator.position)
        raise judged from (failure or error)


def _jvm_failed() -> JvmFailed:
    return JvmFailed(
        "Spark's JVM is gone, killed or out of memory (spark.driver.memory); the next start finishes or rolls back "
        "what was started"
    )
