"""Loads the keys of file groups from their files into runs, and finds keys that are in two of them."""

from __future__ import annotations

import logging
import pathlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa

from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.index.errors import DuplicateKeys, HashCollision
from bucketingest.index.state.coverage import Pending
from bucketingest.index.state.hashing import KeyHasher, KeyHashes
from bucketingest.index.state.key_columns import keys_of_deletes, keys_of_rows
from bucketingest.index.state.runs.entries import Conflicts, Entries, one_for_each_key
from bucketingest.index.state.runs.look_up import PartitionLookUp
from bucketingest.index.state.runs.merging import NewFile, RunMerger
from bucketingest.index.state.runs.run_file import Run, RunWriter
from bucketingest.index.whole_table.contested import Contested, MovedAway, Resolver, newest_instant
from bucketingest.storage.errors import NotFound
from bucketingest.storage.interface import Storage

log = logging.getLogger(__name__)

SAMPLE_MAX: Final = 10
"""So many duplicate keys are named, with their text."""
_SUSPECTS_MAX: Final = 1000
"""So many equal hashes are compared by their keys; if all of these are duplicates, the others count as such, too."""
_PIECE_ENTRIES: Final = 1 << 21

Slices = Mapping[str, FileSlice]
"""Newest slice by file id, of one partition."""
_Suspect = tuple[int, int, str, str]
"""Hash, check, older and newer file id."""
_Sample = tuple[tuple[str, str, str], ...]
"""Key, older and newer file id."""
_ReadKeys = Callable[[Storage, FileSlice], Iterator[pa.Array]]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load made."""

    runs: tuple[NewFile, ...]
    """Their entries are the newest of the partition."""
    entries: int
    duplicates: int
    """Keys that are in two file groups; they belong to the newer one."""
    sample: tuple[tuple[str, str, str], ...]
    """Some of them: key, older and newer file id."""


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads partitions of one table. Memory is bounded by `piece_entries`, about 100 bytes each, and a log block."""

    storage: Storage
    hasher: KeyHasher
    table_id: bytes
    folder: pathlib.Path
    """Where runs are written, and scratch files while it works."""
    piece_entries: int = _PIECE_ENTRIES
    resolver: Resolver | None = None
    """If the table is one partition: finds the place of a key that two groups have, as it moved from one to the other.
    None: such a key is a duplicate."""

    def load(
        self,
        partition_path: str,
        generation: int,
        slices: Slices,
        *,
        file_ids: Iterable[str] | None = None,
        known: PartitionLookUp | None = None,
        deleted_keys: bool = False,
        report_duplicates: bool = False,
        parts: Slices | None = None,
        pending: Pending | None = None,
        gone: MovedAway | None = None,
    ) -> Loaded:
        """The keys of the partition's file groups.

        file_ids: only these, default all of `slices`. parts: of these groups only these files: their other keys are
        known. known: the keys that were loaded before, for duplicates. deleted_keys: also keys that are only in delete
        blocks belong to their file group. pending: so do keys that only a compaction of it has. report_duplicates: they
        belong to the newer file group, else DuplicateKeys is raised. gone: with a resolver, see `Contested.gone`.
        """
        wanted = set(slices if file_ids is None else file_ids)
        suspects: _Suspects | Contested = _Suspects() if self.resolver is None else Contested(gone or {})
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".load-") as scratch:
            groups = tuple(sorted(wanted))
            files = {file_id: [(parts or {}).get(file_id, slices[file_id])] for file_id in groups}
            work = _Work(partition_path, generation, groups, slices, files, pathlib.Path(scratch))
            runs = self._merged(self._pieces(work, keys_of_rows, suspects, known), work, suspects)
            others = self._pieces(work, keys_of_deletes, None, known) if deleted_keys else []
            if pending:
                read = {file_id: [each.files for each in inputs] for file_id, inputs in pending.items()}
                others += self._pieces(replace(work, read=read), _keys_if_there, None, known)
            if others:
                runs = self._merged([*self._opened(runs), *others], work, None)
            result = tuple((digest, file.replace(self.folder / digest)) for digest, file in runs)
        entries = sum(len(run) for run in self._opened(result))
        if isinstance(suspects, Contested):
            run, count, sample = self._resolved(work, suspects)
            result = (*run, *result)
        else:
            sample = self._confirmed(partition_path, suspects.sample, slices)
            count = suspects.count - len(suspects.sample) + len(sample) if sample else 0
        if sample and not report_duplicates:
            raise DuplicateKeys(partition_path, count, sample[:SAMPLE_MAX])
        return Loaded(result, entries, count, sample[:SAMPLE_MAX])

    def _resolved(self, work: _Work, contested: Contested) -> tuple[list[NewFile], int, _Sample]:
        """A run with the places of contested keys, how many are duplicates, and some of these."""
        by_group = contested.by_group
        if not by_group or self.resolver is None:
            return [], 0, ()
        found = self.resolver.resolve(by_group, work.slices)
        with RunWriter(self.folder, self.table_id) as writer:
            writer.start_slice(work.partition_path, work.generation, found.groups)
            writer.add(found.entries)
            return [writer.finish()], found.duplicates, found.sample

    def _pieces(
        self, work: _Work, read: _ReadKeys, suspects: _Suspects | Contested | None, known: PartitionLookUp | None
    ) -> list[Run]:
        """Sorted runs of a bounded number of keys each, those of newer file groups first."""
        finished: list[Run] = []
        pending: list[Entries] = []
        count = 0
        for file_id in work.newest_first():
            number = work.groups.index(file_id)
            for keys in chain.from_iterable(read(self.storage, files) for files in work.read.get(file_id, ())):
                hashed = self.hasher.hash(keys)
                if known is not None and suspects is not None:
                    suspects.add_known(known, hashed, file_id, work.slices)
                elif known is not None:  # a deleted key belongs to the group that has its row
                    rows, _ = known.elsewhere(hashed, file_id, work.slices)
                    hashed = hashed.take(np.delete(np.arange(len(hashed)), rows))
                pending.append(Entries.of(hashed, number))
                count += len(keys)
                if count >= self.piece_entries:
                    finished.append(self._piece(work, pending, suspects))
                    pending, count = [], 0
        if count:
            finished.append(self._piece(work, pending, suspects))
        return finished

    def _piece(self, work: _Work, parts: list[Entries], suspects: _Suspects | Contested | None) -> Run:
        entries, conflicts = one_for_each_key(Entries.joined(parts))
        if suspects is not None:
            suspects.add(work.partition_path, work.groups, conflicts)
        with RunWriter(work.folder, self.table_id) as writer:
            writer.start_slice(work.partition_path, work.generation, work.groups)
            writer.add(entries)
            digest, file = writer.finish()
        return Run.open(file, self.table_id, digest=digest)

    def _merged(self, runs: Sequence[Run], work: _Work, suspects: _Suspects | Contested | None) -> list[NewFile]:
        if len(runs) == 1:
            return [(runs[0].digest, work.folder / runs[0].digest)]
        return RunMerger(work.folder, self.table_id, on_conflicts=suspects.add if suspects else None).merge(runs)

    def _opened(self, files: Iterable[NewFile]) -> list[Run]:
        return [Run.open(file, self.table_id, digest=digest) for digest, file in files]

    def _confirmed(
        self, partition_path: str, suspects: Sequence[_Suspect], slices: Slices
    ) -> tuple[tuple[str, str, str], ...]:
        """The keys behind equal hashes, read again from the files of both groups. Raises HashCollision."""
        texts: dict[tuple[int, int, str], str] = {}
        wanted = np.array([suspect[0] for suspect in suspects], np.uint64)
        for file_id in sorted({file_id for suspect in suspects for file_id in suspect[2:]}):
            for keys in keys_of_rows(self.storage, slices[file_id]):
                hashed = self.hasher.hash(keys)
                for row in np.flatnonzero(np.isin(hashed.hashes, wanted)).tolist():
                    texts[int(hashed.hashes[row]), int(hashed.checks[row]), file_id] = keys[row].as_py()
        sample = []
        for key_hash, check, older, newer in suspects:
            one, other = texts.get((key_hash, check, older)), texts.get((key_hash, check, newer))
            if one is None or other is None:
                continue
            if one != other:
                where = f"{self.storage.url}, partition {partition_path!r}"
                raise HashCollision.of(where, (one, older), (other, newer))
            sample.append((one, older, newer))
        return tuple(sample)


