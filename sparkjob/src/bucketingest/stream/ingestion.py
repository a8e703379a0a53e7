"""The two ways to start: from a BucketIngest resource, and from a user's own streaming DataFrame."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.decode.decoder_choice import Way
from bucketingest.decode.registered.subjects import registry_client, with_columns, with_readers_schema
from bucketingest.hudi.lock.hudi_lock import HudiLock, open_lock
from bucketingest.hudi.rollback.rollback import Lock
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.hudi.table.table import load_table
from bucketingest.lease.guard import LEASE_MARGIN, lease_and_lock
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.registry.client import RegistryClient
from bucketingest.registry.lookups import Patience, SchemaLookups
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.inline import InlineClustering
from bucketingest.services.compaction.holder import CompactionHolder
from bucketingest.services.inline import InlineServices
from bucketingest.services.metadata_table import MetadataTableDrop
from bucketingest.services.worker import Tidy
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.beginning import TableBeginning
from bucketingest.stream.checkpoint.checkpoint import SourceKind
from bucketingest.stream.files.source import FilesInput, open_files
from bucketingest.stream.files.writing import FilesWriter
from bucketingest.stream.foreach_batch import MicroBatchFunction
from bucketingest.stream.pacing import Pace
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.running import RunningIngest
from bucketingest.stream.scaling import ExecutorScaling
from bucketingest.stream.source.registered import RegisteredMessages
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.source.sources import read_source
from bucketingest.stream.spark.executors import SparkExecutors
from bucketingest.stream.spark.session import own_session, prepared
from bucketingest.stream.starter import QueryStarter
from bucketingest.stream.topic_reading import TopicReading
from bucketingest.stream.topics.reading import TopicsRead
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.coordinator_api import CoordinatorSettings
from bucketingest.write.open_table import OpenTable, check_definition, open_table

log = logging.getLogger(__name__)


def ingest_resource(
    session: SparkSession,
    resource: BucketIngest,
    *,
    once: bool = False,
    board: ProgressBoard | None = None,
    service_jobs: bool = False,
    ended_hosts: Collection[str] = (),
) -> RunningIngest:
    """Start the pipeline that the resource describes. `once`: ingest all available input, then stop, whatever the
    resource's trigger. `board`: where progress is recorded, to be read before and after the query too. `service_jobs`:
    an operator makes Jobs for compactions that the board asks for. `ended_hosts`: as for `TableLease.acquire`.

    Raises every error family below `BucketIngestError`: what is wrong, where, what to do. Nothing is written before
    all checks.
    """
    follows = _follows_registry(resource)
    client = _registry(resource)
    if client is not None:
        resource = with_readers_schema(resource, client, Patience())
    lookups = None if client is None else SchemaLookups(client)
    files = None
    with prepared(session):
        if resource.spec.source.files is None:
            rows = read_source(session, resource)
        else:
            session = own_session(session)
            files = open_files(resource.spec.source.files)
            rows = files.rows(session)
        first = _Input.of(rows, resource, lookups, makes_jobs=service_jobs, follows=follows)
        kafka, board = resource.spec.source.kafka, board or ProgressBoard()
        topics = None if kafka is None else TopicsRead.of(session, kafka, board)

    def with_schema(text: str) -> _Input:
        with prepared(session):
            return _Input.of(rows, with_columns(resource, text), lookups, makes_jobs=service_jobs, follows=follows)

    job = _Job(_source_kind(resource), once=once, board=board, files=files, topics=topics)
    try:
        return _start(first, job, ended_hosts=ended_hosts, with_schema=with_schema if follows else None)
    except BaseException:  # also by a stop signal
        if topics is not None:
            topics.close()
        raise


def ingest(
    rows: DataFrame, pipeline: Pipeline, *, once: bool = False, board: ProgressBoard | None = None
) -> RunningIngest:
    """Write a streaming DataFrame, whose columns are the table's, into the pipeline's table.

    The position of its sources is in Spark's checkpoint: without it a second start is refused. Raises as
    `ingest_resource` does.
    """
    with prepared(rows.sparkSession):
        given = _Input(rows, pipeline, RowShape(None, pipeline.delete_when))
        return _start(given, _Job("own", once=once, board=board or ProgressBoard()))


@dataclass(frozen=True, slots=True)
class _Input:
    """What a query reads, and what becomes of it: it changes with the schema of the columns."""

    rows: DataFrame
    pipeline: Pipeline
    shape: RowShape
    registered: RegisteredMessages | None = None

    @classmethod
    def of(
        cls, rows: DataFrame, resource: BucketIngest, lookups: SchemaLookups | None, *, makes_jobs: bool, follows: bool
    ) -> Self:
        """Of a resource whose columns are known. `follows`: they may become more. Raises InvalidTransform."""
        pipeline = Pipeline.of(resource)
        pipeline = replace(pipeline, services=replace(pipeline.services, makes_jobs=makes_jobs))
        shape = RowShape(resource, pipeline.delete_when).planned(rows)
        if lookups is None:
            return cls(rows, pipeline, shape)
        format_ = resource.spec.format
        reader = format_.columns_text if follows and format_ is not None else None
        return cls(rows, pipeline, shape, RegisteredMessages(shape, rows, lookups, reader=reader))


@dataclass(frozen=True, slots=True)
class _Job:
    """What stays the same as long as the process runs."""

    source: SourceKind
    once: bool
    board: ProgressBoard
    files: FilesInput | None = None
    topics: TopicsRead | None = None


def _start(
    given: _Input,
    job: _Job,
    *,
    ended_hosts: Collection[str] = (),
    with_schema: Callable[[str], _Input] | None = None,
) -> RunningIngest:
    pipeline = given.pipeline
    check_definition(pipeline.definition, given.shape.schema(given.rows))  # the lease is the first thing written
    storage = open_storage(pipeline.table_url, pipeline.storage_options)
    lease = TableLease.acquire(
        storage,
        LeaseOwner(pipeline.name),
        wait=pipeline.lease_wait,
        validity=pipeline.lease_validity,
        ended_hosts=ended_hosts,
        sleep=_recorded_sleep(job.board.waited_for_lease),
    )
    try:
        catalogs = [
            CatalogKeeper(storage, each, job.board.catalog, lambda: _changes(job.board)) for each in pipeline.catalogs
        ]
        again = None if with_schema is None else lambda text: _starter(with_schema(text), job, storage, lease, catalogs)
        return RunningIngest(_starter(given, job, storage, lease, catalogs), lease, catalogs, again)
    except BaseException:  # also by a stop signal
        lease.release()
        raise


def _starter(
    given: _Input, job: _Job, storage: Storage, lease: TableLease, catalogs: Sequence[CatalogKeeper]
) -> QueryStarter:
    """Opens the table for the input's columns."""
    rows, pipeline, shape, board, files = given.rows, given.pipeline, given.shape, job.board, job.files
    tasks = pipeline.write_tasks or rows.sparkSession.sparkContext.defaultParallelism
    opened = open_table(
        storage,
        pipeline.definition,
        shape.schema(rows),
        has_deletes=pipeline.delete_when is not None,
        log_block=pipeline.log_block,
        drop_metadata_table=_drop_of(storage, pipeline, lease),
        lock=lambda: _lock_of(storage, pipeline, lease).held(),
        check_lease=lambda: lease.check(LEASE_MARGIN),
    )
    way = shape.way()
    log.info("%s", way, extra={"pipeline": pipeline.name})
    reading = shape.reading(rows)
    if reading is not None:
        log.info("%s", reading, extra={"pipeline": pipeline.name})
    work = _work(rows, pipeline, way)
    held = _HeldTable.of(pipeline, opened, lease, board)
    _clustering_holder(held).start()  # before anything is written: an earlier process may have decided a clustering
    coordinator = _coordinator(pipeline, opened, held, tasks=tasks, work=work, repeatable=shape.is_repeatable(rows))
    lease.set_epoch(coordinator.epoch)
    function = MicroBatchFunction(
        pipeline,
        opened,
        shape,
        coordinator,
        board,
        tasks=tasks,
        services=_services(pipeline, held, lease, board, coordinator, catalogs=catalogs),
        decoder=shape.decoder(rows),
        registered=given.registered,
        files=None if files is None else FilesWriter.of(files, shape, rows),
        topics=None if reading is None or reading.client is None else TopicReading(reading.client),
        pace=None if job.once else Pace.of(pipeline, lambda: coordinator.due),
        scaling=None if job.once else ExecutorScaling.of(pipeline, SparkExecutors.of(rows.sparkSession), board),
    )
    return QueryStarter.of(
        rows,
        pipeline,
        coordinator,
        function,
        beginning=TableBeginning(storage, pipeline.name, pipeline.beginning),
        source=job.source,
        once=job.once,
        listing=None if files is None else files.listing,
        topics=job.topics,
    )


