"""Gives each row its file id before the shuffle: that of its key's file group, or of an open one if the key is new."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.assignment.plan import AssignmentPlan
from bucketingest.index.errors import PartitionsNotLoaded
from bucketingest.index.state.hashing import Hashes, KeyHasher, KeyHashes
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Assigned:
    """Where n rows belong."""

    groups: tuple[tuple[str, str], ...]
    """Partition path and file id by number."""
    numbers: npt.NDArray[np.int32]
    """Number of each row's file group, int32[n]."""
    inserts: npt.NDArray[np.bool_]
    """Whether the row's key is new, bool[n]."""
    keys: KeyHashes
    """The rows' key hashes."""


@dataclass(slots=True)
class FileIdAssigner:
    """The assignment by one plan. Pure: neither the other rows nor the task, attempt or time count.

    `look_up`: the state's keys of a partition, None if it has none. It must be that of the plan's runs and generations.
    """

    plan: AssignmentPlan
    look_up: Callable[[str], PartitionLookUp | None]
    _hasher: KeyHasher = field(init=False)
    _open: dict[str, tuple[Hashes, list[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._hasher = KeyHasher(bytes.fromhex(self.plan.seed))

    def assign(self, partition_paths: pa.Array, record_keys: pa.Array) -> Assigned:
        """`partition_paths`: strings or a dictionary of them, `record_keys`: strings; both without null, length n.

        Raises PartitionsNotLoaded.
        """
        by_partition = list(_by_partition(partition_paths))
        if unloaded := [path for path, _ in by_partition if path in self.plan.unloaded]:
            raise PartitionsNotLoaded(unloaded)
        keys = self._hasher.hash(record_keys)
        numbers = np.zeros(len(keys), np.int32)
        inserts = np.zeros(len(keys), np.bool_)
        groups: list[tuple[str, str]] = []
        for path, rows in by_partition:
            of_partition = keys.take(rows)
            file_ids, found = self._known(path, of_partition)
            new = found == UNKNOWN
            if new.any():
                firsts, open_ids = self._open_groups(path)
                found[new] = len(file_ids) + np.searchsorted(firsts, of_partition.hashes[new], side="right") - 1
                file_ids = [*file_ids, *open_ids]
            used, dense = np.unique(found, return_inverse=True)
            numbers[rows] = dense + len(groups)
            inserts[rows] = new
            groups += [(path, file_ids[number]) for number in used]
        return _without_repeats(Assigned(tuple(groups), numbers, inserts, keys))

    def _known(self, partition_path: str, keys: KeyHashes) -> tuple[list[str], npt.NDArray[np.int64]]:
        known = self.look_up(partition_path)
        if known is None:
            return [], np.full(len(keys), UNKNOWN, np.int64)
        return list(known.groups), known.find(keys).astype(np.int64)

    def _open_groups(self, partition_path: str) -> tuple[Hashes, list[str]]:
        if partition_path not in self._open:
            groups = self.plan.open_in(partition_path)
            firsts = np.array([each.first for each in groups], np.uint64)
            self._open[partition_path] = firsts, [each.file_id for each in groups]
        return self._open[partition_path]


def _by_partition(partition_paths: pa.Array) -> Iterator[tuple[str, Rows]]:
    """Each partition path with its rows, ascending."""
    encoded = partition_paths if pa.types.is_dictionary(partition_paths.type) else partition_paths.dictionary_encode()
    paths = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    if not len(codes):
        return
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    for code, rows in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        yield paths[code], rows


def _without_repeats(assigned: Assigned) -> Assigned:
    """An open group that is known already has one number: updates and inserts of one group stay together."""
    numbers: dict[tuple[str, str], int] = {}
    again = np.array([numbers.setdefault(group, len(numbers)) for group in assigned.groups], np.int32)
    if len(numbers) == len(assigned.groups):
        return assigned
    return Assigned(tuple(numbers), again[assigned.numbers], assigned.inserts, assigned.keys)
