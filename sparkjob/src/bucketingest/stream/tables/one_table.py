"""One table of many: it is opened as the table of a resource of its own would be, and what goes wrong with it parks it,
and nothing else. Its position is in its commits.

A failure closes the table. The next try opens it again, which finishes or rolls back what was left, as a start does.
A table without input is closed after a while, too: its lease, its timeline and its threads cost nothing then. Where it
ends is remembered, and the next row, or the next turn of its table services, opens it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain

from pyspark.sql import DataFrame

from bucketingest.catalog.keeper import CatalogKeeper
from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import BatchTooLarge, TopicSilent
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.lease.record import LeaseOwner
from bucketingest.lease.table_lease import TableLease
from bucketingest.spec.many_tables import table_resource
from bucketingest.spec.model import BucketIngest
from bucketingest.storage import Storage, open_storage
from bucketingest.stream.checkpoint.checkpoint import chained, check_kind
from bucketingest.stream.errors import SourceUnreachable, TopicsMissing
from bucketingest.stream.foreach_batch import MicroBatchFunction, StopRequested
from bucketingest.stream.growth import Growth, first_taken
from bucketingest.stream.ingestion import catalog_keepers, opened_for
from bucketingest.stream.micro_batch import write_micro_batch, write_ranges
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.retry.letters import places_of, put_back
from bucketingest.stream.source.columns_schema import SchemaGrown
from bucketingest.stream.source.inputs import Input, Inputs, checked, inputs_of
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.stream.source.sources import read_ranges
from bucketingest.stream.spark.executors import POOL
from bucketingest.stream.tables.combined import TasksHang, Work, WriteAlone, ended_after, half_of_slots
from bucketingest.stream.tables.consistent.keeper import TableCuts, newest_instant
from bucketingest.stream.tables.gathering import Ended
from bucketingest.stream.tables.shared import Shared
from bucketingest.stream.tables.shares import TopicOffsets, next_range, ranges_of
from bucketingest.stream.tables.topics_look import check_position
from bucketingest.stream.tables.trouble import (
    JvmGone,
    Trouble,
    jvm_is_gone,
    refuse,
    refuse_what_ends_attempts,
    trouble_of,
)
from bucketingest.stream.topics.batch import TopicBatch
from bucketingest.stream.topics.continuity import check_same_topics, offsets_of, within
from bucketingest.stream.topics.without_spark import TopicReading
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.instants.source_range import SourceRange, topic_ids
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.write_status import WriteStatus

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Open:
    """What a table has while it is open."""

    storage: Storage
    lease: TableLease
    inputs: Inputs
    coordinator: InstantCoordinator
    function: MicroBatchFunction
    replay: SourceRange | None


@dataclass(frozen=True, slots=True)
class _Ends:
    """Where an idle table ends."""

    position: SourceRange | None


class OneTable:
    """The table of a topic. `step` and `serve` are called by one thread at a time, the rest by any."""

    def __init__(self, topic: str, shared: Shared, board: ProgressBoard, may_serve: Callable[[str], bool]) -> None:
        self.topic = topic
        self.board = board
        self.trouble: Trouble | None = None
        self.is_gone = False
        """Whether Kafka has the topic no more. The table stays as it is."""
        self.began_at: float | None = None
        """When the last micro-batch that was written began, by the forward clock: the next one is due an interval after
        that, however long this one takes.
        """
        self._shared = shared
        self._may_serve = may_serve
        self._open: _Open | None = None
        self._ends_at: _Ends | None = None
        """While it is idle."""
        self._closed_at = forward_seconds()
        self._catalogs: list[CatalogKeeper] | None = None
        """They outlive what closes the table: a commit may still be missing there."""
        self.cuts: TableCuts | None = None
        """Where it may stop, if commits have whole transactions and it was opened."""
        self._resource: BucketIngest | None = None
        self._range: SourceRange | None = None
        self._now: TopicOffsets | None = None
        self._read_at: float | None = None
        """When the tasks had read the micro-batch, if nothing reads it again."""

    @property
    def is_open(self) -> bool:
        """Whether this job holds it."""
        return self._open is not None

    @property
    def is_idle(self) -> bool:
        """Whether it was closed because it had no input."""
        return self._open is None and self._ends_at is not None

    @property
    def is_known(self) -> bool:
        """Whether its position is known."""
        return self._open is not None or self._ends_at is not None

    @property
    def position(self) -> SourceRange | None:
        """What it has of the topic; None before its first commit, and while it is not known."""
        if self._open is not None:
            return self._open.coordinator.position
        return None if self._ends_at is None else self._ends_at.position

    @property
    def opening_seconds(self) -> float:
        """For how long its position has not been known; 0 while it is."""
        return 0.0 if self.is_known else forward_seconds() - self._closed_at

    @property
    def has_services(self) -> bool:
        """Whether the job looks after the table."""
        return self._shared.resource.spec.services.mode != "off"

    @property
    def has_replay(self) -> bool:
        """Whether an earlier attempt has started a micro-batch, which comes next."""
        return self._open is not None and self._open.replay is not None

    @property
    def services_due(self) -> bool:
        """Whether the next step of its table services is due."""
        opened = self._open
        return opened is not None and opened.function.services_due

    @property
    def service_pid(self) -> int | None:
        """Process id of its table services, while they run."""
        opened = self._open
        return None if opened is None else opened.function.service_pid

    def step(self, now: TopicOffsets, share: int) -> None:
        """Open it if it is not open; then write its next micro-batch, of at most about `share` offsets, if it has
        input. What goes wrong parks it. Raises JvmGone.
        """
        try:
            self._now = now
            if self._shared.stop.is_set():
                return
            if self._open is None:
                self._open_it()
            self._write_next(now, share)
        except (StopRequested, Ended):
            pass
        except SchemaGrown as found:
            grown = found
            self._guarded(lambda: self._grow(grown))
        except Exception as error:  # noqa: BLE001 - it is of no matter to the other tables
            self._park(error)
        finally:
            self._shared.gathering.withdraw(self.topic)

    def serve(self) -> None:
        """The next step of its table services. What goes wrong parks it."""
        if self._open is not None:
            function = self._open.function

            def step() -> None:
                with function.busy:
                    function.serve_table()

            self._guarded(step)

    def wake(self) -> None:
        """Open it, for its table services. What goes wrong parks it."""
        self._guarded(self._open_it)

    def rest(self) -> None:
        """Close it until it has input, unless something of it is open. What goes wrong parks it."""
        opened = self._open
        if opened is not None and opened.replay is None and opened.coordinator.inflight is None:
            ends = _Ends(opened.coordinator.position)
            self._guarded(self.close)
            self._ends_at = ends if self.trouble is None else None
            log.info("the table has no input and is closed until it has", extra={"topic": self.topic})

    def set_aside(self, reason: str) -> None:
        """Park it: its topic cannot be read now."""
        self._guarded(partial(refuse, reason))

    def leave(self) -> None:
        """Close it, because its topic is gone: nothing of it waits any more."""
        self._guarded(self.close)
        self.board.query_ended(None)
        self.board.idle()
        if (served := self.board.snapshot().services) is not None:
            self.board.services(served.totals())

    def close(self) -> None:
        """Give the table back. What is open is finished by the next start."""
        self._closed_at = forward_seconds()
        opened, self._open, self._ends_at = self._open, None, None
        if opened is not None:
            opened.function.stop_services()
            opened.lease.release()

    def stop(self) -> None:
        """No further micro-batch starts."""
        if self._open is not None:
            self._open.function.stop_requested.set()

    # -- the positions of its micro-batches, as the function that writes them asks ---------------------------------

    def range_of(self, batch_id: int) -> SourceRange:  # noqa: ARG002 - there is one at a time
        """The micro-batch that is being written."""
        assert self._range is not None, "it is planned"
        return self._range

    def confirm(self, source_range: SourceRange) -> None:
        """The range was read: raises RangeConflict, TopicsMissing unless the topic is still the one that it names."""
        ids = self._shared.look.ids_since(forward_seconds() if self._read_at is None else self._read_at)
        if self.topic not in ids:
            raise TopicsMissing(f"the topic {self.topic} was deleted while it was read", (self.topic,))
        check_same_topics(source_range, {self.topic: ids[self.topic]})

    # -- steps -----------------------------------------------------------------------------------------------------

    def _write_next(self, now: TopicOffsets, share: int) -> None:
        opened, began = self._open, forward_seconds()
        assert opened is not None, "it was opened"
        wanted = opened.replay
        if wanted is None:
            if self.cuts is not None and self.cuts.is_done:
                return
            position = opened.coordinator.position
            check_position(self._shared.look, self.topic, position, now)
            wanted = next_range(position, self.topic, now, share, int(time.time() * 1000))
            if self.cuts is not None:
                wanted = self.cuts.whole(position, wanted, now)
            left = {place: at for place, at in offsets_of(position).items() if place[0] != self.topic}
            wanted = within(wanted, left, {**topic_ids(position), self.topic: now.id})
        ranges = ranges_of(wanted, self.topic, now.begins)
        if not ranges and opened.replay is None:
            self.trouble = None
            return
        self._range, self._read_at = wanted, None
        if self.trouble is not None:  # it is written by itself: nobody waits for it
            self._shared.gathering.withdraw(self.topic)
        context = self._shared.session.sparkContext
        context.setLocalProperty(POOL, self.topic)
        with (
            self._shared.hanging if self._hung else nullcontext(),
            ended_after(context, self._shared.limit_seconds),  # also what it has to itself
        ):
            opened.function(self._batch(wanted, ranges), wanted.batch_id)
        opened.replay = None
        self.began_at, self.trouble = began, None
        self._reached()

    def _reached(self) -> None:
        opened, now = self._open, self._now
        if self.cuts is not None and now is not None and opened is not None and opened.coordinator.inflight is None:
            self.cuts.reached(opened.coordinator.position, now)

    @property
    def _hung(self) -> bool:
        """Whether its tasks did when they were last tried."""
        return self.trouble is not None and isinstance(self.trouble.error, TasksHang)

    def _batch(self, wanted: SourceRange, ranges: Sequence[TopicRange]) -> TopicBatch:
        kafka = self._derived().spec.source.kafka
        assert kafka is not None, "tables are for Kafka only"
        session = self._shared.session
        read = partial(read_ranges, session, kafka)
        if self._hung:
            return TopicBatch(wanted, ranges, session, lambda each: read(each).coalesce(half_of_slots(session)))
        return TopicBatch(wanted, ranges, session, read)

    def _write(
        self, rows: DataFrame | TopicBatch, plan: WritePlan, decoder: MessageDecoder, client: Client, _: int
    ) -> list[WriteStatus]:
        """As `write_topics`, together with other tables."""
        assert isinstance(rows, TopicBatch), "it is planned here"
        try:
            if plan.is_global:  # it needs a shuffle more than others
                self._shared.gathering.withdraw(self.topic)
                if self._hung:
                    return write_micro_batch(rows.rows, plan, decoder)
                return write_ranges(rows.session, rows.ranges, plan, decoder, client)
            statuses, read_at = self._with_others(Work(plan, decoder, client, rows.ranges))
        except TopicSilent as error:  # Spark's tasks would wait for longer, in the place of those of other tables
            raise SourceUnreachable(str(error)) from error
        except BatchTooLarge as error:  # Spark would unpack it in the memory of the JVM that all tables have
            raise SourceUnreachable(
                f"{error}: a batch of messages is broken, or more than 100 MB when it is unpacked. Delete the topic's "
                "messages up to it with kafka-delete-records, and let failOnDataLoss accept that"
            ) from error
        if not any(status.undecoded for status in statuses):
            self._read_at = read_at
        return statuses

    def _with_others(self, work: Work) -> tuple[list[WriteStatus], float]:
        """Write it, and return when the tasks had read it. By itself after a failure, until it has written: what hangs
        or ends processes then does so alone.
        """
        shared = self._shared
        if self.trouble is None:
            with suppress(WriteAlone):
                statuses = shared.gathering.submit(self.topic, work)
                return statuses, shared.gathering.written_at
        shared.gathering.withdraw(self.topic)
        with shared.alone:
            (answer,) = shared.write([work])
        if isinstance(answer, Exception):
            raise answer
        return answer, forward_seconds()

    def _derived(self) -> BucketIngest:
        if self._resource is None:
            self._resource = table_resource(self._shared.resource, self.topic)
        return self._resource

    def _open_it(self) -> None:
        shared, resource = self._shared, self._derived()
        inputs = inputs_of(shared.session, resource, shared.rows, self.board, planned=shared.shapes.of)
        given = first_taken(inputs.versions, checked)
        pipeline = given.pipeline
        storage = open_storage(pipeline.table_url, pipeline.storage_options)
        if self._catalogs is None:
            self._catalogs = catalog_keepers(pipeline, storage, self.board)
            shared.catalogs.add(self.topic, self._catalogs)
        lease = TableLease.acquire(
            storage,
            LeaseOwner(pipeline.name),
            wait=timedelta(0),  # parked, it is tried again
            validity=pipeline.lease_validity,
            ended_hosts=shared.ended_hosts,
        )
        try:
            self._open = first_taken(
                chain([lambda: given], inputs.versions), lambda each: self._started(each, storage, lease, inputs)
            )
        except BaseException:
            lease.release()
            raise
        if shared.sets is not None:
            self.cuts = self.cuts or TableCuts.of(shared.sets, self.topic, resource, self.board)
            self.cuts.opened(newest_instant(storage))
            self._reached()

    def _started(self, given: Input, storage: Storage, lease: TableLease, inputs: Inputs) -> _Open:
        coordinator, function = opened_for(
            given,
            storage,
            lease,
            self.board,
            self._catalogs or (),
            reads=lambda client: TopicReading(client, write=self._write),
            may_serve=lambda: self._may_serve(self.topic),
            serves=self._shared.services.start,
        )
        start = coordinator.start()
        pipeline = given.pipeline
        put_back(places_of(pipeline, storage), storage, pipeline.name)  # it may have had a resource of its own
        check_kind("kafka", start)
        position, replay = chained(start)
        if replay is not None and self.trouble is None:  # else it is written by itself
            refuse_what_ends_attempts(storage, coordinator)
        self.board.started(position, coordinator.epoch, coordinator.inflight, (start.verdict.value, start.reason))
        function.begin(self, lambda: None)
        if self._shared.stop.is_set():
            function.stop_requested.set()
        function.commit(now=True)  # a pipeline of its own may have left an instant open that takes more micro-batches
        if coordinator.position is not None:
            position = coordinator.position
        return _Open(storage, lease, inputs, coordinator, function, replay)

    def _grow(self, grown: SchemaGrown) -> None:
        """Open it again with more columns, or without them if the table cannot have them."""
        opened = self._open
        assert opened is not None, "it has written"
        assert opened.inputs.columns is not None, "its columns grow"
        assert opened.inputs.with_schema is not None, "its columns grow"
        opened.function.stop_services()
        self.board.query_ended(None)
        opened.coordinator.give_up("columns become more")
        growth = Growth(
            opened.inputs.columns,
            opened.inputs.with_schema,
            lambda each: self._started(each, opened.storage, opened.lease, opened.inputs),
        )
        self._open = growth.starter(grown, self._shared.stop)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (StopRequested, Ended):
            pass
        except Exception as error:  # noqa: BLE001 - as in `step`
            self._park(error)

    def _park(self, error: Exception) -> None:
        if jvm_is_gone(error, self._shared.session):
            raise JvmGone from error
        self.trouble = found = trouble_of(error, self.trouble)
        if self.cuts is not None:
            self.cuts.lost()
        said: dict[str, object] = {"topic": self.topic, "reason": found.reason, "failures": found.failures}
        said["again_in_seconds"] = round(found.wait, 1)
        log.warning("the table is parked; the others go on", extra=said)
        self.board.query_ended(None)
        try:
            self.close()
        except Exception as problem:  # noqa: BLE001 - the lease expires in any case
            log.warning("a table could not be closed", extra={"topic": self.topic, "reason": str(problem)})