def _drop_of(storage: Storage, pipeline: Pipeline, lease: TableLease) -> Callable[[], None] | None:
    """Drops Hudi's metadata table under the table's lock; None if a table with it is refused."""
    if not pipeline.drops_metadata_table:
        return None

    def drop() -> None:
        MetadataTableDrop(storage, _lock_of(storage, pipeline, lease).held).at_start()

    return drop


def _lock_of(storage: Storage, pipeline: Pipeline, lease: TableLease) -> HudiLock:
    """The lock that the table's own properties name."""
    return open_lock(storage, load_table(storage).properties, pipeline.lock, str(lease.owner))


def _recorded_sleep(record: Callable[[float], None]) -> Callable[[float], None]:
    """A sleep that records its length afterwards."""

    def sleep(seconds: float) -> None:
        time.sleep(seconds)
        record(seconds)

    return sleep


def _work(rows: DataFrame, pipeline: Pipeline, way: Way) -> str:
    """All that decides which rows the tasks write under which names, and their bytes. With other map tasks rows come in
    another order, with other libraries the same rows have other bytes.
    """
    context = rows.sparkSession.sparkContext
    parts = (
        pipeline.work or uuid.uuid4(),
        pipeline.delete_when,
        pipeline.log_block or "by size",
        pipeline.memory_bytes,
        context.defaultParallelism,
        context.version,
        pa.__version__,
        way.name,
    )
    return "\n".join(map(str, parts))


