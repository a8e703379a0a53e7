"""The rows that are sorted together, before and after the shuffle, and their memory.

Before it they are sorted by file group in chunks. A chunk is small, unless that would make many small messages; at most
it is as many rows as its share of the memory budget holds. After it the rows of a span are sorted by bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.table.schema_evolution import widened
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.placing import span_length
from bucketingest.write.plan import WritePlan

MESSAGE_BYTES: Final = 32 * 1024
"""Bytes of rows above which a span's part of a chunk goes into several messages. Spark hands messages to the
write task by number, not by size (see the session's settings), so their size bounds its memory.
"""

CHUNK_SHARE: Final = 1 / 4
"""Share of the budget that a chunk's rows take. Joining and sorting need half as much again, and the allocator keeps as
much again.
"""

_CHUNK_BYTES_MAX: Final = 128 * 1024**2
_CHUNK_BYTES_MIN: Final = 4 * 1024**2
"""A small chunk's copies are made in memory that the last chunk's used, in the processor's cache. For a large one the
system gives new pages each time, which takes as long as the work itself.
"""
_MESSAGES_OF_SPAN: Final = 2
"""A chunk grows until it has so many full messages for a span, on average."""


class ChunkSize:
    """How many bytes the next chunk has. Only the rows before decide it, so it is the same in each attempt."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = min(bytes_max, _CHUNK_BYTES_MIN)

    @classmethod
    def of(cls, plan: WritePlan) -> Self:
        """Within the plan's memory; the first chunk as if it had rows for one partition's buckets."""
        size = cls(min(int(plan.memory_bytes * CHUNK_SHARE), _CHUNK_BYTES_MAX))
        if not isinstance(plan.file_ids, PlannedFileIds):
            buckets = plan.file_ids.counts.default
            size.fit(-(-buckets // span_length(buckets, plan.tasks)))
        return size

    def fit(self, spans: int) -> None:
        """A chunk had rows for so many spans; a file group without buckets is one."""
        self.bytes = min(self.bytes_max, max(_CHUNK_BYTES_MIN, spans * _MESSAGES_OF_SPAN * MESSAGE_BYTES))


def chunks_of(batches: Iterable[pa.RecordBatch], plan: WritePlan, size: ChunkSize) -> Iterator[pa.RecordBatch]:
    """The rows as batches of about a chunk's bytes; a chunk's source batches are not kept while it is packed."""
    pieces = _Pieces(plan.schema)
    for batch in batches:
        if not batch.num_rows:
            continue
        pieces.add(batch)
        if pieces.size_bytes >= size.bytes:
            yield pieces.join()
    if not pieces.is_empty:
        yield pieces.join()


class _Pieces:
    """The rows of the next chunk. A batch from Spark is one block of memory for all columns; joined into pieces, each
    column has its own, which goes as soon as the chunk has the column. So a chunk is in memory once, not twice.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.is_empty = True
        self.size_bytes = 0
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._batches_bytes = 0
        self._columns: list[list[pa.Array]] = [[] for _ in schema]

    def add(self, batch: pa.RecordBatch) -> None:
        """Rows that are not empty."""
        self.is_empty = False
        self._batches.append(batch)
        self._batches_bytes += batch.nbytes
        self.size_bytes += batch.nbytes
        if self._batches_bytes >= _CHUNK_BYTES_MIN:
            self._join_batches()

    def join(self) -> pa.RecordBatch:
        """The chunk; there are no rows afterwards."""
        if self._batches:
            self._join_batches()
        self.is_empty, self.size_bytes = True, 0
        chunk = []
        for parts in self._columns:
            chunk.append(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))
            parts.clear()
        return pa.RecordBatch.from_arrays(chunk, schema=self._schema)

    def _join_batches(self) -> None:
        for parts, column in zip(self._columns, _joined(self._batches, self._schema).columns, strict=True):
            parts.append(column)
        self._batches_bytes = 0


def in_order(columns: list[pa.Array], order: npt.NDArray[np.int64], schema: pa.Schema) -> pa.RecordBatch:
    """The rows in this order. Empties the list column by column, so that memory holds one of them twice, not all."""
    indices = pa.array(order)
    columns.reverse()
    taken = []
    while columns:
        taken.append(columns.pop().take(indices))
    return pa.RecordBatch.from_arrays(taken, schema=schema)


def grouped(
    groups: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Stable order of the rows by group, and where each group's rows start and end in it."""
    # numpy sorts 16-bit integers by radix, five times faster than wider ones by merging
    sort_key = groups.astype(np.uint16) if groups.max() < 2**16 else groups
    order = np.argsort(sort_key, kind="stable")
    return order, *runs(groups[order])


def runs(numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where each run of equal numbers starts and ends; there is at least one."""
    cuts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    return np.concatenate(([0], cuts)), np.concatenate((cuts, [len(numbers)]))


class SpanRows:
    """The rows of a span that have arrived. They are sorted by bucket when they are taken. To sort all at once takes a
    third of the time of cutting each message into its buckets.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.size_bytes = 0
        """Of the messages."""
        self._schema = schema
        self._messages: list[pa.RecordBatch] = []
        self._counts: list[npt.NDArray[np.int32]] = []

    def add(self, rows: pa.RecordBatch, counts: bytes, size_bytes: int) -> None:
        """The rows of one message, sorted by bucket, and how many there are of each, as `counts_bytes` says it."""
        self._messages.append(rows)
        self._counts.append(np.frombuffer(counts, np.int32))
        self.size_bytes += size_bytes
        assert self._counts[-1].sum() == rows.num_rows, f"{rows.num_rows} rows of a span arrived, not as many as sent"

    def take(self) -> list[tuple[int, pa.RecordBatch, int]]:
        """Each bucket that has rows: its number in the span, its rows in the order of their arrival, and their bytes.
        None are left.
        """
        if not self._messages:
            return []
        numbers = np.concatenate([np.arange(len(counts)) for counts in self._counts])
        buckets = np.repeat(numbers, np.concatenate(self._counts))
        columns = pa.concat_batches(self._messages).columns
        row_bytes, self.size_bytes = self.size_bytes // len(buckets), 0
        self._messages.clear()
        self._counts.clear()
        order, starts, ends = grouped(buckets)
        rows = in_order(columns, order, self._schema)
        parts = zip(buckets[order[starts]].tolist(), starts.tolist(), (ends - starts).tolist(), strict=True)
        return [(number, rows.slice(start, count), count * row_bytes) for number, start, count in parts]


def counts_bytes(buckets: npt.NDArray[np.int64]) -> bytes:
    """How many of a message's rows are in the span's first bucket, in its second one, and so on."""
    return np.bincount(buckets).astype(np.int32).tobytes()


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch with exactly the plan's columns and stored types: a column that the input lacks is null. Empties the
    list.
    """
    joined = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
    batches.clear()
    present = set(joined.schema.names)
    columns = [
        widened(joined.column(field.name), field.type)
        if field.name in present
        else pa.nulls(joined.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
