"""Which files the state has the keys of: what differs from a listing must be loaded before a look-up. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from bucketingest.hudi.table.file_view import FileGroup, FileSlice

_MODULUS = 1 << 64


@dataclass(frozen=True, slots=True)
class PendingInput:
    """What a pending compaction of a file group reads and readers do not: its keys are back when it completes."""

    compaction: str
    """Its request time."""
    files: FileSlice


Pending = Mapping[str, Sequence[PendingInput]]
"""By file id."""


@dataclass(frozen=True, slots=True)
class CoveredSlice:
    """The files of a file group's newest slice whose keys are in the state: names alone identify them."""

    base_instant: str = ""
    """Of the base file; "" without one."""
    logs: int = 0
    """How many log files."""
    log_names: int = 0
    """Sum of the hashes of their names: the same in whichever order they were added."""
    pending: str = ""
    """Request times, joined by "+", of pending compactions that read other files, whose keys the state has, too."""

    @classmethod
    def of(cls, latest: FileSlice, pending: Sequence[PendingInput] = ()) -> Self:
        """All files of this slice, and the input of these compactions."""
        base = latest.base_file.instant if latest.base_file else ""
        names = [str(log.name) for log in latest.log_files]
        compactions = "+".join(each.compaction for each in pending)
        return cls(base, len(names), sum(map(_hash, names)) % _MODULUS, compactions)

    def with_logs(self, names: Iterable[str]) -> CoveredSlice:
        """With these further log files."""
        added = [_hash(name) for name in names]
        return replace(self, logs=self.logs + len(added), log_names=(self.log_names + sum(added)) % _MODULUS)


Covered = Mapping[str, CoveredSlice]
"""By file id."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What a listing of a partition has that the state does not know of."""

    added: tuple[str, ...] = ()
    """File ids with files that must be read; their other keys stay."""
    rewritten: tuple[str, ...] = ()
    """File ids whose base file is another one, by a compaction or a writer that enlarged it, that lost log files, or
    with other pending input. All their files must be read, as keys may have gone.
    """
    gone: tuple[str, ...] = ()
    """File ids that no longer exist: their keys must be forgotten."""

    @property
    def read(self) -> tuple[str, ...]:
        """File ids whose files must be read."""
        return (*self.added, *self.rewritten)

    @property
    def stale(self) -> tuple[str, ...]:
        """File ids whose keys may be in no file any more."""
        return (*self.rewritten, *self.gone)


def difference(covered: Covered, groups: Mapping[str, FileGroup], pending: Pending | None = None) -> Difference:
    """What to load, each sorted. `groups`: the partition's file groups as readers see them: without replaced ones.
    `pending`: what compactions of them read besides.
    """
    added, rewritten = [], []
    latest = {file_id: group.latest for file_id, group in groups.items() if group.latest is not None}
    for file_id, newest in sorted(latest.items()):
        known = covered.get(file_id)
        if known is None:
            added.append(file_id)
            continue
        found = CoveredSlice.of(newest, (pending or {}).get(file_id, ()))
        if (known.base_instant, known.pending) != (found.base_instant, found.pending) or found.logs < known.logs:
            rewritten.append(file_id)
        elif known != found:
            added.append(file_id)
    gone = sorted(file_id for file_id in covered if file_id not in latest)
    return Difference(tuple(added), tuple(rewritten), tuple(gone))


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What the state has of one partition."""

    generation: int
    """Of its entries in the runs; others are of a generation that was forgotten."""
    covered: Covered = field(default_factory=dict)


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest())