@dataclass(frozen=True, slots=True)
class _Work:
    """One load."""

    partition_path: str
    generation: int
    groups: tuple[str, ...]
    slices: Slices
    read: Mapping[str, Sequence[FileSlice]]
    """The files that are read, by file id: all, or those whose keys are not known."""
    folder: pathlib.Path
    """For runs that are not finished."""

    def newest_first(self) -> list[str]:
        """The file groups from the newest to the oldest: of a key's entries the first stays."""
        return sorted(self.groups, key=lambda file_id: (newest_instant(self.slices[file_id]), file_id), reverse=True)


@dataclass(slots=True)
class _Suspects:
    """Keys that seem to be in two file groups: all are counted, some are kept."""

    count: int = 0
    sample: list[_Suspect] = field(default_factory=list)

    def add(self, _partition_path: str, groups: Sequence[str], conflicts: Conflicts) -> None:
        """Of keys with different groups the newer one was kept."""
        self.count += len(conflicts.kept)
        rows = slice(_SUSPECTS_MAX - len(self.sample))
        kept, dropped = conflicts.kept.take(rows), conflicts.dropped.take(rows)
        self.sample += [
            (int(key_hash), int(check), groups[older], groups[newer])
            for key_hash, check, older, newer in zip(kept.hashes, kept.checks, dropped.groups, kept.groups, strict=True)
        ]

    def add_known(self, known: PartitionLookUp, keys: KeyHashes, file_id: str, slices: Slices) -> None:
        """Keys of `file_id` that are already known in another file group that is still there."""
        rows, found = known.elsewhere(keys, file_id, slices)
        self.count += len(rows)
        count = _SUSPECTS_MAX - len(self.sample)
        for row, group in zip(rows[:count].tolist(), found[:count].tolist(), strict=True):
            self.sample.append((int(keys.hashes[row]), int(keys.checks[row]), known.groups[group], file_id))


def _keys_if_there(storage: Storage, files: FileSlice) -> Iterator[pa.Array]:
    """As `keys_of_rows`, of what a pending compaction reads: without its files it can only be rolled back."""
    try:
        yield from keys_of_rows(storage, files)
    except NotFound as error:
        log.warning("input of a pending compaction is gone", extra={"reason": str(error)})
