"""The stage between two shuffles of a table in which a key is in one partition only: one task has all rows of a key,
and decides which of them lives, and whether the key moves.

The rows of keys that one file group has come together, sorted by their arrival, and so do those of a part of the new
keys. What is read of the table to decide is that of the plan's time, so each attempt of a task decides alike.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from bucketingest.hudi.history.archived import with_hidden
from bucketingest.hudi.merge.current_rows import current_rows
from bucketingest.hudi.merge.merge_rules import MergeRules, merge_rules
from bucketingest.hudi.naming import join
from bucketingest.hudi.table.file_view import FileGroup, FileSlice, load_file_view
from bucketingest.hudi.table.schema import avro_to_arrow
from bucketingest.hudi.table.table import load_table
from bucketingest.hudi.timeline.overtaking import files_of
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.index.assignment.file_id_assigner import FileIdAssigner
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.placing import INSERTS, UPDATES, Place, StatePlacing
from bucketingest.storage import NotFound, Storage, open_storage
from bucketingest.write.errors import ConflictingAttempt
from bucketingest.write.moving.moves import Settled, older_than_current, settle
from bucketingest.write.plan import DELETE_COLUMN, WritePlan
from bucketingest.write.rows.chunks import ChunkSize, chunks_of, grouped
from bucketingest.write.rows.memory import MemoryBudget, keep_no_large_blocks
from bucketingest.write.rows.shuffle import (
    MOVED,
    OLDER,
    Messages,
    counted,
    message_buffers,
    rows_per_message,
    unpack,
)
from bucketingest.write.spilled_rows import SpilledRows


def own_keys(batches: Iterable[pa.RecordBatch], plan: WritePlan, task: int) -> Iterator[pa.RecordBatch]:
    """Shuffle batches with all rows of some keys in, in `SHUFFLE_ORDER`; shuffle batches for the write tasks out.

    Raises ConflictingAttempt if what the plan names is gone: no task can repeat it.
    """
    keep_no_large_blocks()
    owner = _Owner(plan, open_storage(plan.table_url, plan.storage_options), Messages.of(plan, task))
    try:
        for batch in batches:
            yield from owner.take(batch)
        yield from owner.finish(task)
    finally:
        owner.discard()


class _Section(NamedTuple):
    """Keys that are settled together."""

    partition_path: str
    bucket: int
    file_id: str
    """With `UPDATES` that of the file group that has the keys; with `INSERTS` names a part of the new keys."""


@dataclass
class _Owner:
    plan: WritePlan
    storage: Storage
    messages: Messages
    _section: _Section | None = None
    _moved: int = 0
    _older: int = 0
    _rows: SpilledRows = field(init=False)
    _budget: MemoryBudget = field(init=False)

    def __post_init__(self) -> None:
        self._rows = SpilledRows(self.plan.schema)
        self._budget = MemoryBudget(self.plan.memory_bytes)
        self._budget.join(self._rows)

    def take(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take messages; yields those for the write tasks."""
        names = ("partition_path", "bucket", "file_id")
        places = zip(*(batch.column(name).to_pylist() for name in names), strict=True)
        for number, (place, buffer) in enumerate(zip(places, message_buffers(batch), strict=True)):
            section = _Section(*place)
            if section.bucket not in (UPDATES, INSERTS):  # dead letters and counts
                yield batch.slice(number, 1)
                continue
            if section != self._section:
                yield from self._settle()
                self._section = section
            self._rows.append(unpack(buffer, self.plan.schema), buffer.size)
            self._budget.enforce()

    def finish(self, task: int) -> Iterator[pa.RecordBatch]:
        """Settle what is left, and say how many keys moved, and how many rows were older."""
        yield from self._settle()
        if self.messages:
            yield self.messages.take()
        for bucket, count in ((MOVED, self._moved), (OLDER, self._older)):
            if count:
                yield counted(bucket, count, self.plan, task)

    def discard(self) -> None:
        """Drop what is on scratch disk."""
        self._rows.forget()

    def _settle(self) -> Iterator[pa.RecordBatch]:
        section = self._section
        if section is None:
            return
        settled = self._settled(section)
        moves = np.zeros(self._rows.count, np.bool_)
        moves[settled.moving] = True
        start = 0
        for rows in chunks_of(self._rows.batches(), self.plan, ChunkSize.of(self.plan)):
            part = slice(start, start + rows.num_rows)
            start = part.stop
            kept, moving = (rows.filter(pa.array(mask[part])) for mask in (settled.kept, moves))
            if section.bucket == INSERTS:
                yield from self._insert(kept)
                continue
            yield from self._send(self._home(section), kept)
            yield from self._send(self._home(section), _deletes(moving))
            yield from self._insert(moving)
        self._rows.forget()

    def _settled(self, section: _Section) -> Settled:
        rules, keys, orderings, deleted, numbers = self.plan.rules, [], [], [], []
        partitions: dict[str, int] = {}
        home = partitions.setdefault(section.partition_path, 0) if section.bucket == UPDATES else None
        for rows in self._rows.batches():
            keys.append(rules.record_key.record_keys(rows))
            paths = rules.partition_path.paths(rows, self.plan.room).paths
            codes = [partitions.setdefault(path, len(partitions)) for path in paths.dictionary.to_pylist()]
            numbers.append(np.array(codes, np.int64)[paths.indices.to_numpy(zero_copy_only=False)])
            deleted.append(rows.column(DELETE_COLUMN).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003
            if rules.ordering_field is not None:
                orderings.append(rows.column(rules.ordering_field))
        all_keys = pa.concat_arrays(keys)
        ordering = pa.concat_arrays(orderings) if orderings else None
        settled = settle(all_keys, np.concatenate(numbers), home, ordering, np.concatenate(deleted))
        moving = settled.moving
        if len(moving) and ordering is not None:
            rows_of = pa.array(moving)
            older = self._older_rows(section, all_keys.take(rows_of), ordering.take(rows_of))
            self._older += int(older.sum())
            moving = moving[~older]
        self._moved += len(moving)
        return Settled(settled.kept, moving)

    def _older_rows(self, section: _Section, keys: pa.Array, ordering: pa.Array) -> npt.NDArray[np.bool_]:
        def wanted(found: pa.Array) -> npt.NDArray[np.bool_]:
            return pc.is_in(found, value_set=keys).to_numpy(zero_copy_only=False)

        try:
            files = self._table.slice_of(section.partition_path, section.file_id)
            current = current_rows(self.storage, files, self._merge_rules, wanted)
        except NotFound as error:
            raise ConflictingAttempt(f"rows of the plan's time were cleaned or rolled back: {error}") from error
        return older_than_current(keys, ordering, current)

    def _home(self, section: _Section) -> Place:
        task = self._new.task_of(section.partition_path, section.file_id, UPDATES)
        return Place(task, section.partition_path, UPDATES, section.file_id)

    def _insert(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Send rows of keys that are new in their partitions."""
        if not rows.num_rows:
            return
        rules = self.plan.rules
        paths = rules.partition_path.paths(rows, self.plan.room)
        placed = self._new.place(rules.record_key.columns(rows), paths, None)
        order, starts, ends = grouped(placed.groups)
        rows = rows.take(pa.array(order))
        for start, end, to in zip(starts, ends, placed.places(order[starts]), strict=True):
            yield from self._send(to, rows.slice(start, end - start))

    def _send(self, to: Place, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if rows.num_rows:
            yield from self.messages.add(to, rows, rows_per_message(rows))

    @cached_property
    def _new(self) -> StatePlacing:
        """Places all keys as new ones."""
        return StatePlacing(FileIdAssigner(self._planned.plan, lambda _: None), self.plan.partitions, self.plan.tasks)

    @cached_property
    def _table(self) -> TableAt:
        return TableAt(self.storage, self._planned.plan.view)

    @cached_property
    def _merge_rules(self) -> MergeRules:
        schema = avro_to_arrow(json.loads(self.plan.block_schema_json))
        return merge_rules(load_table(self.storage), schema)

    @property
    def _planned(self) -> PlannedFileIds:
        planned = self.plan.file_ids
        assert isinstance(planned, PlannedFileIds), "keys have owners in a table with a state only"
        return planned


def _deletes(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Deletes of these rows' keys, with their ordering values."""
    number = rows.schema.get_field_index(DELETE_COLUMN)
    return rows.set_column(number, rows.schema.field(number), pa.array(np.ones(rows.num_rows, np.bool_)))


@dataclass
class TableAt:
    """A table as of a completion time. What is read stays in memory: one listing for each partition that is asked for,
    one for the timeline, and its commits once.
    """

    storage: Storage
    completion_time: str
    _partitions: dict[str, dict[str, FileGroup]] = field(default_factory=dict)

    def slice_of(self, partition_path: str, file_id: str) -> FileSlice:
        """The newest slice of a file group. Raises NotFound if it is gone."""
        if partition_path not in self._partitions:
            named = self._named.get(partition_path, ())
            view = load_file_view(self.storage, self._timeline, [partition_path], named)
            self._partitions[partition_path] = dict(view.partitions.get(partition_path, {}))
        group = self._partitions[partition_path].get(file_id)
        if group is None or group.latest is None:
            raise NotFound(f"{self.storage.url}: file group {file_id} of partition {partition_path!r} was removed")
        return group.latest

    @cached_property
    def _timeline(self) -> Timeline:
        return with_hidden(self.storage, Timeline.load(self.storage)).as_of(self.completion_time)

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        """The files of the commits on the timeline, by partition: a listing may leave the newest ones out."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for instant in self._timeline.completed_commits:
            for file in files_of(self.storage, instant):
                if file.name:
                    found[file.partition_path].append(join(file.partition_path, file.name))
        return found
