"""One micro-batch as Spark runs it: rows to messages per file group, shuffled by file group, appended by the write
tasks.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from bucketingest.decode.debezium.events import TruncatedAt
from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import BatchTooLarge, TopicInDoubt, TopicSilent
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import SILENCE_SECONDS, expect, read
from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.index.errors import PartitionsNotLoaded
from bucketingest.stream.source.messages import MessageDecoder, pack_counting, pack_messages, refused_messages
from bucketingest.stream.source.traced import rejected_messages
from bucketingest.stream.spark.arrow_map import Stage, map_in_arrow
from bucketingest.write.dead_letters.writer import write_dead_letters
from bucketingest.write.errors import ConflictingAttempt
from bucketingest.write.moving.key_owner import own_keys
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.emptied import deletes_of
from bucketingest.write.rows.shuffle import SHUFFLE_DDL, SHUFFLE_ORDER, pack
from bucketingest.write.rows.write_status import STATUS_DDL, WriteStatus, statuses_from_arrow

log = logging.getLogger(__name__)

WARM_UP: Final = "warm-up"
"""Group of the jobs that start Python workers."""


class LeftToSpark(Exception):
    """Rows of the micro-batch are in doubt. Nothing of it is written: what decodes comes before what writes."""


def write_micro_batch(rows: DataFrame, plan: WritePlan, decoder: MessageDecoder | None = None) -> list[WriteStatus]:
    """Write the rows (the plan's columns) and return what every write task reports.

    With a decoder the rows are the source's messages. They are decoded in the tasks that make the shuffle's, and the
    tasks also report how many of them were no rows. Raises LeftToSpark, ConflictingAttempt, PartitionsNotLoaded.
    """
    if decoder is None:
        packed = map_in_arrow(rows, lambda batches: pack(batches, plan, current_task()), SHUFFLE_DDL)
        return write_packed(packed, plan)
    stage: Stage = lambda batches: pack_messages(batches, plan, decoder, current_task())  # noqa: E731
    return write_packed(map_in_arrow(rows.select(*decoder.needs), stage, SHUFFLE_DDL), plan)


def write_ranges(
    session: SparkSession, ranges: Sequence[TopicRange], plan: WritePlan, decoder: MessageDecoder, client: Client
) -> list[WriteStatus]:
    """As `write_micro_batch`, for messages: the tasks read Kafka themselves, a range each. Raises TopicInDoubt, before
    anything is written, LeftToSpark, ConflictingAttempt, PartitionsNotLoaded.
    """
    tasks = session.range(0, len(ranges), 1, len(ranges))
    return write_packed(map_in_arrow(tasks, _pack_topics(plan, decoder, client, ranges), SHUFFLE_DDL), plan)


def write_traced(rows: DataFrame, traced: Callable[[], DataFrame], plan: WritePlan) -> list[WriteStatus]:
    """As `write_micro_batch`; the rows without a place are made again, with their messages, as `traced` has them."""
    counting: Stage = lambda batches: pack_counting(batches, plan, current_task(), [])  # noqa: E731
    statuses = write_packed(map_in_arrow(rows, counting, SHUFFLE_DDL), plan)
    rejected = sum(status.undecoded for status in statuses)
    if not rejected:
        return statuses
    stage: Stage = lambda batches: write_dead_letters(rejected_messages(batches, plan), plan, current_task())  # noqa: E731
    letters = _collect(map_in_arrow(traced(), stage, STATUS_DDL))
    if (found := sum(status.rejected for status in letters)) != rejected:
        raise ConflictingAttempt(f"{rejected} rows had no place in the table, and {found} when they were made again")
    return statuses + letters


def write_packed(packed: DataFrame, plan: WritePlan) -> list[WriteStatus]:
    """Write rows that are packed as the shuffle's messages. Raises as `write_micro_batch` does."""
    if plan.emptied:  # as tasks before all others: so each delete is older than a row of the micro-batch
        files, plan = plan.emptied, replace(plan, emptied=None)
        tasks = packed.sparkSession.range(0, len(files), 1, min(len(files), plan.tasks))
        packed = map_in_arrow(tasks, _pack_deletes(plan, files), SHUFFLE_DDL).unionAll(packed)
    if plan.is_global:
        packed = map_in_arrow(
            _shuffled(packed, plan), lambda batches: own_keys(batches, plan, current_task()), SHUFFLE_DDL
        )
    stage: Stage = lambda batches: write_task(batches, plan, current_task())  # noqa: E731
    return _collect(map_in_arrow(_shuffled(packed, plan), stage, STATUS_DDL))


def write_letters(letters: DataFrame, plan: WritePlan) -> list[WriteStatus]:
    """Stage dead letters (columns of the dead-letter table) and return what was written."""
    stage: Stage = lambda batches: write_dead_letters(batches, plan, current_task())  # noqa: E731
    return _collect(map_in_arrow(letters, stage, STATUS_DDL))


def write_refused(rows: DataFrame, plan: WritePlan, decoder: MessageDecoder) -> list[WriteStatus]:
    """Stage the messages that are no rows, or rows without a place, as dead letters and return what was written."""
    columns = dict.fromkeys(["topic", "partition", "offset", "timestamp", "key", *decoder.needs])
    stage: Stage = lambda batches: write_dead_letters(  # noqa: E731
        refused_messages(batches, decoder, plan), plan, current_task()
    )
    return _collect(map_in_arrow(rows.select(*columns), stage, STATUS_DDL))


def warm_up(session: SparkSession) -> threading.Thread:
    """Run a micro-batch without rows in a thread, as soon as there is an executor: it starts the Python workers, which
    import for a second, and loads the JVMs' classes, while the driver still looks at source and table.

    It writes nothing, and whatever ends it is not an error: the first micro-batch would meet it too.
    """
    thread = threading.Thread(target=_warm_up, args=(session,), name="warm-up", daemon=True)
    thread.start()
    return thread


def _warm_up(session: SparkSession) -> None:
    try:
        session.sparkContext.setJobGroup(WARM_UP, "starts Python workers")
        slots = session.sparkContext.defaultParallelism
        packed = map_in_arrow(session.range(0, slots, 1, slots), _nothing, SHUFFLE_DDL)
        shuffled = packed.repartitionById(slots, F.col("route")).sortWithinPartitions(*SHUFFLE_ORDER)
        map_in_arrow(shuffled, _nothing, STATUS_DDL).toArrow()
        log.info("Python workers have started")
    except Exception as error:  # noqa: BLE001 - see above
        log.debug("no warm-up", extra={"reason": str(error)})


def _nothing(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from ()


def _shuffled(packed: DataFrame, plan: WritePlan) -> DataFrame:
    return packed.repartitionById(plan.tasks, F.col("route")).sortWithinPartitions(*SHUFFLE_ORDER)


def _pack_topics(plan: WritePlan, decoder: MessageDecoder, client: Client, ranges: Sequence[TopicRange]) -> Stage:
    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        drain(batches)
        expect(ranges, client)  # a worker runs many tasks
        yield from pack_range(ranges[current_task()], plan, decoder, client, current_task())

    return stage


def _pack_deletes(plan: WritePlan, files: Sequence[FileSlice]) -> Stage:
    def stage(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        deletes = chain.from_iterable(deletes_of(files[number], plan) for number in numbers)
        yield from pack(deletes, plan, current_task())

    return stage


def pack_range(
    wanted: TopicRange,
    plan: WritePlan,
    decoder: MessageDecoder,
    client: Client,
    map_task: int,
    *,
    silence: float = SILENCE_SECONDS,
) -> Iterator[pa.RecordBatch]:
    """In a task: as `pack_messages`, of the messages of a range, which is read here; `silence` as for `read`."""
    silence /= 1 + _context().attemptNumber()
    yield from pack_messages(read(wanted, client, decoder.needs, silence), plan, decoder, map_task)


def drain(batches: Iterable[pa.RecordBatch]) -> None:
    """Take a task's one row, which says nothing; Spark ends a worker that leaves something unread."""
    for _ in batches:
        pass


def current_task() -> int:
    """Number of the task that runs this."""
    return _context().partitionId()


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "runs inside a Spark task only"
    return context


def _collect(statuses: DataFrame) -> list[WriteStatus]:
    try:
        return statuses_from_arrow(statuses.toArrow())
    except PySparkException as error:
        if (found := own_error(str(error))) is not None:
            raise found from error
        raise


def own_error(text: str) -> Exception | None:
    """The error that a task raised, if the driver knows what to do about it: tasks' errors arrive as text."""
    if (why := raised(text, ConflictingAttempt)) is not None:
        return ConflictingAttempt(why)
    if (why := raised(text, PartitionsNotLoaded)) is not None:
        return PartitionsNotLoaded.of_text(why)
    for kind in (TopicSilent, BatchTooLarge, TopicInDoubt):
        if (why := raised(text, kind)) is not None:
            return kind(why)
    if (why := raised(text, TruncatedAt)) is not None:
        return TruncatedAt(int(why))
    if (why := raised(text, RowsInDoubt)) is not None:
        return LeftToSpark(why)
    return None


def raised(error: object, kind: type[Exception]) -> str | None:
    """What a task's error of this kind says; None if it is another."""
    found = re.search(rf"^[\w.]*\b{kind.__name__}: (.*)", str(error), re.MULTILINE)
    return None if found is None else found[1]
