"""Where a row goes: one interface for an index with buckets and one with a state, used by the tasks before the shuffle.

A task places the rows of one chunk after the other. Rows of one file group get one number, by which they are sorted;
then each file group's part is sent to one write task.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.assignment.file_id_assigner import Assigned, FileIdAssigner
from bucketingest.index.bucket_hash import BucketHash
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.partition_path import PartitionPaths
from bucketingest.index.record_key import KeyColumns
from bucketingest.index.state.runs.look_up import UNKNOWN
from bucketingest.index.task_routing import PartitionNumbers, route
from bucketingest.index.whole_table.key_places import KeyPlaces

Rows = npt.NDArray[np.int64]

UPDATES: Final = 0
INSERTS: Final = 1
"""Instead of a bucket, with a state: whether the rows are the first ones of a new base file. If new keys go into log
files, all rows are `UPDATES`: those of new and of known keys of a file group are in one file.
"""


_PARTS_PER_TASK: Final = 4
"""Parts of the new keys: the more, the less memory takes one."""


class Place(NamedTuple):
    """Where the rows of one message go."""

    task: int
    partition_path: str
    bucket: int
    """Its bucket; with a state `UPDATES` or `INSERTS`."""
    file_id: str


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

    def places(self, firsts: Rows) -> list[Place]:
        """The places of these rows."""
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
        return _InBuckets(self, paths, counts, index, buckets)


@dataclass(frozen=True, slots=True)
class _InBuckets:
    placing: BucketPlacing
    paths: list[str]
    counts: npt.NDArray[np.int32]
    """Buckets of each path."""
    index: npt.NDArray[np.integer]
    """Number of each row's path."""
    buckets: npt.NDArray[np.int32]

    @property
    def groups(self) -> Rows:
        return self.index.astype(np.int64) * self.counts.max() + self.buckets

    @property
    def new(self) -> None:
        return None

    def places(self, firsts: Rows) -> list[Place]:
        placing, index, buckets = self.placing, self.index[firsts], self.buckets[firsts]
        numbers = placing.partitions.numbers(self.paths)[index]
        tasks = route(numbers, buckets, self.counts[index], placing.tasks)
        return [
            Place(task, self.paths[path], bucket, placing.file_ids.file_id(self.paths[path], bucket))
            for task, path, bucket in zip(tasks.tolist(), index.tolist(), buckets.tolist(), strict=True)
        ]


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
        numbers = self.assigned.numbers.astype(np.int64)
        return numbers if self.placing.in_logs else numbers * 2 + self.assigned.inserts

    @property
    def new(self) -> npt.NDArray[np.bool_] | None:
        return self.assigned.inserts if self.placing.in_logs else None

    def places(self, firsts: Rows) -> list[Place]:
        groups = [self.assigned.groups[number] for number in self.assigned.numbers[firsts]]
        in_bases = self.assigned.inserts[firsts] & (not self.placing.in_logs)
        buckets = np.where(in_bases, INSERTS, UPDATES).tolist()
        return [
            Place(self.placing.task_of(path, file_id, bucket), path, bucket, file_id)
            for (path, file_id), bucket in zip(groups, buckets, strict=True)
        ]


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
        parts = (hashed.hashes >> np.uint64(40)).astype(np.int64) % (self.tasks * _PARTS_PER_TASK)
        return _WithOwners(self, np.where(found == UNKNOWN, len(self.known.groups) + parts, found))


@dataclass(frozen=True, slots=True)
class _WithOwners:
    placing: OwnerPlacing
    groups: Rows

    @property
    def new(self) -> None:
        return None

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
