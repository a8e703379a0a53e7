"""Keys that two file groups of the whole table have. One that moved to another partition is still in the base file of
its old file group, deleted by a log file: the file group where a reader shows the key is its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bucketingest.hudi.merge.current_rows import current_rows
from bucketingest.hudi.merge.merge_rules import MergeRules
from bucketingest.hudi.merge.winners import ranks_with_nulls
from bucketingest.hudi.table.file_view import FileSlice
from bucketingest.index.errors import HashCollision
from bucketingest.index.state.hashing import Hashes, KeyHasher, KeyHashes
from bucketingest.index.state.runs.entries import Conflicts, Entries
from bucketingest.index.state.runs.look_up import PartitionLookUp
from bucketingest.storage.interface import Storage

MovedAway: TypeAlias = Mapping[str, Mapping[str, Hashes]]
"""Keys that left file groups, by group name and instant."""

_SAMPLE_MAX: Final = 10
_PIECE: Final = 1 << 19
"""Keys whose rows are read at a time: bounds the memory."""


@dataclass(slots=True)
class Contested:
    """Collects them while keys are loaded."""

    gone: MovedAway = field(default_factory=dict)
    """What this job itself moved away, to base files of the same instant: it looked at their rows before."""
    _keys: defaultdict[str, list[KeyHashes]] = field(default_factory=lambda: defaultdict(list))

    def add(self, _partition_path: str, groups: Sequence[str], conflicts: Conflicts) -> None:
        """Keys that are in two of the groups."""
        for entries in (conflicts.kept, conflicts.dropped):
            for number in np.unique(entries.groups).tolist():
                chosen = entries.take(entries.groups == number)
                self._keys[groups[number]].append(KeyHashes(chosen.hashes, chosen.checks))

    def add_known(self, known: PartitionLookUp, keys: KeyHashes, group: str, slices: Mapping[str, FileSlice]) -> None:
        """Keys of a group that are already known in another one that is still there."""
        elsewhere, numbers = known.elsewhere(keys, group, slices)
        base = slices[group].base_file
        for number in np.unique(numbers).tolist():
            other, rows = known.groups[number], elsewhere[numbers == number]
            if base is not None and (gone := self.gone.get(other, {}).get(base.instant)) is not None:
                rows = rows[~np.isin(keys.hashes[rows], gone)]
            if len(rows):
                self._keys[other].append(keys.take(rows))
                self._keys[group].append(keys.take(rows))

    @property
    def by_group(self) -> dict[str, Hashes]:
        """Hashes of the keys of each group, sorted, each once."""
        return {
            group: np.unique(np.concatenate([each.hashes for each in parts]))
            for group, parts in sorted(self._keys.items())
        }


@dataclass(frozen=True, slots=True)
class Resolved:
    """The places of contested keys."""

    groups: tuple[str, ...]
    entries: Entries
    """Sorted."""
    duplicates: int
    """Keys that readers show in two groups; they belong to the newer one."""
    sample: tuple[tuple[str, str, str], ...]
    """Some of them: key, older and newer group."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Reads what the file groups say of contested keys."""

    storage: Storage
    hasher: KeyHasher
    rules: MergeRules

    def resolve(self, contested: Mapping[str, Hashes], slices: Mapping[str, FileSlice]) -> Resolved:
        """`contested`: see `Contested.by_group`. Raises HashCollision, and as `current_rows` does."""
        groups = tuple(group for group in sorted(contested, key=lambda each: (newest_instant(slices[each]), each)))
        hashes = np.unique(np.concatenate([*contested.values(), np.zeros(0, np.uint64)]))
        parts: list[Entries] = []
        duplicates, sample = 0, list[tuple[str, str, str]]()
        for start in range(0, len(hashes), _PIECE):
            piece = hashes[start : start + _PIECE]
            rows = self._read(groups, contested, slices, piece[0], piece[-1])
            order, last = rows.in_order()
            parts.append(Entries.of(rows.keys.take(order[last]), rows.groups[order[last]]))
            pairs = rows.duplicates(order)
            duplicates += len(pairs)
            for one, other in pairs[: _SAMPLE_MAX - len(sample)]:
                text, other_text = rows.texts[one].as_py(), rows.texts[other].as_py()
                older, newer = groups[rows.groups[one]], groups[rows.groups[other]]
                if text != other_text:
                    raise HashCollision.of(self.storage.url, (text, older), (other_text, newer))
                sample.append((text, older, newer))
        return Resolved(groups, Entries.joined(parts), duplicates, tuple(sample))

    def _read(
        self,
        groups: Sequence[str],
        contested: Mapping[str, Hashes],
        slices: Mapping[str, FileSlice],
        first: np.uint64,
        last: np.uint64,
    ) -> _Rows:
        """What each group says of its contested keys with hashes from `first` to `last`."""
        keys, texts, numbers, alive, orderings = [], [], [], [], []
        for number, group in enumerate(groups):
            of_group = contested[group]
            of_group = of_group[(of_group >= first) & (of_group <= last)]
            if not len(of_group):
                continue

            def wanted(found: pa.Array, of_group: Hashes = of_group) -> npt.NDArray[np.bool_]:
                return np.isin(self.hasher.hash(found).hashes, of_group)

            found = current_rows(self.storage, slices[group], self.rules, wanted)
            keys.append(self.hasher.hash(found.keys))
            texts.append(found.keys)
            numbers.append(np.full(len(found), number, np.int64))
            alive.append(found.alive)
            orderings += [] if found.ordering is None or not len(found) else [found.ordering]
        count = sum(map(len, texts))
        ranks = ranks_with_nulls(pa.concat_arrays(orderings)) if orderings else np.zeros(count, np.int64)
        hashes = KeyHashes(np.concatenate([k.hashes for k in keys]), np.concatenate([k.checks for k in keys]))
        return _Rows(hashes, pa.concat_arrays(texts), np.concatenate(numbers), np.concatenate(alive), ranks)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What the groups say, a row for each key and group. Groups are numbered from the oldest to the newest."""

    keys: KeyHashes
    texts: pa.Array
    groups: npt.NDArray[np.int64]
    alive: npt.NDArray[np.bool_]
    ordering: npt.NDArray[np.int64]

    def in_order(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The rows by key, of a key its place last; and which of them are places.

        Of two groups that show the key the newer one is, of two with deletes that with the greatest ordering value: a
        late row must lose to it.
        """
        second = np.where(self.alive, self.groups, self.ordering)
        order = np.lexsort((self.groups, second, self.alive, self.keys.checks, self.keys.hashes))
        return order, np.append(~self._same(order), [True])[: len(order)]

    def duplicates(self, order: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
        """Of keys that two groups show: the row of the older and that of the newest one."""
        both = self._same(order) & self.alive[order[:-1]] & self.alive[order[1:]]
        pairs = np.flatnonzero(both & ~np.append(both[1:], [False])[: len(both)])
        return list(zip(order[pairs].tolist(), order[pairs + 1].tolist(), strict=True))

    def _same(self, order: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Whether each row's key is that of the next one, bool[n - 1]."""
        hashes, checks = self.keys.hashes[order], self.keys.checks[order]
        return (hashes[1:] == hashes[:-1]) & (checks[1:] == checks[:-1])


def newest_instant(files: FileSlice) -> str:
    """The newest instant of its files."""
    bases = [files.base_file.instant] if files.base_file else []
    return max([*bases, *(log.instant for log in files.log_files)])
