"""The stage before the shuffle: rows become Arrow messages of one file group each, because Spark moves a few large
values several times faster than many rows.

The rows of a chunk are sorted by file group (a stable sort: arrival order within a group stays) and each group's part
is serialised as Arrow IPC messages. The write task gets the messages sorted by (partition path, bucket, file id, map
task, number), so the order of rows, and so every byte it writes, is the same in each attempt.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.errors import StateError
from bucketingest.index.placing import BucketPlacing, OwnerPlacing, Place, Placing, StatePlacing
from bucketingest.storage import NotFound, open_storage
from bucketingest.write.dead_letters.rejected import Rejected, rejected_of
from bucketingest.write.errors import ConflictingAttempt
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.chunks import MESSAGE_BYTES, ChunkSize, chunks_of, counts_bytes, grouped, in_order, runs
from bucketingest.write.rows.memory import keep_no_large_blocks

SHUFFLE_SCHEMA: Final = pa.schema(
    [
        ("route", pa.int32()),
        ("partition_path", pa.string()),
        ("bucket", pa.int32()),
        ("file_id", pa.string()),
        ("map_task", pa.int32()),
        ("number", pa.int64()),
        ("row_count", pa.int32()),
        ("new_count", pa.int32()),
        ("bucket_counts", pa.binary()),
        ("message", pa.binary()),
    ]
)
"""Columns of the shuffle, a row per message. bucket is `DEAD_LETTERS` for rejected rows, `UNDECODED`, or see `Place`.
number counts the messages of a map task in the order of their rows. new_count: rows of new keys, if these go into log
files. bucket_counts: the rows of each bucket of a span, from its first one on, as int32; empty for one file group.
"""

SHUFFLE_DDL: Final = (
    "route INT, partition_path STRING, bucket INT, file_id STRING, map_task INT, number BIGINT, row_count INT, "
    "new_count INT, bucket_counts BINARY, message BINARY"
)
SHUFFLE_ORDER: Final = ("partition_path", "bucket", "file_id", "map_task", "number")
DEAD_LETTERS: Final = -1
UNDECODED: Final = -2
MOVED: Final = -3
OLDER: Final = -4
"""As bucket: the message is empty, and its row_count says how many of the source's messages were no rows, how many keys
moved to another partition, and how many rows were older than that of their key in another partition.
"""

_BATCH_BYTES: Final = 4 * 1024**2
"""Bytes of messages in one batch. A buffer for a whole chunk's messages would double the chunk's memory."""


def pack(
    batches: Iterable[pa.RecordBatch],
    plan: WritePlan,
    map_task: int,
    on_rejected: Callable[[int], None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Turn rows of `plan.schema` into shuffle batches (`SHUFFLE_SCHEMA`): per chunk a few messages for each file group.

    Rows without record key, partition path or ordering value become dead letters; none is dropped. `on_rejected`: the
    caller makes them, and is told how many there are.
    """
    keep_no_large_blocks()
    size = ChunkSize.of(plan)
    messages = Messages.of(plan, map_task)
    placing = _placing(plan)
    for chunk in chunks_of(batches, plan, size):
        owned = [chunk]
        del chunk  # its columns go one by one while they are sorted, and no next one is collected beside it
        yield from _pack_chunk(owned, plan, placing, messages, size, on_rejected=on_rejected)
    if messages:
        yield messages.take()
    # The same worker process may run a write task next, which has a budget of its own.
    pa.default_memory_pool().release_unused()


def rejected_rows(rows: pa.RecordBatch, plan: WritePlan) -> Rejected | None:
    """Those of the rows that `pack` rejects, and why; None if there are none."""
    keys = plan.rules.record_key.columns(rows)
    return rejected_of(rows, plan, keys, plan.rules.partition_path.paths(rows, plan.room))


def counted(bucket: int, count: int, plan: WritePlan, map_task: int) -> pa.RecordBatch:
    """A shuffle batch that says how many there were of what `bucket` names. The driver must not miss it, so it goes the
    way that the rows go.
    """
    values: list[Any] = [map_task % plan.tasks, "", bucket, "", map_task, 0, count, 0, b"", b""]
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in zip(values, SHUFFLE_SCHEMA.types, strict=True)],
        schema=SHUFFLE_SCHEMA,
    )


