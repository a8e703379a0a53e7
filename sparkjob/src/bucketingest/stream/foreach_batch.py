"""The function that Spark calls for every micro-batch: finds out which rows it is, and has the coordinator write and
commit them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeAlias, runtime_checkable

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from bucketingest.decode.debezium.events import SourceTruncated, TruncatedAt
from bucketingest.decode.kafka.message import OFFSET
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.registry.errors import GaveWay
from bucketingest.services.inline import InlineServices
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.writing import FilesWriter
from bucketingest.stream.micro_batch import (
    LeftToSpark,
    write_letters,
    write_micro_batch,
    write_refused,
    write_traced,
)
from bucketingest.stream.pacing import Pace
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.scaling import ExecutorScaling
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.stream.source.registered import RegisteredMessages
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.stream.topics.without_spark import TopicReading
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Assignment, Commit, MicroBatchOutcome
from bucketingest.write.errors import ConflictingAttempt, InstantAborted, PositionLost
from bucketingest.write.instants.source_range import SourceRange, kafka_offsets
from bucketingest.write.open_table import OpenTable
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.emptied import slices_to_empty
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)

_LOCK_POLL_SECONDS: Final = 0.1
_ROUNDS_MAX: Final = 3
"""How often a micro-batch is written, each time in a new instant, before the query fails."""


NOT_IN_ORDER: Final = (
    "the source's table was truncated (op t), and its topic has several partitions: nothing says which of their "
    "messages are older. Give the topic one partition, or set format.envelope.truncate to deadLetter"
)
Rows: TypeAlias = DataFrame | TopicBatch | FileBatch
"""A micro-batch: what Spark has planned, or what was planned here."""


class Positions(Protocol):
    """Which rows a micro-batch is."""

    def range_of(self, batch_id: int) -> SourceRange:
        """The source range of a micro-batch that is being run."""


@runtime_checkable
class ConfirmedPositions(Positions, Protocol):
    """Positions that the source has to confirm when the rows were read."""

    def confirm(self, source_range: SourceRange) -> None:
        """Raises if what was read is not what the range names."""


class StopRequested(Exception):
    """Ends the query before a micro-batch starts; the previous one is written and checkpointed."""


class MicroBatchFunction:
    """Spark's `foreachBatch` function. Runs on Spark's callback thread, one call at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        opened: OpenTable,
        shape: RowShape,
        coordinator: InstantCoordinator,
        board: ProgressBoard,
        *,
        tasks: int,
        services: InlineServices | None = None,
        decoder: MessageDecoder | None = None,
        registered: RegisteredMessages | None = None,
        files: FilesWriter | None = None,
        topics: TopicReading | None = None,
        pace: Pace | None = None,
        scaling: ExecutorScaling | None = None,
        may_serve: Callable[[], bool] = lambda: True,
    ) -> None:
        """`may_serve`: whether table services may take a step."""
        self._decoder = decoder
        self._files = files
        self._topics = topics
        self._pace = pace
        self._scaling = scaling
        self._may_serve = may_serve
        self._registered = registered
        self._services = services
        self._pipeline = pipeline
        self._opened = opened
        self._shape = shape
        self._coordinator = coordinator
        self._positions: Positions | None = None
        self.keep_beginning: Callable[[], None] = lambda: None
        """Stores where the source began: before the first micro-batch, and while there is none."""
        self._tasks = tasks
        self.board = board
        self.busy = threading.Lock()
        """Held while a micro-batch is written: its holder can stop the query without interrupting one."""
        self.stop_requested = threading.Event()
        self.ending = threading.Event()
        """Set while the query is stopped so that it can start again."""
        self.failure: BaseException | None = None
        """What ended the query, as it was raised: Spark reports only its text."""

    def begin(self, positions: Positions, keep_beginning: Callable[[], None]) -> None:
        """A query starts. `keep_beginning`: stores where the source began, once that is known."""
        self._positions, self.keep_beginning = positions, keep_beginning
        self.failure = None
        if self._pace is not None:
            self._pace.begin()
        self.ending.clear()

    @property
    def needs_no_query(self) -> bool:
        """Whether its micro-batches could do without a query of Spark's, which gives SQL its time."""
        return self._topics is not None

    @property
    def goes_on_without_spark(self) -> bool:
        """Whether its micro-batches need no query of Spark's, from a position on."""
        return self._pipeline.is_quick and self.needs_no_query

    @property
    def gives_way(self) -> bool:
        """Whether the query is ending, for any reason: no further micro-batch starts."""
        return self.stop_requested.is_set() or self.ending.is_set()

    def commit(self, *, now: bool) -> None:
        """Between micro-batches: commit the open instant if its time has come, or `now`. Call with `busy` held.

        Raises what the coordinator's commits do.
        """
        if self._coordinator.inflight is None:
            return
        commit = None
        self.board.committing()  # or renewing its heartbeat, which waits for storage too
        try:
            commit = self._coordinator.commit_open() if now else self._coordinator.commit_if_due()
        except PositionLost:
            self.board.rolled_back()
            raise
        finally:
            self.board.committed(commit)
        if commit is not None:
            _log_commit(commit)

    @property
    def executors_wanted(self) -> int | None:
        """Executors that are asked for; None where their number is fixed."""
        return None if self._scaling is None else self._scaling.wanted

    def scale(self) -> None:
        """Between micro-batches: give executors back that an idle source does not need. Call with `busy` held."""
        if self._scaling is not None:
            self._scaling.idle()

    def serve_table(self) -> None:
        """Between micro-batches: the next short step of the table services, if one is due. Call with `busy` held."""
        if self._services is None or not self.services_due or not self._may_serve():
            return
        self.board.committing()  # it waits for storage as a commit does
        try:
            self._services.step()
        finally:
            self.board.committed(None)

    @property
    def services_due(self) -> bool:
        """Whether table services have a step to take."""
        return self._services is not None and self._services.is_due()

    def finish_services(self) -> bool:
        """After the query's end: whether table services have nothing to do any more. Call with `busy` held."""
        if self._services is None:
            return True
        self._services.finish()
        self.serve_table()
        return self._services.has_finished

    def stop_services(self) -> None:
        """End what runs beside the query."""
        if self._services is not None:
            self._services.stop()

    @property
    def service_pid(self) -> int | None:
        """Process id of what runs beside the query."""
        return None if self._services is None else self._services.pid

    def __call__(self, rows: Rows, batch_id: int) -> None:
        """Write one micro-batch, commit the instant if it is due, and hold Spark back until the next one may start."""
        if self._pace is not None:
            self._pace.batch_started()
        # The thread that stops an idle query holds the lock and waits, in Spark, for this call: do not wait for it.
        while not self.busy.acquire(timeout=_LOCK_POLL_SECONDS):
            if self.gives_way:
                raise StopRequested
        try:
            if self.gives_way:
                raise StopRequested
            assert self._positions is not None, "a query is started after begin"
            try:
                self.keep_beginning()
                source_range = self._positions.range_of(batch_id)
                started = forward_seconds()
                self._run(rows, source_range)
                if self._scaling is not None:
                    self._scaling.batch_ended(started, source_range)
                self.serve_table()
            except BaseException as error:
                self.failure = error
                raise
        finally:
            self.busy.release()
        if self._pace is not None:  # without the lock: the other thread commits, serves the table or stops the query
            self._pace.pause(source_range, gives_way=lambda: self.gives_way, waits=self.board.pausing)

    def _run(self, rows: Rows, source_range: SourceRange) -> None:
        for rounds_left in reversed(range(_ROUNDS_MAX)):
            try:
                outcome = self._coordinator.run(
                    source_range, lambda assignment: self._write(rows, assignment, source_range)
                )
            except (InstantAborted, ConflictingAttempt) as error:
                self.board.rolled_back()
                log.warning("written again in a new instant", extra={"reason": str(error), "rounds_left": rounds_left})
                if not rounds_left:
                    raise
            else:
                if outcome.instant_time is None and isinstance(rows, DataFrame):
                    # A user's query may keep a state, and Spark keeps only that of rows that were read.
                    rows.write.format("noop").mode("append").save()
                self._report(source_range, outcome)
                return

    def _write(self, rows: Rows, assignment: Assignment, source_range: SourceRange) -> Sequence[WriteStatus]:
        self.board.batch_started(assignment.instant_time, source_range)
        statuses = self._written(
            rows, self._pipeline.plan(self._opened, assignment, self._tasks), len(kafka_offsets(source_range.end) or ())
        )
        if isinstance(self._positions, ConfirmedPositions):
            self._positions.confirm(source_range)
        self.board.written(statuses)
        return statuses

    def _written(self, rows: Rows, plan: WritePlan, partitions: int) -> Sequence[WriteStatus]:
        while True:
            try:
                return self._written_as(rows, plan)
            except TruncatedAt as found:  # before anything was written
                assert not isinstance(rows, FileBatch), "files have no events"
                if partitions > 1:
                    raise QueryFailed(NOT_IN_ORDER, SourceTruncated.__name__) from found
                log.warning("the source was truncated: all older rows are deleted", extra={"offset": found.offset})
                rows = _frame(rows).where(F.col(OFFSET) > found.offset)
                files = slices_to_empty(self._opened.storage, plan.pipeline, plan.instant_time, plan.sequence)
                plan = replace(plan, emptied=files)

    def _written_as(self, rows: Rows, plan: WritePlan) -> Sequence[WriteStatus]:
        if isinstance(rows, FileBatch):
            assert self._files is not None, "only the source of files has batches of them"
            statuses = self._files.write(rows, plan)
            self.board.columns_not_read(self._files.unknown.found)
            return statuses
        if self._registered is None:
            return self._written_by(rows, plan, self._decoder)
        try:
            return self._registered.write(
                lambda: _frame(rows), lambda decoder: self._written_by(rows, plan, decoder), lambda: self.gives_way
            )
        except GaveWay as error:  # nothing of the micro-batch is written: the next start resumes it
            raise StopRequested from error

    def _written_by(
        self, rows: DataFrame | TopicBatch, plan: WritePlan, decoder: MessageDecoder | None
    ) -> Sequence[WriteStatus]:
        if decoder is not None and self._shape.on_arrow:
            try:
                topics = self._topics if plan.emptied is None else None  # they read whole ranges of offsets
                written = None if topics is None else topics.write(rows, plan, decoder)
                statuses = write_micro_batch(_frame(rows), plan, decoder) if written is None else written
            except LeftToSpark as doubt:  # nothing is written; the same rows are in doubt each time
                log.warning("a micro-batch is left to Spark's SQL", extra={"reason": str(doubt)})
            else:
                if any(status.undecoded for status in statuses):
                    statuses += write_refused(_frame(rows), plan, decoder)
                return statuses
        rows = _frame(rows)
        decoded = self._shape.decoded(rows, decoder)
        if not decoded.can_fail:
            return write_micro_batch(self._shape.table_rows(decoded.good()), plan)
        observation = Observation()
        observed = decoded.observed(observation)
        good = self._shape.table_rows(observed.good())
        if self._shape.is_traced:
            statuses = write_traced(good, lambda: self._shape.traced(decoded), plan)
        else:
            statuses = write_micro_batch(good, plan)
        if observation.get["bad"]:
            statuses += write_letters(decoded.bad(), plan)
        return statuses

    def _report(self, source_range: SourceRange, outcome: MicroBatchOutcome) -> None:
        self.board.batch_ended(outcome)
        if outcome.instant_time is None:
            return
        log.info(
            "written",
            extra={
                "instant": outcome.instant_time,
                "batch": source_range.batch_id,
                "rows": outcome.rows,
                "deletes": outcome.deletes,
                "rejected": outcome.rejected,
                "files": outcome.files,
                "bytes": outcome.size_bytes,
                "write_seconds": round(outcome.write_seconds, 3),
            },
        )
        if outcome.rejected:
            where = {"instant": outcome.instant_time, "batch": source_range.batch_id}
            log.warning("rows rejected", extra={**where, "rows": outcome.rejected, "first": outcome.first_rejected})
        if outcome.commit is not None:
            _log_commit(outcome.commit)


def _frame(rows: DataFrame | TopicBatch) -> DataFrame:
    """As Spark reads them."""
    return rows.rows if isinstance(rows, TopicBatch) else rows


def _log_commit(commit: Commit) -> None:
    log.info(
        "committed",
        extra={
            "instant": commit.instant_time,
            "micro_batches": commit.micro_batches,
            "rows": commit.rows,
            "files": commit.files,
            "bytes": commit.size_bytes,
            "open_seconds": round(commit.open_seconds, 3),
            "commit_seconds": round(commit.commit_seconds, 3),
        },
    )