@dataclass(frozen=True, slots=True)
class _HeldTable:
    """The table while this job holds its lease: what guards each change of its timeline."""

    storage: Storage
    lock: Lock
    check_lease: Callable[[], None]
    check_unchanged: Callable[[Storage], None]

    @classmethod
    def of(cls, pipeline: Pipeline, opened: OpenTable, lease: TableLease, board: ProgressBoard) -> Self:
        sleep = _recorded_sleep(board.waited_for_lock)
        lock = open_lock(opened.storage, opened.table.properties, pipeline.lock, str(lease.owner), sleep=sleep)
        drop = MetadataTableDrop(opened.storage, lock.held)
        check = drop if pipeline.drops_metadata_table else refuse_changed_table
        return cls(opened.storage, lock.held, lease_and_lock(lease, lock), check)


def _coordinator(
    pipeline: Pipeline, opened: OpenTable, held: _HeldTable, *, tasks: int, work: str, repeatable: bool
) -> InstantCoordinator:
    letters = pipeline.dead_letters_url
    settings = CoordinatorSettings(
        pipeline=pipeline.name,
        tasks=tasks,
        max_retries=pipeline.max_commit_retries,
        dead_letters=None if letters is None else open_storage(letters, pipeline.storage_options),
        commit_interval=pipeline.commit_interval,
        max_files=pipeline.max_files,
        lock=held.lock,
        check_lease=held.check_lease,
        work=work,
        repeatable=repeatable,
        open_letters=lambda url: open_storage(url, pipeline.storage_options),
        check_unchanged=held.check_unchanged,
    )
    return InstantCoordinator(opened, settings)


def _services(
    pipeline: Pipeline,
    held: _HeldTable,
    lease: TableLease,
    board: ProgressBoard,
    coordinator: InstantCoordinator,
    *,
    catalogs: Sequence[CatalogKeeper],
) -> InlineServices:
    holder = CompactionHolder(held.storage, held.lock, held.check_lease, check_unchanged=held.check_unchanged)
    tidy = Tidy(held.storage, pipeline.retention, pipeline.archive, pipeline.lock, lease.lease_id, pipeline.name)
    triggers = pipeline.clustering
    clustering = None if triggers is None else InlineClustering(held.storage, _clustering_holder(held), triggers)
    return InlineServices(
        held.storage,
        holder,
        pipeline.compaction,
        tidy=tidy,
        policy=pipeline.services,
        clustering=clustering,
        between=lambda: coordinator.inflight is None,
        lets_clean=lambda superseded_at: all(each.lets_clean(superseded_at) for each in catalogs),
        report=board.services,
    )


def _changes(board: ProgressBoard) -> object:
    """Differs after each commit of the job or of its table services."""
    now = board.snapshot()
    services = now.services
    return now.commits, None if services is None else (services.compactions, services.clusterings)


def _clustering_holder(held: _HeldTable) -> ClusteringHolder:
    return ClusteringHolder(held.storage, held.lock, held.check_lease, check_unchanged=held.check_unchanged)


def _registry(resource: BucketIngest) -> RegistryClient | None:
    format_ = resource.spec.format
    return None if format_ is None or format_.registry is None else registry_client(format_.registry)


def _follows_registry(resource: BucketIngest) -> bool:
    """Whether the columns are those of the messages' schemas in a registry, and become more with them."""
    format_ = resource.spec.format
    return format_ is not None and format_.follows_registry


def _source_kind(resource: BucketIngest) -> SourceKind:
    source = resource.spec.source
    if source.kafka is not None:
        return "kafka"
    return "files" if source.files is not None else "rate"
