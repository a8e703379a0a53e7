"""The tasks of many tables as one Spark job: a job for each would cost more than what most of them have to write.

A task that reads has ranges of several tables, one after the other; a task that writes has several tables. What fails
for one table is an answer about that table: the others' rows are written all the same.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.errors import TopicSilent
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.kafka.reader import SILENCE_SECONDS, expect
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.stream.micro_batch import current_task, drain, own_error, pack_range
from bucketingest.stream.source.messages import MessageDecoder
from bucketingest.stream.spark.arrow_map import map_in_arrow
from bucketingest.stream.spark.executors import POOL, runs_tasks
from bucketingest.stream.spark.failures import essence, got_no_answer
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.bucket_writer import write_task
from bucketingest.write.rows.shuffle import SHUFFLE_DDL, SHUFFLE_ORDER, SHUFFLE_SCHEMA, counted
from bucketingest.write.rows.write_status import (
    STATUS_DDL,
    STATUS_SCHEMA,
    WriteStatus,
    statuses_from_arrow,
    statuses_to_arrow,
)

log = logging.getLogger(__name__)

_FAILED: Final = -100
"""As bucket, before all others: the message is why the table's rows cannot be made."""
_PACKED_DDL: Final = f"slot INT, unit INT, {SHUFFLE_DDL}"
_SAID_DDL: Final = f"unit INT, failure STRING, {STATUS_DDL}"
_TASKS_PER_SLOT: Final = 2
_SAID_MAX: Final = 10_000
"""Characters of an error, which may repeat a value."""
_SILENCE_MIN_SECONDS: Final = 3.0
"""A topic that says nothing is waited for half as long as the one before it in the task, and not shorter."""
_LOOK_SECONDS: Final = 1.0
"""Between two looks at whether tasks run."""
_GROUPS: Final = itertools.count()


class TableFailed(PySparkException):
    """The tasks of one table failed, in words that begin with the error's name, as Spark has them."""


class TasksHang(TableFailed):
    """They did not end, and were ended."""


@dataclass(frozen=True, slots=True)
class Work:
    """One table's micro-batch."""

    plan: WritePlan
    decoder: MessageDecoder = field(repr=False)
    client: Client
    ranges: Sequence[TopicRange]


Answer: TypeAlias = "list[WriteStatus] | Exception"
Write: TypeAlias = Callable[[Sequence[Work]], list[Answer]]


@dataclass(frozen=True, slots=True)
class _Unit:
    """A write task of a table."""

    work: int
    task: int


class WriteAlone(Exception):
    """The job of several tables hung: each is to be written by a job of its own, to know whose tasks hang."""


def writers(session: SparkSession, limit_seconds: float) -> tuple[Write, Write]:
    """`write_combined` for what is written together, and for a table alone after a failure: half of Spark's slots are
    left to the others, should it hang.
    """

    def limited(tasks: int) -> Write:
        return partial(write_combined, session, tasks=tasks, limit_seconds=limit_seconds)

    return limited(session.sparkContext.defaultParallelism * _TASKS_PER_SLOT), limited(half_of_slots(session))


