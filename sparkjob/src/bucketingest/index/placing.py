"""Where a row goes: one interface for an index with buckets and one with a state, used by the tasks before the shuffle.

A task places the rows of one chunk after the other. Rows of one file group get one number, by which they are sorted;
then each file group's part is sent to one write task. With many buckets, the rows of a few successive ones go together:
a message costs as much as a hundred rows.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.assignment.file_id_assigner import Assigned, FileIdAssigner
from bucketingest.index.assignment.planned_file_ids import KeyPlaces
from bucketingest.index.bucket_hash import BucketHash
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.partition_path import PartitionPaths
from bucketingest.index.record_key import KeyColumns
from bucketingest.index.state.runs.look_up import UNKNOWN
from bucketingest.index.task_routing import PartitionNumbers, route

Rows = npt.NDArray[np.int64]

UPDATES: Final = 0
INSERTS: Final = 1
"""Instead of a bucket, with a state: whether the rows are the first ones of a new base file. If new keys go into log
files, all rows are `UPDATES`: those of new and of known keys of a file group are in one file.
"""


SPAN_BUCKETS: Final = 16
"""At most so many successive buckets of a partition are a span, whose rows go together. The longer it is, the smaller
may chunks be that fill their messages; but a span with more rows than fit the budget gives its files several blocks.
"""
_SPANS_PER_TASK: Final = 8
"""A partition has at least so many spans for each write task, or else shorter ones, so that all tasks have as much."""
_PARTS_PER_TASK: Final = 4
"""Parts of the new keys: the more, the less memory takes one."""


class Place(NamedTuple):
    """Where the rows of one message go."""

    task: int
    partition_path: str
    bucket: int
    """Its bucket, or the first one of a span; with a state `UPDATES` or `INSERTS`."""
    file_id: str
    """Empty for a span of several buckets."""


def span_length(buckets: int, tasks: int) -> int:
    """Buckets of each span of a partition with so many buckets; the last span may have fewer."""
    return min(SPAN_BUCKETS, max(1, buckets // (_SPANS_PER_TASK * tasks)))


class Placed(Protocol):
    """Where n rows go."""

    @property
    def groups(self) -> Rows:
        """A number for each row, int64[n], the same for rows that go to one place."""
        ...

    @property
    def new(self) -> npt.NDArray[np.bool_] | None:
        """Whether each row's key is new, bool[n]; None where the places say so, or nothing is looked up."""
        ...

    def spans(self, firsts: Rows) -> Rows:
        """The number of each row's span: the lowest number that a group of the span can have. Rows of one span go in
        the same messages.
        """
        ...

    def places(self, firsts: Rows) -> list[Place]:
        """The places of these rows' spans."""
        ...


class Placing(Protocol):
    """An index as the tasks before the shuffle use it."""

    def place(self, keys: KeyColumns, partitions: PartitionPaths, kept: Rows | None) -> Placed:
        """Place the rows of a chunk; `kept`: only these, at least one, since the others lack a key or a partition."""
        ...


@dataclass(frozen=True, slots=True)
class BucketPlacing:
    """The bucket of its key is a row's place."""

    file_ids: FileIds
    hash: BucketHash
    partitions: PartitionNumbers
    tasks: int

    def place(self, keys: KeyColumns, partitions: PartitionPaths, kept: Rows | None) -> Placed:
        """Place the rows of a chunk."""
        paths = partitions.paths.dictionary.to_pylist()
        index = partitions.paths.indices.to_numpy(zero_copy_only=False)
        counts = self.file_ids.counts.of_all(paths)
        uniform = not self.file_ids.counts.rules
        buckets = keys.bucket_ids(self.file_ids.counts.default if uniform else counts[index], self.hash)
        if kept is not None:
            buckets, index = buckets[kept], index[kept]
        lengths = np.array([span_length(count, self.tasks) for count in counts.tolist()], np.int32)
        return _InBuckets(self, paths, counts, lengths, index, buckets)


