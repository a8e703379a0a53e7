"""The two ways to start: from a BucketIngest resource, and from a streaming DataFrame of the user's own."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream.errors import QueryFailed
from bucketingest.stream.failures import essence
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.positions import CheckpointPositions
from bucketingest.stream.query import MicroBatchFunction
from bucketingest.stream.running import RunningIngest
from bucketingest.stream.session import prepared
from bucketingest.stream.shape import RowShape
from bucketingest.stream.sources import read_source
from bucketingest.stream.starting import reconcile
from bucketingest.write.coordinator import CoordinatorSettings, InstantCoordinator
from bucketingest.write.opening import OpenTable, open_table


def ingest_resource(session: SparkSession, resource: BucketIngest, *, once: bool = False) -> RunningIngest:
    """Start the pipeline that the resource describes. `once`: take all there is, then stop, whatever the resource's
    trigger.

    Raises every error family below `BucketIngestError`: what is wrong, where, what to do. Nothing is written before
    all checks.
    """
    pipeline = Pipeline.of(resource)
    shape = RowShape(resource, pipeline.delete_when)
    kind: Literal["kafka", "checkpoint"] = "kafka" if resource.spec.source.kafka is not None else "checkpoint"
    with prepared(session):
        rows = read_source(session, resource)
        opened = _open(pipeline, shape, rows)
        coordinator = _coordinator(session, pipeline, opened)
        reconcile(pipeline.checkpoint(), coordinator.start())
        return _start(rows, pipeline, shape, opened, coordinator, kind=kind, once=once)


def ingest(rows: DataFrame, pipeline: Pipeline, *, once: bool = False) -> RunningIngest:
    """Write a streaming DataFrame, whose columns are the table's, into the pipeline's table.

    The position of its sources lives in Spark's checkpoint: without it the pipeline is refused a second start. Raises
    as `ingest_resource` does.
    """
    shape = RowShape(None, pipeline.delete_when)
    with prepared(rows.sparkSession):
        opened = _open(pipeline, shape, rows)
        coordinator = _coordinator(rows.sparkSession, pipeline, opened)
        reconcile(pipeline.checkpoint(), coordinator.start())
        return _start(rows, pipeline, shape, opened, coordinator, kind="checkpoint", once=once)


def _open(pipeline: Pipeline, shape: RowShape, rows: DataFrame) -> OpenTable:
    storage = open_storage(pipeline.table_url, pipeline.storage_options)
    return open_table(storage, pipeline.definition, shape.schema(rows), has_deletes=pipeline.delete_when is not None)


def _coordinator(session: SparkSession, pipeline: Pipeline, opened: OpenTable) -> InstantCoordinator:
    letters = pipeline.dead_letters_url
    settings = CoordinatorSettings(
        pipeline=pipeline.name,
        tasks=_tasks(session, pipeline),
        max_retries=pipeline.max_commit_retries,
        dead_letters=None if letters is None else open_storage(letters, pipeline.storage_options),
    )
    return InstantCoordinator(opened, settings)


def _start(
    rows: DataFrame,
    pipeline: Pipeline,
    shape: RowShape,
    opened: OpenTable,
    coordinator: InstantCoordinator,
    *,
    kind: Literal["kafka", "checkpoint"],
    once: bool,
) -> RunningIngest:
    positions = CheckpointPositions(pipeline.checkpoint(), kind)
    tasks = _tasks(rows.sparkSession, pipeline)
    function = MicroBatchFunction(pipeline, opened, shape, coordinator, positions, tasks=tasks)
    writer = rows.writeStream.foreachBatch(function).option("checkpointLocation", pipeline.checkpoint_url)
    writer = writer.queryName(pipeline.name)
    if once or pipeline.trigger == "once":
        writer = writer.trigger(availableNow=True)
    else:
        assert isinstance(pipeline.trigger, timedelta), "a trigger is a duration or once"
        writer = writer.trigger(processingTime=f"{int(pipeline.trigger.total_seconds() * 1000)} milliseconds")
    try:
        query = writer.start()
    except (PySparkException, Py4JJavaError) as error:
        message, cause = essence(error)
        raise QueryFailed(
            f"the query cannot start with checkpoint {pipeline.checkpoint_url}: {message}", cause
        ) from error
    return RunningIngest(query, function)


def _tasks(session: SparkSession, pipeline: Pipeline) -> int:
    return pipeline.write_tasks or session.sparkContext.defaultParallelism
