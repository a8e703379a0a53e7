"""Receives the rows of a write task's file groups, feeds the handles, and publishes each file group's one object, its
marker first: other writers' rollback finds files to delete by markers alone.

The log files of all file groups in a shuffle batch are marked by one object. With an object for each, a small log file
would cost twice as much to store, and again to take its marker away. The file groups of a span are written together:
their rows come in the same messages, and each publisher gets its part of their objects as one piece of work.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor  # noqa: TID251 - puts while the next rows come
from dataclasses import replace
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa

from bucketingest.hudi.log.format import Buffer
from bucketingest.hudi.naming import join
from bucketingest.hudi.rollback.markers import mark_files
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.placing import INSERTS, Place
from bucketingest.storage import Storage, open_storage
from bucketingest.write.dead_letters.rejected import DEAD_LETTER_SCHEMA
from bucketingest.write.dead_letters.writer import DeadLetterWriter
from bucketingest.write.instant_look import InstantLook
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.adoption import create_or_adopt
from bucketingest.write.rows.append_handle import AppendHandle, RowNumbers, log_file_name
from bucketingest.write.rows.base_handle import BaseHandle
from bucketingest.write.rows.chunks import SpanRows
from bucketingest.write.rows.memory import MemoryBudget, keep_no_large_blocks
from bucketingest.write.rows.shuffle import (
    DEAD_LETTERS,
    MOVED,
    OLDER,
    SHUFFLE_SCHEMA,
    UNDECODED,
    message_buffers,
    unpack,
)
from bucketingest.write.rows.write_status import WriteStatus, statuses_to_arrow

PUBLISHERS: Final = 4
"""Objects that one task sends to the storage at the same time: the wait is for the storage's answer, not the bytes."""

Handle: TypeAlias = AppendHandle | BaseHandle
Unpublished: TypeAlias = tuple[Handle, list[Buffer] | pathlib.Path, "Future[None] | None"]
"""A closed handle, its content, and the marking of its file; None if nothing marks it yet."""


def write_task(batches: Iterable[pa.RecordBatch], plan: WritePlan, task: int) -> Iterator[pa.RecordBatch]:
    """A write task as the engine runs it: shuffle batches in, in `SHUFFLE_ORDER`; its write statuses out, at least one
    row.
    """
    keep_no_large_blocks()
    with BucketWriter(plan, open_storage(plan.table_url, plan.storage_options), task=task) as writer:
        for batch in batches:
            writer.write(batch)
        yield statuses_to_arrow(writer.close())


