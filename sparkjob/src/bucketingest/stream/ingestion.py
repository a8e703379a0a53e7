"""The two ways to start: from a BucketIngest resource, and from a user's own streaming DataFrame.

Everything is checked before anything is written. The order matters:

1. The registry, if there is one, says which columns messages have. The source is opened; its columns become the
   table's by transform.sql.
2. The definition is checked against these columns. The table's lease is taken: the first object that is written.
3. The table is opened or created. Columns that are new, or wider, may need its log files to be merged first.
4. What earlier attempts left open is settled (coordinator, clustering). Then the query starts where the table ends.

Columns may become more while the query runs: it is stopped between two micro-batches, step 3 and 4 are repeated with
the wider schema, and it starts again in the same process, under the same lease.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.decode.decoder_choice import Way
from bucketingest.decode.kafka.client_options import Client
from bucketingest.lease.guard import LEASE_MARGIN
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.services.inline import Start as StartWorker
from bucketingest.services.worker_process import WorkerProcess
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.beginning import TableBeginning
from bucketingest.stream.checkpoint.checkpoint import SourceKind
from bucketingest.stream.files.source import FilesInput, open_files
from bucketingest.stream.files.writing import FilesWriter
from bucketingest.stream.foreach_batch import MicroBatchFunction
from bucketingest.stream.growth import first_taken
from bucketingest.stream.held_table import HeldTable, drop_of, lock_of, recorded_sleep
from bucketingest.stream.pacing import Pace
from bucketingest.stream.pipeline import Pipeline
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.running import RunningIngest
from bucketingest.stream.scaling import ExecutorScaling
from bucketingest.stream.source.inputs import Input, Inputs, checked, inputs_of
from bucketingest.stream.source.shape import RowShape
from bucketingest.stream.source.sources import read_source
from bucketingest.stream.spark.executors import SparkExecutors
from bucketingest.stream.spark.session import own_session, prepared
from bucketingest.stream.starter import QueryStarter
from bucketingest.stream.topics.reading import TopicsRead
from bucketingest.stream.topics.transactions import WholeTransactions
from bucketingest.stream.topics.without_spark import MESSAGES_HERE, TopicReading
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.open_table import OpenTable, open_table

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
    files = None
    with prepared(session):
        if resource.spec.source.files is None:
            rows = read_source(session, resource)
        else:
            session = own_session(session)
            files = open_files(resource.spec.source.files)
            rows = files.rows(session)
        shown = board or ProgressBoard()
        inputs = inputs_of(session, resource, rows, shown, service_jobs=service_jobs)
        kafka = resource.spec.source.kafka
        whole = WholeTransactions.of(session, resource, shown.transaction_waits)
        topics = None if kafka is None else TopicsRead.of(session, kafka, shown)
    job = _Job(_source_kind(resource), once=once, board=shown, files=files, topics=topics, whole=whole)
    try:
        return _start(inputs, job, ended_hosts=ended_hosts)
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
        given = Input(rows, pipeline, RowShape(None, pipeline.delete_when))
        return _start(Inputs(iter([lambda: given])), _Job("own", once=once, board=board or ProgressBoard()))


@dataclass(frozen=True, slots=True)
class _Job:
    """What stays the same as long as the process runs."""

    source: SourceKind
    once: bool
    board: ProgressBoard
    files: FilesInput | None = None
    topics: TopicsRead | None = None
    whole: WholeTransactions | None = None


def _start(inputs: Inputs, job: _Job, *, ended_hosts: Collection[str] = ()) -> RunningIngest:
    given = first_taken(inputs.versions, checked)  # the lease is the first thing written
    pipeline = given.pipeline
    storage = open_storage(pipeline.table_url, pipeline.storage_options)
    lease = TableLease.acquire(
        storage,
        LeaseOwner(pipeline.name),
        wait=pipeline.lease_wait,
        validity=pipeline.lease_validity,
        ended_hosts=ended_hosts,
        sleep=recorded_sleep(job.board.waited_for_lease),
    )
    try:
        catalogs = catalog_keepers(pipeline, storage, job.board)

        def start(given: Input) -> QueryStarter:
            return _starter(given, job, storage, lease, catalogs)

        started = first_taken(chain([lambda: given], inputs.versions), start)
        return RunningIngest(started, lease, catalogs, partial(inputs.again, given, start))
    except BaseException:  # also by a stop signal
        lease.release()
        raise


def catalog_keepers(pipeline: Pipeline, storage: Storage, board: ProgressBoard) -> list[CatalogKeeper]:
    """One for each catalog of the table, not started."""
    return [CatalogKeeper(storage, each, board.catalog, lambda: _changes(board)) for each in pipeline.catalogs]


def _starter(
    given: Input, job: _Job, storage: Storage, lease: TableLease, catalogs: Sequence[CatalogKeeper]
) -> QueryStarter:
    """Opens the table for the input's columns."""
    files = job.files
    coordinator, function = opened_for(
        given,
        storage,
        lease,
        job.board,
        catalogs,
        files=None if files is None else FilesWriter.of(files, given.shape, given.rows),
        paced=not job.once,
    )
    return QueryStarter(
        given.rows,
        given.pipeline,
        coordinator,
        function,
        beginning=TableBeginning(storage, given.pipeline.name, given.pipeline.beginning),
        source=job.source,
        once=job.once,
        listing=None if files is None else files.listing,
        topics=job.topics,
        whole=job.whole,
    )


