"""The stage before the shuffle: rows become one Arrow message per file group and chunk, because Spark moves few large
values
several times faster than many rows.

A chunk is as many rows as its share of the memory budget holds. Its rows are sorted by file group (a stable sort:
arrival
order within a group stays) and each group's part is serialised as one Arrow IPC message. The write task gets the
messages
sorted by (partition path, bucket, map task, chunk), so that the order of rows, and with it every byte it writes, is the
same in each attempt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.routing import route
from bucketingest.write.dead_letters import DEAD_LETTER_SCHEMA, dead_letters
from bucketingest.write.plan import WritePlan

SHUFFLE_SCHEMA: Final = pa.schema(
    [
        ("route", pa.int32()),
        ("partition_path", pa.string()),
        ("bucket", pa.int32()),
        ("map_task", pa.int32()),
        ("chunk", pa.int32()),
        ("row_count", pa.int32()),
        ("message", pa.binary()),
    ]
)
"""What crosses the shuffle. bucket is `DEAD_LETTERS` for rejected rows."""

SHUFFLE_DDL: Final = (
    "route INT, partition_path STRING, bucket INT, map_task INT, chunk INT, row_count INT, message BINARY"
)
SHUFFLE_ORDER: Final = ("partition_path", "bucket", "map_task", "chunk")
DEAD_LETTERS: Final = -1

CHUNK_SHARE: Final = 1 / 8
"""Share of the budget that a chunk's rows take: sorting copies them once, serialising once more, and Spark holds the
batch before.
"""

_CHUNK_BYTES_MAX: Final = 64 * 1024**2


def pack(batches: Iterable[pa.RecordBatch], plan: WritePlan, map_task: int) -> Iterator[pa.RecordBatch]:
    """Turn rows of `plan.schema` into shuffle batches (`SHUFFLE_SCHEMA`), one row per file group and chunk.

    Rows without record key, partition path or ordering value become dead letters, never vanish.
    """
    chunk_bytes_max = min(int(plan.memory_bytes * CHUNK_SHARE), _CHUNK_BYTES_MAX)
    pending: list[pa.RecordBatch] = []
    pending_bytes = chunk = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        pending.append(batch)
        pending_bytes += batch.nbytes
        if pending_bytes >= chunk_bytes_max:
            yield _pack_chunk(_joined(pending, plan.schema), plan, map_task, chunk)
            pending, pending_bytes, chunk = [], 0, chunk + 1
    if pending:
        yield _pack_chunk(_joined(pending, plan.schema), plan, map_task, chunk)


def unpack(message: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of one message."""
    return pa.ipc.read_record_batch(message, schema)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch with exactly the plan's columns: a column of the table that the input lacks is null, types are those
    stored.
    """
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else batches
    present = set(joined.schema.names)
    columns = [
        joined.column(field.name).cast(field.type) if field.name in present else pa.nulls(joined.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _pack_chunk(rows: pa.RecordBatch, plan: WritePlan, map_task: int, chunk: int) -> pa.RecordBatch:
    keys = plan.rules.record_key.columns(rows)
    partitions = plan.rules.partition_path.paths(rows)
    rejected = dead_letters(rows, plan, keys, partitions)
    buckets = keys.bucket_ids(plan.rules.buckets, plan.rules.hash)
    paths = partitions.paths.dictionary.to_pylist()
    partition_index = partitions.paths.indices.to_numpy(zero_copy_only=False)
    if rejected is not None:
        rows = rows.take(pa.array(rejected.kept))
        buckets, partition_index = buckets[rejected.kept], partition_index[rejected.kept]

    messages = _Messages(plan.schema)
    entries: list[tuple[int, str, int, int]] = []  # route, partition path, bucket, rows
    if rows.num_rows:
        order, starts, ends = _group(partition_index.astype(np.int64) * plan.rules.buckets + buckets)
        rows = rows.take(pa.array(order))
        firsts = order[starts]
        numbers = plan.partitions.numbers(paths)[partition_index[firsts]]
        routes = route(numbers, buckets[firsts], plan.rules.buckets, plan.tasks)
        for start, end, first, task in zip(starts, ends, firsts, routes, strict=True):
            entries.append((int(task), paths[partition_index[first]], int(buckets[first]), int(end - start)))
            messages.add(rows.slice(start, end - start))
    if rejected is not None:
        entries.append((map_task % plan.tasks, "", DEAD_LETTERS, rejected.letters.num_rows))
        messages.add(rejected.letters, DEAD_LETTER_SCHEMA)
    return _shuffle_batch(entries, messages.column(), map_task, chunk)


def _group(
    groups: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Stable order of the rows by group, and where each group's rows start and end in it."""
    # numpy sorts 16-bit integers by radix, five times faster than wider ones by merging
    sort_key = groups.astype(np.uint16) if groups.max() < 2**16 else groups
    order = np.argsort(sort_key, kind="stable")
    ordered = groups[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    return order, np.concatenate(([0], cuts)), np.concatenate((cuts, [len(ordered)]))


class _Messages:
    """Serialises batches one after the other into one buffer and remembers where each lies."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._sink = pa.BufferOutputStream()
        self._offsets = [0]

    def add(self, batch: pa.RecordBatch, schema: pa.Schema | None = None) -> None:
        assert batch.schema.equals(schema or self._schema), "the reader decodes with the plan's schema"
        self._sink.write(batch.serialize())
        self._offsets.append(self._sink.tell())

    def column(self) -> pa.Array:
        offsets = pa.py_buffer(np.array(self._offsets, dtype=np.int32))
        return pa.Array.from_buffers(pa.binary(), len(self._offsets) - 1, [None, offsets, self._sink.getvalue()])


def _shuffle_batch(
    entries: list[tuple[int, str, int, int]], messages: pa.Array, map_task: int, chunk: int
) -> pa.RecordBatch:
    routes, partition_paths, buckets, row_counts = (list(column) for column in zip(*entries, strict=True))
    columns = [
        pa.array(routes, pa.int32()),
        pa.array(partition_paths, pa.string()),
        pa.array(buckets, pa.int32()),
        pa.array([map_task] * len(entries), pa.int32()),
        pa.array([chunk] * len(entries), pa.int32()),
        pa.array(row_counts, pa.int32()),
        messages,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SHUFFLE_SCHEMA)
