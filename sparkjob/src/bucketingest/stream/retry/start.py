"""`bucketingest retry` in a Spark session: all that a start of the pipeline checks and opens, but no query."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.decode.debezium.events import TruncatedAt
from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import read
from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.exit_codes import ExitCode
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.spec.fields.source import KafkaSource
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import open_storage
from bucketingest.stream.errors import SourceUnreachable, StreamError
from bucketingest.stream.foreach_batch import NOT_IN_ORDER
from bucketingest.stream.growth import first_taken
from bucketingest.stream.ingestion import open_held
from bucketingest.stream.micro_batch import LeftToSpark, write_ranges
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.retry.letters import Asked, places_of, put_back
from bucketingest.stream.retry.rounds import Outcome, Retry, retry_all
from bucketingest.stream.source.inputs import Input, checked, inputs_of
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.stream.source.sources import read_ranges, read_source
from bucketingest.stream.spark.session import prepared
from bucketingest.stream.topics.brokers import Brokers
from bucketingest.stream.topics.continuity import check_same_topics
from bucketingest.stream.topics.reading import ANSWER_SECONDS
from bucketingest.stream.topics.watch import quietly
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.instants.source_range import Offsets, SourceRange
from bucketingest.write.rows.write_status import WriteStatus

_BY_HAND: Final = "Have the producer send these messages again"


class RetryRefused(StreamError):
    """The dead letters of this resource cannot be retried."""

    exit_code = ExitCode.BAD_INPUT


def retry_resource(session: SparkSession, resource: BucketIngest, asked: Asked, *, dry_run: bool) -> Outcome:
    """Retry the resource's dead letters that are asked for; `dry_run`: only say what would become of them. The table's
    lease is held meanwhile, and what an earlier attempt left open is settled, also by a dry run.

    Raises RetryRefused, TableLeased, and as a start and a micro-batch do.
    """
    kafka, board = kafka_of(resource), ProgressBoard()
    with prepared(session):
        inputs = inputs_of(session, resource, read_source(session, resource), board)
        given = first_taken(inputs.versions, checked)
        client, pipeline = client_of(given), given.pipeline
        storage = open_storage(pipeline.table_url, pipeline.storage_options)
        owner = LeaseOwner(pipeline.name)
        lease = TableLease.acquire(storage, owner, wait=pipeline.lease_wait, validity=pipeline.lease_validity)

        format_ = resource.spec.format
        appends = resource.spec.table.record_key is None and (format_ is None or format_.envelope is None)

        def opened(given: Input) -> Retry:
            return _opened(session, kafka, given, client, lease, board=board, appends=appends)

        try:
            return retry_all(
                first_taken(chain([lambda: given], inputs.versions), opened),
                lambda grown: inputs.again(given, opened, grown, threading.Event()),
                asked,
                dry_run=dry_run,
            )
        except (RowsInDoubt, LeftToSpark) as doubt:
            raise RetryRefused(f"transform.sql needs Spark for some of these rows: {doubt}. {_BY_HAND}") from doubt
        except TruncatedAt as found:
            raise RetryRefused(f"{NOT_IN_ORDER}. Or retry only letters that came later (--since)") from found
        except TopicInDoubt as doubt:
            raise SourceUnreachable(f"{doubt}. Run the command again") from doubt
        finally:
            lease.release()


def kafka_of(resource: BucketIngest) -> KafkaSource:
    """The source of letters that can be retried. Raises RetryRefused."""
    kafka = resource.spec.source.kafka
    if resource.spec.tables is not None:
        raise RetryRefused(f"dead letters of a resource with spec.tables cannot be retried. {_BY_HAND}")
    if kafka is None:
        raise RetryRefused("only messages of Kafka can be retried. Of files: write the repaired one under another name")
    if resource.dead_letter_path is None:
        raise RetryRefused("spec.errors.mode is fail: there are no dead letters")
    return kafka


def client_of(given: Input) -> Client:
    """What reads the topics here and in tasks. Raises RetryRefused."""
    reading = given.shape.reading(given.rows)
    if reading is None or reading.client is None:
        why = given.shape.way() if reading is None else reading.why
        raise RetryRefused(f"dead letters that only Spark can read or decode cannot be retried: {why}. {_BY_HAND}")
    return reading.client


def _opened(
    session: SparkSession,
    kafka: KafkaSource,
    given: Input,
    client: Client,
    lease: TableLease,
    *,
    board: ProgressBoard,
    appends: bool,
) -> Retry:
    pipeline = given.pipeline
    storage = open_storage(pipeline.table_url, pipeline.storage_options)
    opened, held, tasks = open_held(given, storage, lease, board)

    def started() -> InstantCoordinator:
        coordinator = held.coordinator(opened, tasks=tasks, work="dead letters again", repeatable=False)
        lease.set_epoch(coordinator.epoch)
        coordinator.start()
        coordinator.commit_open()
        return coordinator

    coordinator = started()
    if coordinator.inflight is not None:  # the next run writes its rows
        coordinator.give_up("dead letters are retried first")
        coordinator = started()
    letters = places_of(pipeline, storage)
    put_back(letters, storage, pipeline.name)

    def begins_of(position: SourceRange | None) -> Offsets:
        brokers = Brokers(session, kafka, ANSWER_SECONDS)
        try:
            topics = brokers.topics()
            check_same_topics(position, {name: topic.id for name, topic in topics.items()})
            return brokers.begins(topics)
        finally:
            quietly(brokers.close)

    def confirm(written: SourceRange) -> None:
        begins_of(written)

    begins = begins_of(coordinator.position)

    def decoding(ranges: Sequence[TopicRange], use: Callable[[MessageDecoder], list[WriteStatus]]) -> None:
        if given.registered is not None:
            messages = read_ranges(session, kafka, ranges)
            given.registered.write(lambda: messages, use, lambda: False)
            return
        decoder = given.shape.decoder(given.rows)
        assert decoder is not None, "its messages are decoded on Arrow"
        use(decoder)

    return Retry(
        pipeline,
        opened,
        tasks,
        coordinator,
        letters,
        begins,
        reads=lambda of, columns: read(of, client, columns),
        writes=lambda ranges, plan, decoder: write_ranges(session, ranges, plan, decoder, client),
        decoding=decoding,
        confirm=confirm,
        appends=appends,
    )