def opened_for(
    given: Input,
    storage: Storage,
    lease: TableLease,
    board: ProgressBoard,
    catalogs: Sequence[CatalogKeeper] = (),
    *,
    files: FilesWriter | None = None,
    paced: bool = False,
    reads: Callable[[Client], TopicReading] | None = None,
    may_serve: Callable[[], bool] = lambda: True,
    serves: StartWorker = WorkerProcess,
) -> tuple[InstantCoordinator, MicroBatchFunction]:
    """Opens the table for the input's columns: what runs its instants, and what writes its micro-batches. `reads`: who
    reads Kafka with a client of tasks. `serves`: starts the process of table services. Raises as `open_table`.
    """
    rows, pipeline, shape = given.rows, given.pipeline, given.shape
    opened, held, tasks = open_held(given, storage, lease, board)
    way = shape.way()
    log.info("%s", way, extra={"pipeline": pipeline.name})
    reading = shape.reading(rows)
    read_by = reads or partial(TopicReading, few=MESSAGES_HERE if pipeline.is_quick else 0)
    if reading is not None:
        log.info("%s", reading, extra={"pipeline": pipeline.name})
    work = _work(rows, pipeline, way)
    coordinator = held.coordinator(opened, tasks=tasks, work=work, repeatable=shape.is_repeatable(rows))
    lease.set_epoch(coordinator.epoch)
    function = MicroBatchFunction(
        pipeline,
        opened,
        shape,
        coordinator,
        board,
        tasks=tasks,
        services=held.services(board, catalogs, between=lambda: coordinator.inflight is None, start=serves),
        decoder=shape.decoder(rows),
        registered=given.registered,
        files=files,
        topics=None if reading is None or reading.client is None else read_by(reading.client),
        pace=Pace.of(pipeline, lambda: coordinator.due) if paced else None,
        scaling=ExecutorScaling.of(pipeline, SparkExecutors.of(rows.sparkSession), board) if paced else None,
        may_serve=may_serve,
    )
    return coordinator, function


def open_held(
    given: Input, storage: Storage, lease: TableLease, board: ProgressBoard
) -> tuple[OpenTable, HeldTable, int]:
    """The table, opened for the input's columns, what guards its changes, and the number of write tasks. Raises as
    `open_table`.
    """
    pipeline = given.pipeline
    tasks = pipeline.write_tasks or given.rows.sparkSession.sparkContext.defaultParallelism
    opens = partial(
        open_table,
        storage,
        pipeline.definition,
        has_deletes=pipeline.delete_when is not None,
        log_block=pipeline.log_block,
        evolution=pipeline.evolution,
        drop_metadata_table=drop_of(storage, pipeline, lease),
        lock=lambda: lock_of(storage, pipeline, lease).held(),
        check_lease=lambda: lease.check(LEASE_MARGIN),
    )

    def merge_logs(columns: pa.Schema) -> None:
        before = opens(columns)
        HeldTable.of(pipeline, before, lease, board).merge_logs(before, tasks=tasks)

    opened = replace(opens(given.shape.schema(given.rows), merge_logs=merge_logs), read_as=given.read_as)
    held = HeldTable.of(pipeline, opened, lease, board)
    held.clustering().start()  # before anything is written: an earlier process may have decided a clustering
    return opened, held, tasks


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


def _changes(board: ProgressBoard) -> object:
    """Differs after each commit of the job or of its table services."""
    now = board.snapshot()
    services = now.services
    return now.commits, None if services is None else (services.compactions, services.clusterings)


def _source_kind(resource: BucketIngest) -> SourceKind:
    source = resource.spec.source
    if source.kafka is not None:
        return "kafka"
    return "files" if source.files is not None else "rate"
