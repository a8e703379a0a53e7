"""A recorded plan as it is sent to tasks: with it each computes the same file id for the same key, also when it runs
again.
"""

from __future__ import annotations

import functools
import pathlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.index.assignment.file_id_assigner import FileIdAssigner
from bucketingest.index.assignment.plan import AssignmentPlan, digest_of
from bucketingest.index.state.hashing import KeyHasher, KeyHashes
from bucketingest.index.state.runs.local_runs import LocalRuns, local_folder
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.state.runs.run_file import Run
from bucketingest.index.state.store import StateStore
from bucketingest.index.whole_table.identity import WHOLE_TABLE, group_of
from bucketingest.storage.interface import Storage


@dataclass(frozen=True)
class KeyPlaces:
    """The state of one plan. Pure, as the plan's assignment is."""

    hasher: KeyHasher
    look_up: PartitionLookUp | None
    """None: the table has no keys."""

    @cached_property
    def groups(self) -> tuple[tuple[str, str], ...]:
        """Partition path and file id by number."""
        return () if self.look_up is None else tuple(map(group_of, self.look_up.groups))

    def find(self, record_keys: pa.Array) -> tuple[npt.NDArray[np.int64], KeyHashes]:
        """The number of each key's file group, or UNKNOWN; and the keys' hashes."""
        keys = self.hasher.hash(record_keys)
        if self.look_up is None:
            return np.full(len(keys), UNKNOWN, np.int64), keys
        return self.look_up.find(keys).astype(np.int64), keys


LOCAL_BYTES_MAX: Final = 64 * 1024**3
"""Runs of one table on one machine's disk; those of the current plan stay in any case."""


@dataclass(frozen=True)
class PlannedFileIds:
    """The plan of one micro-batch. Picklable; the runs that it names stay in the table's storage."""

    plan: AssignmentPlan
    table_id: bytes

    @functools.cached_property
    def fingerprint(self) -> str:
        """Names the plan: equal plans place all rows alike."""
        return digest_of(self.plan.encode(self.table_id))

    def assigner(self, storage: Storage) -> FileIdAssigner:
        """What places rows by this plan, in this process. Raises StateError or NotFound if a run is lost: then the
        micro-batch cannot be repeated.
        """
        return FileIdAssigner(self.plan, _LookUps(self.plan, self._runs(storage)))

    def key_places(self, storage: Storage) -> KeyPlaces:
        """Where keys were at the plan's time, if a key is in one partition only. Raises as `assigner`."""
        look_up = _LookUps(self.plan, self._runs(storage))(WHOLE_TABLE)
        return KeyPlaces(KeyHasher(bytes.fromhex(self.plan.seed)), look_up)

    def _runs(self, storage: Storage) -> list[Run]:
        store = StateStore(storage, KeyHasher(bytes.fromhex(self.plan.seed)), self.table_id)
        local = local_runs(self.table_id)
        runs = [local.get(digest, store.get_run) for digest in self.plan.runs]
        local.keep_only(frozenset(self.plan.runs))
        return runs


def local_runs(table_id: bytes) -> LocalRuns:
    """The runs of a table on this machine's disk, opened once per process."""
    return _opened(local_folder(table_id), table_id)


@functools.lru_cache(maxsize=4)
def _opened(folder: pathlib.Path, table_id: bytes) -> LocalRuns:
    return LocalRuns(folder, table_id, LOCAL_BYTES_MAX)


@dataclass(slots=True)
class _LookUps:
    """The keys of the plan's partitions, each opened when a row asks for it."""

    plan: AssignmentPlan
    runs: list[Run]
    _known: dict[str, PartitionLookUp] = field(default_factory=dict)

    def __call__(self, partition_path: str) -> PartitionLookUp | None:
        generation = self.plan.generations.get(partition_path)
        if generation is None:
            return None
        if partition_path not in self._known:
            slices = [run.slices[partition_path] for run in self.runs if partition_path in run.slices]
            slices = [each for each in slices if each.generation == generation]
            self._known[partition_path] = PartitionLookUp.of(slices)
        return self._known[partition_path]