def half_of_slots(session: SparkSession) -> int:
    """Tasks of what may hang: the others have places then."""
    return max(1, session.sparkContext.defaultParallelism // 2)


def write_combined(session: SparkSession, works: Sequence[Work], tasks: int, limit_seconds: float) -> list[Answer]:
    """Write the micro-batches by one job of at most so many tasks in each stage; of each what its tasks report, or why
    it cannot be written. A job that fails is written again by halves, until it is known whose tasks fail. Tasks that
    have not ended after the limit are ended: then the answer is WriteAlone, unless there is one micro-batch.
    """
    try:
        with ended_after(session.sparkContext, limit_seconds):
            return _written(session, works, tasks)
    except Exception as error:
        if got_no_answer(error):  # the JVM is gone
            raise
        if len(works) == 1:
            return [own_error(str(error)) or error]
        extra = {"tables": len(works), "why": essence(error)[0]}
        if isinstance(error, TasksHang):  # each further job that hangs takes as long
            log.warning("a job of many tables hung: each again by itself", extra=extra)
            return [WriteAlone() for _ in works]
        log.warning("a job of many tables failed: its halves again", extra=extra)
        half = len(works) // 2
        return [
            answer
            for part in (works[:half], works[half:])
            for answer in write_combined(session, part, tasks, limit_seconds)
        ]


@contextmanager
def ended_after(context: SparkContext, seconds: float) -> Iterator[None]:
    """End the tasks of the jobs that this thread starts in the block, if they have run for so long: a task that hangs
    keeps its place for ever. The time while none of them has a place does not count. Raises TasksHang then.
    """
    group, over, is_late = f"tables-{next(_GROUPS)}", threading.Event(), threading.Event()
    pool = context.getLocalProperty(POOL)

    def watch() -> None:
        ran, seen = 0.0, forward_seconds()
        while not over.wait(min(_LOOK_SECONDS, seconds)):
            before, seen = seen, forward_seconds()
            try:
                ran += seen - before if runs_tasks(context, pool) else 0.0
            except (Py4JError, OSError):  # the JVM is gone: who waits for the job hears it, too
                return
            if ran >= seconds:  # again and again: a job may begin only now
                is_late.set()
                context.cancelJobGroup(group)

    context.setJobGroup(group, "micro-batches of tables", interruptOnCancel=True)
    watcher = threading.Thread(target=watch, name=group, daemon=True)
    watcher.start()
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if not is_late.is_set() or isinstance(error, TableFailed):
            raise
        raise TasksHang(
            f"TasksHang: the tasks did not end within {seconds:g} s, half of health.maxCommitLag, and were stopped"
        ) from error
    finally:
        over.set()


def _written(session: SparkSession, works: Sequence[Work], most: int) -> list[Answer]:
    stages = Stages.of(works, most)
    tasks = session.range(0, len(stages.reading), 1, len(stages.reading))
    packed = map_in_arrow(tasks, stages.pack, _PACKED_DDL)
    shuffled = packed.repartitionById(stages.writing, packed["slot"]).sortWithinPartitions("unit", *SHUFFLE_ORDER)
    return stages.answers(map_in_arrow(shuffled, stages.write, _SAID_DDL).toArrow())


@dataclass(frozen=True, slots=True)
class Stages:
    """What the tasks of a job do. Picklable."""

    works: Sequence[Work]
    reading: list[list[tuple[int, int]]]
    """Of each reading task its ranges, as table and number of the range, in order."""
    units: Sequence[_Unit]
    """The write tasks of all tables."""
    writing: int
    """Spark's write tasks, each of which has every so manieth unit."""

    @classmethod
    def of(cls, works: Sequence[Work], most: int) -> Self:
        """At most so many tasks in each stage."""
        units = [_Unit(number, task) for number, work in enumerate(works) for task in range(work.plan.tasks)]
        count = min(most, sum(len(work.ranges) for work in works))
        return cls(works, _bins(works, max(1, count)), units, min(most, len(units)))

    def pack(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A reading task: its ranges' rows, with the unit that they are for."""
        drain(batches)
        first = {unit.work: number for number, unit in reversed(list(enumerate(self.units)))}
        mine, silence = self.reading[current_task()], SILENCE_SECONDS
        for place, (number, at) in enumerate(mine):
            work = self.works[number]
            try:
                # Again each time: what fails closes the connection.
                expect((self.works[other].ranges[part] for other, part in mine[place:]), work.client)
                for packed in pack_range(work.ranges[at], work.plan, work.decoder, work.client, at, silence=silence):
                    yield _addressed(packed, first[number], self.writing)
            except Exception as error:  # noqa: BLE001 - it is told, and of no matter to the other tables
                if isinstance(error, TopicSilent):
                    silence = max(_SILENCE_MIN_SECONDS, silence / 2)
                for task in range(work.plan.tasks):
                    said = counted(_FAILED, 0, work.plan, task)
                    said = said.set_column(SHUFFLE_SCHEMA.get_field_index("message"), "message", _text(error))
                    yield _addressed(said, first[number], self.writing)

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A write task: what each of its units reports, also one without rows."""
        pieces = itertools.groupby(_by_unit(batches), key=lambda piece: piece[0])
        given = next(pieces, None)
        for number in range(current_task(), len(self.units), self.writing):
            unit = self.units[number]
            if given is None or given[0] != number:
                yield from _write_unit(iter(()), self.works[unit.work].plan, unit.task, number)
                continue
            mine = (piece for _, piece in given[1])
            yield from _write_unit(mine, self.works[unit.work].plan, unit.task, number)
            given = next(pieces, None)  # what a failed one left is passed over

    def answers(self, said: pa.Table) -> list[Answer]:
        """What the write tasks said, by table."""
        answers: list[Answer] = [[] for _ in self.works]
        rows = zip(said["unit"].to_pylist(), said["failure"].to_pylist(), statuses_from_arrow(said), strict=True)
        for unit, failure, status in rows:
            work, answer = self.units[unit].work, answers[self.units[unit].work]
            if failure is not None:
                answers[work] = own_error(failure) or TableFailed(failure)
            elif isinstance(answer, list):
                answer.append(status)
        return answers


def _bins(works: Sequence[Work], count: int) -> list[list[tuple[int, int]]]:
    """About as many messages for each reading task."""
    sizes = {
        (number, at): each.until - each.start
        for number, work in enumerate(works)
        for at, each in enumerate(work.ranges)
    }
    bins: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    filled = [0] * count
    for place in sorted(sizes, key=lambda each: (-sizes[each], each)):
        smallest = filled.index(min(filled))
        bins[smallest].append(place)
        filled[smallest] += sizes[place] + 1
    return bins


def _text(error: Exception) -> pa.Array:
    return pa.array([_said(error).encode()], pa.binary())


def _said(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}: {error}"[:_SAID_MAX]


def _addressed(packed: pa.RecordBatch, first: int, writing: int) -> pa.RecordBatch:
    """With the write task's number among those of all tables, and the Spark task that it runs in."""
    routes = packed.column("route").to_pylist()
    unit = [first + route for route in routes]
    columns = [pa.array([each % writing for each in unit], pa.int32()), pa.array(unit, pa.int32()), *packed.columns]
    return pa.RecordBatch.from_arrays(columns, names=["slot", "unit", *packed.schema.names])


def _write_unit(batches: Iterator[pa.RecordBatch], plan: WritePlan, task: int, number: int) -> Iterator[pa.RecordBatch]:
    try:
        first = next(batches, None)
        if first is not None and first.column("bucket")[0].as_py() == _FAILED:
            yield _answer(number, first.column("message")[0].as_py().decode(), None)
            return
        rows = batches if first is None else itertools.chain([first], batches)
        for statuses in write_task(rows, plan, task):
            yield _answer(number, None, statuses)
    except Exception as error:  # noqa: BLE001 - as above
        yield _answer(number, _said(error), None)


def _by_unit(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The shuffle's rows as they were packed, in pieces of one unit, which are in order."""
    for batch in batches:
        units = batch.column("unit").to_pylist()
        start = 0
        while start < len(units):
            end = start
            while end < len(units) and units[end] == units[start]:
                end += 1
            piece = batch.slice(start, end - start)
            yield units[start], pa.RecordBatch.from_arrays(piece.columns[2:], schema=SHUFFLE_SCHEMA)
            start = end


def _answer(number: int, failure: str | None, statuses: pa.RecordBatch | None) -> pa.RecordBatch:
    rows = statuses_to_arrow([WriteStatus(task=0)]) if statuses is None else statuses
    columns: list[Any] = [
        pa.array([number] * rows.num_rows, pa.int32()),
        pa.array([failure] * rows.num_rows, pa.string()),
        *rows.columns,
    ]
    return pa.RecordBatch.from_arrays(columns, names=["unit", "failure", *STATUS_SCHEMA.names])