@dataclass(frozen=True, slots=True)
class _InBuckets:
    placing: BucketPlacing
    paths: list[str]
    counts: npt.NDArray[np.int32]
    """Buckets of each path."""
    lengths: npt.NDArray[np.int32]
    """Buckets of each path's spans."""
    index: npt.NDArray[np.integer]
    """Number of each row's path."""
    buckets: npt.NDArray[np.int32]

    @property
    def groups(self) -> Rows:
        return self._numbers(self.index, self.buckets)

    @property
    def new(self) -> None:
        return None

    def spans(self, firsts: Rows) -> Rows:
        index, buckets = self.index[firsts], self.buckets[firsts]
        return self._numbers(index, buckets - buckets % self.lengths[index])

    def places(self, firsts: Rows) -> list[Place]:
        placing, index = self.placing, self.index[firsts]
        lengths = self.lengths[index]
        spans = self.buckets[firsts] // lengths
        numbers = placing.partitions.numbers(self.paths)[index]
        tasks = route(numbers, spans, -(-self.counts[index] // lengths), placing.tasks)
        columns = (tasks, index, spans * lengths, lengths)
        return [
            Place(task, path := self.paths[at], bucket, "" if length > 1 else placing.file_ids.file_id(path, bucket))
            for task, at, bucket, length in zip(*(column.tolist() for column in columns), strict=True)
        ]

    def _numbers(self, index: npt.NDArray[np.integer], buckets: npt.NDArray[np.int32]) -> Rows:
        return index.astype(np.int64) * self.counts.max() + buckets


@dataclass(frozen=True, slots=True)
class StatePlacing:
    """The file group that has its key, or that takes new ones, is a row's place."""

    assigner: FileIdAssigner
    partitions: PartitionNumbers
    tasks: int
    _open: dict[str, dict[str, int]] = field(default_factory=dict)
    """Partition path -> file id of an open group -> its number."""

    def place(self, keys: KeyColumns, partitions: PartitionPaths, kept: Rows | None) -> Placed:
        """Place the rows of a chunk."""
        paths, record_keys = partitions.paths, keys.record_key
        if kept is not None:
            rows = pa.array(kept)
            paths, record_keys = paths.take(rows), record_keys.take(rows)
        return _InGroups(self, self.assigner.assign(paths, record_keys))

    @property
    def in_logs(self) -> bool:
        """Whether new keys go into log files."""
        return self.assigner.plan.mode == "log"

    def task_of(self, partition_path: str, file_id: str, bucket: int) -> int:
        """The write task of a place: a partition's open groups go to one task after the other, as they take most."""
        if bucket == INSERTS or self.in_logs:
            if partition_path not in self._open:
                open_groups = self.assigner.plan.open_in(partition_path)
                self._open[partition_path] = {each.file_id: number for number, each in enumerate(open_groups)}
            if (number := self._open[partition_path].get(file_id)) is not None:
                return (self.partitions.number(partition_path) + number) % self.tasks
        return zlib.crc32(file_id.encode()) % self.tasks


@dataclass(frozen=True, slots=True)
class _InGroups:
    placing: StatePlacing
    assigned: Assigned

    @property
    def groups(self) -> Rows:
        return self._numbers(slice(None))

    @property
    def new(self) -> npt.NDArray[np.bool_] | None:
        return self.assigned.inserts if self.placing.in_logs else None

    def spans(self, firsts: Rows) -> Rows:
        return self._numbers(firsts)

    def places(self, firsts: Rows) -> list[Place]:
        groups = [self.assigned.groups[number] for number in self.assigned.numbers[firsts]]
        in_bases = self.assigned.inserts[firsts] & (not self.placing.in_logs)
        buckets = np.where(in_bases, INSERTS, UPDATES).tolist()
        return [
            Place(self.placing.task_of(path, file_id, bucket), path, bucket, file_id)
            for (path, file_id), bucket in zip(groups, buckets, strict=True)
        ]

    def _numbers(self, rows: Rows | slice) -> Rows:
        numbers = self.assigned.numbers[rows].astype(np.int64)
        return numbers if self.placing.in_logs else numbers * 2 + self.assigned.inserts[rows]


@dataclass(frozen=True, slots=True)
class OwnerPlacing:
    """Where a row goes first, in a table in which a key is in one partition only: to the task that gets all rows of its
    key. These are rows of keys that a file group has, or of a part of the new keys.
    """

    known: KeyPlaces
    tasks: int

    def place(self, keys: KeyColumns, partitions: PartitionPaths, kept: Rows | None) -> Placed:  # noqa: ARG002
        """Place the rows of a chunk."""
        found, hashed = self.known.find(keys.record_key if kept is None else keys.record_key.take(pa.array(kept)))
        parts = hashed.parts(self.tasks * _PARTS_PER_TASK).astype(np.int64)
        return _WithOwners(self, np.where(found == UNKNOWN, len(self.known.groups) + parts, found))


@dataclass(frozen=True, slots=True)
class _WithOwners:
    placing: OwnerPlacing
    groups: Rows

    @property
    def new(self) -> None:
        return None

    def spans(self, firsts: Rows) -> Rows:
        return self.groups[firsts]

    def places(self, firsts: Rows) -> list[Place]:
        groups, tasks = self.placing.known.groups, self.placing.tasks
        places = []
        for number in self.groups[firsts].tolist():
            if number < len(groups):
                path, file_id = groups[number]
                places.append(Place(zlib.crc32(file_id.encode()) % tasks, path, UPDATES, file_id))
            else:
                part = number - len(groups)
                places.append(Place(part % tasks, "", INSERTS, f"{part:08d}"))
        return places