def rows_per_message(rows: pa.RecordBatch) -> int:
    """So many rows like these have the bytes of a message."""
    return max(1, MESSAGE_BYTES * rows.num_rows // max(1, rows.nbytes))


def message_buffers(batch: pa.RecordBatch) -> list[pa.Buffer]:
    """The messages of a shuffle batch, not copied; a list, because a Python object for each value costs as much as
    reading a small message.
    """
    messages = batch.column("message")
    _, offsets, data = messages.buffers()
    assert messages.type == pa.binary(), messages.type
    ends = np.frombuffer(offsets, np.int32)[messages.offset : messages.offset + len(messages) + 1].tolist()
    return [data.slice(start, end - start) for start, end in itertools.pairwise(ends)]


def unpack(message: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of one message."""
    return pa.ipc.read_record_batch(message, schema)


def _placing(plan: WritePlan) -> Placing:
    """What places the rows. Raises ConflictingAttempt if the plan's runs are lost: no task can repeat it."""
    file_ids = plan.file_ids
    if not isinstance(file_ids, PlannedFileIds):
        return BucketPlacing(file_ids, plan.rules.hash, plan.partitions, plan.tasks)
    storage = open_storage(plan.table_url, plan.storage_options)
    try:
        if file_ids.plan.is_global:
            return OwnerPlacing(file_ids.key_places(storage), plan.tasks)
        assigner = file_ids.assigner(storage)
    except (StateError, NotFound) as error:
        raise ConflictingAttempt(f"the index's state is lost or damaged, and is loaded again: {error}") from error
    return StatePlacing(assigner, plan.partitions, plan.tasks)


def _pack_chunk(
    owned: list[pa.RecordBatch],
    plan: WritePlan,
    placing: Placing,
    messages: Messages,
    size: ChunkSize,
    *,
    on_rejected: Callable[[int], None] | None,
) -> Iterator[pa.RecordBatch]:
    """Add the messages of the one chunk in the list, and empty it; yields a batch whenever it is full."""
    rows = owned.pop()
    keys = plan.rules.record_key.columns(rows)
    partitions = plan.rules.partition_path.paths(rows, plan.room)
    rejected, letters = rejected_of(rows, plan, keys, partitions), None
    if rejected is not None:
        if on_rejected is None:
            letters = rejected.letters(rows, plan.instant_time)
        else:
            on_rejected(len(rejected.rows))
        rows = rows.take(pa.array(rejected.kept))
    if rows.num_rows:
        placed = placing.place(keys, partitions, None if rejected is None else rejected.kept)
        groups = placed.groups
        order, starts, ends = grouped(groups)
        spans = placed.spans(order[starts])
        heads, tails = runs(spans)
        size.fit(len(heads))
        columns = rows.columns
        del rows, keys
        rows = in_order(columns, order, plan.schema)
        rows_max = rows_per_message(rows)
        new = None if placed.new is None else placed.new[order]
        groups = groups[order]
        # As lists: numpy's own numbers are slow one by one, and there may be a thousand spans in a chunk.
        parts = zip(starts[heads].tolist(), ends[tails - 1].tolist(), spans[heads].tolist(), strict=True)
        for (start, end, first), to in zip(parts, placed.places(order[starts[heads]]), strict=True):
            of_span = None if new is None else new[start:end]
            buckets = None if to.file_id else groups[start:end] - first
            yield from messages.add(to, rows.slice(start, end - start), rows_max, of_span, buckets)
    if letters is not None:
        rows_max = max(1, MESSAGE_BYTES * letters.num_rows // letters.nbytes)
        to = Place(messages.map_task % plan.tasks, "", DEAD_LETTERS, "")
        yield from messages.add(to, letters, rows_max)


class Messages:
    """Serialises rows one message after the other into one buffer, and remembers the place and target of each."""

    @classmethod
    def of(cls, plan: WritePlan, map_task: int) -> Self:
        """None yet."""
        return cls(map_task, min(ChunkSize.of(plan).bytes_max, _BATCH_BYTES))

    def __init__(self, map_task: int, batch_bytes: int) -> None:
        self.map_task = map_task
        self._batch_bytes = batch_bytes
        self._next_number = 0
        self._start()

    def __len__(self) -> int:
        return len(self._row_counts)

    def add(
        self,
        to: Place,
        rows: pa.RecordBatch,
        rows_max: int,
        new: npt.NDArray[np.bool_] | None = None,
        buckets: npt.NDArray[np.int64] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows for one place, in messages of at most `rows_max` rows; yields each full batch. `new`: see `Placed`.
        `buckets`: of a span's rows, in ascending order, counted from its first one.
        """
        for start in range(0, rows.num_rows, rows_max):
            part = rows if rows.num_rows <= rows_max else rows.slice(start, rows_max)
            self._sink.write(part.serialize())
            self._offsets.append(self._sink.tell())
            self._places.append(to)
            self._row_counts.append(part.num_rows)
            self._new_counts.append(0 if new is None else int(new[start : start + rows_max].sum()))
            self._bucket_counts.append(b"" if buckets is None else counts_bytes(buckets[start : start + rows_max]))
            if self._offsets[-1] >= self._batch_bytes:
                yield self.take()

    def take(self) -> pa.RecordBatch:
        """The messages so far, as `SHUFFLE_SCHEMA`; there must be one. The next batch continues their numbers."""
        count = len(self)
        routes, partition_paths, buckets, file_ids = (list(column) for column in zip(*self._places, strict=True))
        offsets = pa.py_buffer(np.array(self._offsets, dtype=np.int32))
        columns = [
            pa.array(routes, pa.int32()),
            pa.array(partition_paths, pa.string()),
            pa.array(buckets, pa.int32()),
            pa.array(file_ids, pa.string()),
            pa.array(np.full(count, self.map_task, np.int32)),
            pa.array(np.arange(self._next_number, self._next_number + count)),
            pa.array(self._row_counts, pa.int32()),
            pa.array(self._new_counts, pa.int32()),
            pa.array(self._bucket_counts, pa.binary()),
            pa.Array.from_buffers(pa.binary(), count, [None, offsets, self._sink.getvalue()]),
        ]
        self._next_number += count
        self._start()
        return pa.RecordBatch.from_arrays(columns, schema=SHUFFLE_SCHEMA)

    def _start(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._offsets = [0]
        self._places: list[Place] = []
        self._row_counts: list[int] = []
        self._new_counts: list[int] = []
        self._bucket_counts: list[bytes] = []
