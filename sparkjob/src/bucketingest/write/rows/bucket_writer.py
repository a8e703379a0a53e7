"""Receives the rows of a write task's file groups, feeds the handles, and publishes each file group's one object, its
marker first: other writers' rollback finds files to delete by markers alone.

The log files of all file groups in a shuffle batch are marked by one object. With an object for each, a small log file
would cost twice as much to store, and again to take its marker away.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Final, Self

import pyarrow as pa

from bucketingest.hudi.log.format import Buffer
from bucketingest.hudi.naming import join
from bucketingest.hudi.rollback.markers import mark_files
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.placing import INSERTS, Place
from bucketingest.storage import Storage, open_storage
from bucketingest.write.plan import WritePlan
from bucketingest.write.rows.adoption import create_or_adopt
from bucketingest.write.rows.append_handle import AppendHandle, log_file_name
from bucketingest.write.rows.base_handle import BaseHandle
from bucketingest.write.rows.dead_letter_writer import DeadLetterWriter
from bucketingest.write.rows.dead_letters import DEAD_LETTER_SCHEMA
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
    """Writes the file groups of one task. One handle is open at a time, since rows arrive by file group.

    Use it as a context: at its end, unfinished handles are dropped and scratch files are removed.
    """

    def __init__(self, plan: WritePlan, storage: Storage, *, task: int) -> None:
        self._plan = plan
        self._storage = storage
        self._task = task
        self._budget = MemoryBudget(plan.memory_bytes)
        self._handle: AppendHandle | BaseHandle | None = None
        self._letters = DeadLetterWriter(plan, str(task), task)
        self._statuses: list[WriteStatus] = []
        self._partitions: set[str] = set(plan.partitions.known)
        self._next_row = 0
        self._counts = {UNDECODED: 0, MOVED: 0, OLDER: 0}
        self._pool = ThreadPoolExecutor(PUBLISHERS, thread_name_prefix="publish")
        self._markers = ThreadPoolExecutor(1, thread_name_prefix="mark")
        self._publishing: list[tuple[Future[WriteStatus], int]] = []
        self._marking: dict[Place, Future[None]] = {}
        """The log files to come of the current shuffle batch, and the open one."""
        self._scratch_files: list[pathlib.Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.discard()
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
        self._mark(dict.fromkeys(zip(paths, buckets, file_ids, strict=True)))
        messages = zip(paths, buckets, file_ids, counts, new_counts, message_buffers(batch), strict=True)
        schema = self._plan.schema
        # There may be tens of messages for each log file, so this does as little as it can for each.
        for path, bucket, file_id, count, new_count, buffer in messages:
            if bucket < 0:
                self._take_no_rows(bucket, count, buffer)
                continue
            rows = unpack(buffer, schema)
            assert rows.num_rows == count, f"{count} rows were sent, {rows.num_rows} arrived"
            handle = self._handle_of(Place(self._task, path, bucket, file_id))
            handle.append(rows, buffer.size)
            handle.new_rows += new_count
            self._budget.enforce()

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
        self._finish_handle()
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

    def _handle_of(self, place: Place) -> AppendHandle | BaseHandle:
        handle = self._handle
        if handle is not None and handle.place == place:
            return handle
        self._finish_handle()
        kind = BaseHandle if self._makes_base_file(place.bucket) else AppendHandle
        handle = kind(self._plan, place, first_row=self._next_row)
        self._budget.join(handle)
        self._handle = handle
        return handle

    def _makes_base_file(self, bucket: int) -> bool:
        return bucket == INSERTS and isinstance(self._plan.file_ids, PlannedFileIds)

    def _mark(self, groups: Iterable[tuple[str, int, str]]) -> None:
        """Mark the log files of these (partition path, bucket, file id).

        Now, so that the markers are there when rows are encoded; publishing waits for them. A base file may get no row
        and no object, so it is marked when there is one.
        """
        open_place = None if self._handle is None else self._handle.place
        places = [
            place
            for path, bucket, file_id in groups
            if bucket >= 0 and not self._makes_base_file(bucket)
            if (place := Place(self._task, path, bucket, file_id)) != open_place
        ]
        if places:
            names = [log_file_name(self._plan, place.file_id) for place in places]
            files = [join(place.partition_path, str(name)) for place, name in zip(places, names, strict=True)]
            marking = self._markers.submit(mark_files, self._storage, self._plan.instant_time, files)
            self._marking.update(dict.fromkeys(places, marking))

    def _finish_handle(self) -> None:
        handle = self._handle
        if handle is None:
            return
        content = handle.close()
        self._budget.leave(handle)
        self._handle = None
        self._next_row += handle.rows_received
        if content is None:
            self._statuses.append(self._status(handle, None, has_file=False))
            return
        in_memory = handle.size_bytes
        if isinstance(content, pathlib.Path):
            self._scratch_files.append(content)
            in_memory = 0
        marking = self._marking.pop(handle.place, None)
        self._budget.charge_blocks(in_memory, self._await_one)
        if handle.partition_path not in self._partitions:
            ensure_partition_metadata(self._storage, handle.partition_path, self._plan.instant_time)
            self._partitions.add(handle.partition_path)
        self._publishing.append((self._pool.submit(self._publish, handle, content, marking), in_memory))

    def _publish(
        self, handle: AppendHandle | BaseHandle, content: list[Buffer] | pathlib.Path, marking: Future[None] | None
    ) -> WriteStatus:
        path = join(handle.partition_path, str(handle.file_name))
        if marking is None:
            assert isinstance(handle, BaseHandle), "no log file without a marker"
            mark_files(self._storage, self._plan.instant_time, [path])
        else:
            marking.result()
        adopted = create_or_adopt(self._storage, path, content)
        return self._status(handle, adopted)

    def _status(self, handle: AppendHandle | BaseHandle, adopted: int | None, *, has_file: bool = True) -> WriteStatus:
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
        self._statuses.append(future.result())
        return held