class BucketWriter:
    """Writes the file groups of one task. The handles of one span are open at a time, since rows arrive by span.

    Use it as a context: at its end, unfinished handles are dropped and scratch files are removed.
    """

    def __init__(self, plan: WritePlan, storage: Storage, *, task: int) -> None:
        self._plan = plan
        self._storage = storage
        self._look = InstantLook(plan, storage)
        self._task = task
        self._budget = MemoryBudget(plan.memory_bytes)
        self._span: Place | None = None
        self._handles: dict[int, Handle] = {}
        """The open ones, all of one span, by bucket."""
        self._unsorted = SpanRows(plan.schema)
        """Rows of the span that its handles do not have yet."""
        self._budget.join(self)
        self._letters = DeadLetterWriter(plan, str(task), task)
        self._statuses: list[WriteStatus] = []
        self._partitions: set[str] = set(plan.partitions.known)
        self._numbers = RowNumbers()
        self._counts = {UNDECODED: 0, MOVED: 0, OLDER: 0}
        self._pool = ThreadPoolExecutor(PUBLISHERS, thread_name_prefix="publish")
        self._markers = ThreadPoolExecutor(1, thread_name_prefix="mark")
        self._publishing: list[tuple[Future[list[WriteStatus]], int]] = []
        self._marking: dict[Place, Future[None]] = {}
        """The log files to come of the current shuffle batch, and the open ones."""
        self._scratch_files: list[pathlib.Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self._handles.values():
            handle.discard()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._markers.shutdown(wait=True, cancel_futures=True)
        for path in self._scratch_files:  # publishing deletes its own; those that were never published are left
            path.unlink(missing_ok=True)

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a shuffle batch."""
        assert batch.schema.names == SHUFFLE_SCHEMA.names, f"not a shuffle batch: {batch.schema.names}"
        paths = batch.column("partition_path").to_pylist()
        buckets = batch.column("bucket").to_pylist()
        file_ids = batch.column("file_id").to_pylist()
        counts = batch.column("row_count").to_pylist()
        new_counts = batch.column("new_count").to_pylist()
        bucket_counts = batch.column("bucket_counts").to_pylist()
        spans = list(map(Place, itertools.repeat(self._task), paths, buckets, file_ids))
        self._mark(zip(spans, bucket_counts, strict=True))
        messages = zip(spans, bucket_counts, counts, new_counts, message_buffers(batch), strict=True)
        schema = self._plan.schema
        # There may be tens of messages for each log file, so this does as little as it can for each.
        for span, of_buckets, count, new_count, buffer in messages:
            if span.bucket < 0:
                self._take_no_rows(span.bucket, count, buffer)
                continue
            rows = unpack(buffer, schema)
            assert rows.num_rows == count, f"{count} rows were sent, {rows.num_rows} arrived"
            if span != self._span:
                self._finish_span()
                self._span = span
            if of_buckets:
                self._unsorted.add(rows, of_buckets, buffer.size)
            else:
                handle = self._handles.get(span.bucket) or self._open(span)
                handle.append(rows, buffer.size)
                handle.new_rows += new_count
            self._budget.enforce()

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the rows that are in no block yet."""
        return self._unsorted.size_bytes + sum(handle.buffered_bytes for handle in self._handles.values())

    def flush(self) -> None:
        """Turn all rows into blocks on scratch disk. A span's rows share messages: the memory of a message is free only
        when no row of it is in a buffer.
        """
        self._sort_span()
        for handle in self._handles.values():
            if handle.buffered_bytes:
                handle.flush()

    def _sort_span(self) -> None:
        for number, rows, size_bytes in self._unsorted.take():
            assert self._span is not None
            bucket = self._span.bucket + number
            handle = self._handles.get(bucket) or self._open(self._place_in(self._span, bucket))
            handle.append(rows, size_bytes)

    def _place_in(self, span: Place, bucket: int) -> Place:
        file_ids = self._plan.file_ids
        assert not isinstance(file_ids, PlannedFileIds), "spans are of buckets"
        return Place(self._task, span.partition_path, bucket, file_ids.file_id(span.partition_path, bucket))

    def _take_no_rows(self, bucket: int, count: int, buffer: pa.Buffer) -> None:
        """A message that is for no file group: a count, or dead letters."""
        if bucket in self._counts:
            self._counts[bucket] += count
            return
        assert bucket == DEAD_LETTERS, bucket
        letters = unpack(buffer, DEAD_LETTER_SCHEMA)
        assert letters.num_rows == count, f"{count} dead letters were sent, {letters.num_rows} arrived"
        self._letters.write(letters)

    def close(self) -> list[WriteStatus]:
        """Publish what is open and wait for the storage. Returns the task's statuses: one per object, or a single empty
        one.
        """
        self._finish_span()
        while self._publishing:
            self._budget.release_blocks(self._await_one())
        self._statuses += self._letters.close()
        first, *others = self._statuses or [WriteStatus(task=self._task)]
        first = replace(
            first,
            moved=self._counts[MOVED],
            older=self._counts[OLDER],
            buffer_bytes=self._budget.highest_bytes,
            undecoded=self._counts[UNDECODED],
        )
        return [first, *others]

    def _open(self, place: Place) -> Handle:
        kind = BaseHandle if self._makes_base_file(place.bucket) else AppendHandle
        handle = self._handles[place.bucket] = kind(self._plan, place, self._numbers)
        return handle

    def _makes_base_file(self, bucket: int) -> bool:
        return bucket == INSERTS and isinstance(self._plan.file_ids, PlannedFileIds)

    def _mark(self, messages: Iterable[tuple[Place, bytes]]) -> None:
        """Mark the log files of these messages' rows.

        Now, so that the markers are there when rows are encoded; publishing waits for them. A base file may get no row
        and no object, so it is marked when there is one.
        """
        places = [place for place in self._log_places(messages) if place not in self._marking]
        if places:
            names = [log_file_name(self._plan, place.file_id) for place in places]
            files = [join(place.partition_path, str(name)) for place, name in zip(places, names, strict=True)]
            marking = self._markers.submit(self._mark_now, files)
            self._marking.update(dict.fromkeys(places, marking))

    def _mark_now(self, files: Sequence[str]) -> None:
        self._look.renew()
        mark_files(self._storage, self._plan.instant_time, files)

    def _log_places(self, messages: Iterable[tuple[Place, bytes]]) -> Iterator[Place]:
        """The file groups whose log files get these messages' rows."""
        for span, group in itertools.groupby(messages, lambda message: message[0]):
            if span.bucket < 0 or self._makes_base_file(span.bucket):
                continue
            if span.file_id:
                yield span
                continue
            numbers = [np.flatnonzero(np.frombuffer(counts, np.int32)) for _, counts in group]
            for number in np.unique(np.concatenate(numbers)).tolist():
                yield self._place_in(span, span.bucket + number)

    def _finish_span(self) -> None:
        self._sort_span()
        closed: list[Unpublished] = []
        for _, handle in sorted(self._handles.items()):
            content = handle.close()
            if content is None:
                self._statuses.append(self._status(handle, None, has_file=False))
                continue
            if isinstance(content, pathlib.Path):
                self._scratch_files.append(content)
            closed.append((handle, content, self._marking.pop(handle.place, None)))
        self._handles.clear()
        if not closed:
            return
        path = closed[0][0].partition_path
        if path not in self._partitions:
            self._look.renew()
            ensure_partition_metadata(self._storage, path, self._plan.instant_time)
            self._partitions.add(path)
        # One part for each publisher: to hand over each file alone takes a tenth of the time to write a small one.
        at_once = -(-len(closed) // PUBLISHERS)
        for start in range(0, len(closed), at_once):
            part = closed[start : start + at_once]
            in_memory = sum(handle.size_bytes for handle, content, _ in part if not isinstance(content, pathlib.Path))
            self._budget.charge_blocks(in_memory, self._await_one)
            self._publishing.append((self._pool.submit(self._publish_all, part), in_memory))

    def _publish_all(self, closed: Sequence[Unpublished]) -> list[WriteStatus]:
        return [self._publish(*each) for each in closed]

    def _publish(
        self, handle: Handle, content: list[Buffer] | pathlib.Path, marking: Future[None] | None
    ) -> WriteStatus:
        path = join(handle.partition_path, str(handle.file_name))
        if marking is None:
            assert isinstance(handle, BaseHandle), "no log file without a marker"
            self._mark_now([path])
        else:
            marking.result()
        self._look.renew()
        adopted = create_or_adopt(self._storage, path, content)
        return self._status(handle, adopted)

    def _status(self, handle: Handle, adopted: int | None, *, has_file: bool = True) -> WriteStatus:
        return WriteStatus(
            task=self._task,
            partition_path=handle.partition_path,
            bucket=handle.place.bucket,
            file_id=handle.file_name.file_id if has_file else "",
            file_name=str(handle.file_name) if has_file else "",
            size_bytes=handle.size_bytes if adopted is None else adopted,
            blocks=handle.blocks,
            rows_received=handle.rows_received,
            upserts=handle.upserts,
            deletes=handle.deletes,
            dropped=handle.dropped,
            new_rows=handle.new_rows,
            adopted=adopted is not None,
        )

    def _await_one(self) -> int:
        """Wait for the oldest hand-over to the storage; returns the bytes it held."""
        future, held = self._publishing.pop(0)
        self._statuses += future.result()
        return held
