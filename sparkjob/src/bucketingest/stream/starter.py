"""Starts the query from the table: at each start the table's position decides where Spark continues."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TypeAlias, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from bucketingest.storage import open_storage
from bucketingest.stream.checkpoint.beginning import TableBeginning
from bucketingest.stream.checkpoint.checkpoint import SourceKind, chained, check_kind, prepare_checkpoint
from bucketingest.stream.checkpoint.positions import CheckpointKind, CheckpointPositions
from bucketingest.stream.errors import InvalidTransform, QueryFailed
from bucketingest.stream.files.log import FileBatch, FilesLog
from bucketingest.stream.files.planner import FilesPlanner, Listing
from bucketingest.stream.foreach_batch import MicroBatchFunction, StopRequested
from bucketingest.stream.own_query import OwnQuery, Planner
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.retry.letters import places_of, put_back
from bucketingest.stream.spark.failures import essence
from bucketingest.stream.spark.session import prepared
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.stream.topics.planner import TopicsPlanner
from bucketingest.stream.topics.reading import TopicPositions, TopicsRead
from bucketingest.stream.topics.transactions import WholeTransactions
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Start
from bucketingest.write.instants.source_range import SourceRange

Query: TypeAlias = StreamingQuery | OwnQuery[FileBatch] | OwnQuery[TopicBatch]
_Batch = TypeVar("_Batch")
log = logging.getLogger(__name__)


@dataclass(slots=True)
class QueryStarter:
    """Everything that a start needs. May start more than once, one query at a time."""

    rows: DataFrame
    pipeline: Pipeline
    coordinator: InstantCoordinator
    function: MicroBatchFunction
    beginning: TableBeginning
    source: SourceKind
    once: bool
    listing: Listing | None = None
    """Of the source of files."""
    topics: TopicsRead | None = None
    """Of a Kafka source."""
    whole: WholeTransactions | None = None
    """Where its micro-batches may end; None: anywhere."""
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.once = self.once or self.pipeline.trigger == "once"

    def start(self) -> Query:
        """Finish or roll back open instants, and start the query at the table's position; Spark's with a checkpoint
        for it.

        Raises what the coordinator's start, `TopicsRead.continuing`, `prepare_checkpoint` and `FilesPlanner` do, and
        QueryFailed, InvalidTransform.
        """
        if self.whole is not None and not self.function.needs_no_query:
            raise InvalidTransform(
                "spec.commit.at is transaction, and spec.transform.sql or table.deleteWhen runs in Spark: write it so "
                "that it does not (docs/transform-sql.md), or set spec.commit.at to any"
            )
        start = self.coordinator.start()
        table = open_storage(self.pipeline.table_url, self.pipeline.storage_options)
        put_back(places_of(self.pipeline, table), table, self.pipeline.name)
        if self.topics is not None:
            start = self.topics.continuing(start)
        if self.listing is not None:
            return self._files_query(start, self.listing)
        if self.topics is not None and self.leaves_spark(start.position):
            return self._topics_query(start, self.topics)
        return self._sparks_query(start)

    def leaves_spark(self, position: SourceRange | None) -> bool:
        """Whether micro-batches are planned without Spark from this position on. Where to begin is for Spark to say,
        but for one that has whole transactions: that begins with the topic.
        """
        if self.whole is not None:
            return True
        return position is not None and self.function.goes_on_without_spark and not self.once

    def _topics_query(self, start: Start, topics: TopicsRead) -> OwnQuery[TopicBatch]:
        check_kind("kafka", start)
        _, replay = chained(start)

        most = self.pipeline.offsets_max
        assert most is not None, "Kafka's source has it"
        planner = TopicsPlanner(
            topics,
            lambda: self.coordinator.position,
            replay,
            most=most,
            tell=self.function.board.source_ends,
            whole=self.whole,
        )
        self._begun(start, (start.verdict.value, start.reason))
        self.function.begin(planner, lambda: None)
        return self._own_query(planner, lambda batch: self.function(batch, batch.source_range.batch_id))

    def _begun(self, start: Start, verdict: tuple[str, str]) -> None:
        log.info("verdict", extra={"verdict": verdict[0], "reason": verdict[1]})
        self.function.board.started(start.position, self.coordinator.epoch, self.coordinator.inflight, verdict)

    def _own_query(self, planner: Planner[_Batch], write: Callable[[_Batch], None]) -> OwnQuery[_Batch]:
        trigger = None if self.once else self.pipeline.trigger
        assert not isinstance(trigger, str), "a trigger is a duration, or once"
        return OwnQuery(planner, write, trigger=trigger, stopped=(StopRequested,))

    def _files_query(self, start: Start, listing: Listing) -> OwnQuery[FileBatch]:
        files_log = FilesLog(open_storage(self.pipeline.table_url, self.pipeline.storage_options), self.pipeline.name)
        check_kind("files", start)
        last = -1 if start.position is None else start.position.batch_id
        planner = FilesPlanner(listing, files_log, last, once=self.once, ignored=self.function.board.files_ignored)
        self._begun(start, (start.verdict.value, start.reason))
        self.function.begin(files_log, lambda: None)
        return self._own_query(planner, lambda batch: self.function(batch, batch.number))

    def _sparks_query(self, start: Start) -> StreamingQuery:
        attempt = f"attempt-{self.coordinator.epoch:08d}-{next(self._numbers)}"
        prepared_at = prepare_checkpoint(
            self.pipeline.checkpoint(),
            attempt=attempt,
            source=self.source,
            start=start,
            beginning=self.pipeline.beginning,
            known_beginning=self.beginning.known(),
        )
        self._begun(start, (prepared_at.verdict, prepared_at.reason))
        kind: CheckpointKind = "kafka" if self.source == "kafka" else "checkpoint"
        checkpoint = self.pipeline.checkpoint(prepared_at.directory)
        read = CheckpointPositions(checkpoint, kind)
        positions = read if self.topics is None else TopicPositions(read, self.topics)
        self.function.begin(positions, partial(self.beginning.keep, checkpoint))
        location = self.pipeline.checkpoint_directory(prepared_at.directory)
        with prepared(self.rows.sparkSession):
            writer = self.rows.writeStream.foreachBatch(self.function).option("checkpointLocation", location)
            writer = writer.queryName(self.pipeline.name)
            if self.once:
                writer = writer.trigger(availableNow=True)
            else:
                assert isinstance(self.pipeline.trigger, timedelta), "a trigger is a duration or once"
                milliseconds = int(self.pipeline.trigger.total_seconds() * 1000)
                writer = writer.trigger(processingTime=f"{milliseconds} milliseconds")
            try:
                return writer.start()
            except (PySparkException, Py4JJavaError) as error:
                message, cause = essence(error)
                details = str(error)
                raise QueryFailed(
                    f"the query cannot start with checkpoint {location}: {message}", cause, details
                ) from error
