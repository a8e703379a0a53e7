"""Starts the query from the table: at each start the table's position decides where Spark continues."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from bucketingest.storage import open_storage
from bucketingest.stream.checkpoint.beginning import TableBeginning
from bucketingest.stream.checkpoint.checkpoint import SourceKind, check_kind, prepare_checkpoint
from bucketingest.stream.checkpoint.positions import CheckpointKind, CheckpointPositions
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.files.log import FilesLog
from bucketingest.stream.files.planner import FilesPlanner, Listing
from bucketingest.stream.files.query import FilesQuery
from bucketingest.stream.foreach_batch import MicroBatchFunction, StopRequested
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.spark.failures import essence
from bucketingest.stream.spark.session import prepared
from bucketingest.stream.topics.reading import TopicPositions, TopicsRead
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import Start

Query: TypeAlias = StreamingQuery | FilesQuery
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
    _numbers: count[int]
    listing: Listing | None
    """Of the source of files."""
    topics: TopicsRead | None
    """Of a Kafka source."""

    @classmethod
    def of(
        cls,
        rows: DataFrame,
        pipeline: Pipeline,
        coordinator: InstantCoordinator,
        function: MicroBatchFunction,
        *,
        beginning: TableBeginning,
        source: SourceKind,
        once: bool,
        listing: Listing | None = None,
        topics: TopicsRead | None = None,
    ) -> QueryStarter:
        """A starter that has not started yet."""
        once = once or pipeline.trigger == "once"
        return cls(rows, pipeline, coordinator, function, beginning, source, once, count(1), listing, topics)

    def start(self) -> Query:
        """Finish or roll back open instants, and start the query at the table's position; Spark's with a checkpoint
        for it.

        Raises what the coordinator's start, `TopicsRead.continuing`, `prepare_checkpoint` and `FilesPlanner` do, and
        QueryFailed.
        """
        start = self.coordinator.start()
        if self.topics is not None:
            start = self.topics.continuing(start)
        return self._sparks_query(start) if self.listing is None else self._files_query(start, self.listing)

    def _files_query(self, start: Start, listing: Listing) -> FilesQuery:
        files_log = FilesLog(open_storage(self.pipeline.table_url, self.pipeline.storage_options), self.pipeline.name)
        check_kind("files", start)
        last = -1 if start.position is None else start.position.batch_id
        verdict = (start.verdict.value, start.reason)
        log.info("verdict", extra={"verdict": verdict[0], "reason": verdict[1]})
        planner = FilesPlanner(listing, files_log, last, once=self.once, ignored=self.function.board.files_ignored)
        self.function.board.started(start.position, self.coordinator.epoch, self.coordinator.inflight, verdict)
        self.function.begin(files_log, lambda: None)
        trigger = None if self.once else self.pipeline.trigger
        assert not isinstance(trigger, str), "a trigger is a duration, or once"
        return FilesQuery(
            planner, lambda batch: self.function(batch, batch.number), trigger=trigger, stopped=(StopRequested,)
        )

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
        log.info("verdict", extra={"verdict": prepared_at.verdict, "reason": prepared_at.reason})
        self.function.board.started(
            start.position, self.coordinator.epoch, self.coordinator.inflight, (prepared_at.verdict, prepared_at.reason)
        )
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
