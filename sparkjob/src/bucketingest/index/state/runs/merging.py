"""Merges runs, so that a look-up goes through few of them: which ones (pure), and the merge in bounded memory."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from bucketingest.index.state.runs.entries import NO_GROUP, Conflicts, Entries, one_for_each_key
from bucketingest.index.state.runs.run_file import Run, RunSlice, RunWriter

TIER: Final = 4
"""A run stays alone while it has more than so many times the entries of all newer ones."""
RUN_ENTRIES_MAX: Final = 64 * 1024**2
"""Entries of one run, 1 GiB: a store takes it in one request."""
_PIECE_ENTRIES: Final = 1 << 20
_FULL: Final = 1 << 64

NewFile = tuple[str, pathlib.Path]
"""Digest and file of a run."""


def runs_to_merge(sizes: Sequence[int]) -> range:
    """Which runs to merge, given the entries of each from the newest to the oldest; empty if they are few enough. Pure.

    After it each run has more than TIER times the entries of all newer ones, so their number grows with the logarithm
    of the keys, and each entry is merged about once for each of these tiers. Full runs stay as they are.
    """
    newer, stop = 0, 0
    for number, size in enumerate(sizes):
        if size >= RUN_ENTRIES_MAX:
            break
        if number and size <= TIER * newer:
            stop = number + 1
        newer += size
    return range(stop)


@dataclass(frozen=True, slots=True)
class RunMerger:
    """Merges runs into new ones in `folder`. Same runs, same generations: same bytes, in whichever process."""

    folder: pathlib.Path
    table_id: bytes
    piece_entries: int = _PIECE_ENTRIES
    """Entries in memory at a time, about; each takes some 100 bytes."""
    run_entries_max: int = RUN_ENTRIES_MAX
    on_conflicts: Callable[[str, Sequence[str], Conflicts], None] | None = None
    """Called with, by partition path and file ids, which keys had different groups: the newer run's stays."""

    def merge(
        self, runs: Sequence[Run], generations: Mapping[str, int] | None = None, *, keep_removals: bool = True
    ) -> list[NewFile]:
        """The entries of the runs, newest run first: each key's newest one.

        generations: partition path to its current generation; entries of others are left out. None: all stay, and a
        partition has the newest run's generation. keep_removals: whether keys in no file group stay; they must while
        there are older runs.
        """
        with _Output(self.folder, self.table_id, self.run_entries_max) as output:
            for path in sorted({path for run in runs for path in run.slices}):
                slices = [run.slices[path] for run in runs if path in run.slices]
                generation = slices[0].generation if generations is None else generations.get(path)
                slices = [each for each in slices if each.generation == generation]
                if not slices or generation is None:
                    continue
                groups, inputs = _same_numbers(slices)
                for piece in self._merged(path, groups, inputs):
                    kept = piece if keep_removals else piece.take(piece.groups != NO_GROUP)
                    output.add(path, generation, groups, kept)
            return output.finish()

    def _merged(
        self, path: str, groups: Sequence[str], inputs: Sequence[tuple[RunSlice, npt.NDArray[np.uint32]]]
    ) -> Iterator[Entries]:
        for start, stop in _hash_ranges(sum(len(each) for each, _ in inputs), self.piece_entries):
            parts = []
            for each, numbers in inputs:
                rows = slice(_place(each, start), _place(each, stop))
                if rows.start < rows.stop:
                    parts.append(each.entries.take(rows).with_groups(numbers))
            entries, conflicts = one_for_each_key(Entries.joined(parts))
            if self.on_conflicts is not None and len(conflicts.kept):
                self.on_conflicts(path, groups, conflicts)
            yield entries


@dataclass(slots=True)
class _Output:
    """One run after the other, each up to so many entries."""

    folder: pathlib.Path
    table_id: bytes
    entries_max: int
    _writer: RunWriter | None = None
    _path: str | None = None
    _finished: list[NewFile] = field(default_factory=list)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, traceback)

    def add(self, partition_path: str, generation: int, groups: Sequence[str], entries: Entries) -> None:
        """The next entries, of this partition."""
        if not len(entries):
            return
        if self._writer is not None and self._writer.count + len(entries) > self.entries_max:
            self.finish()
        if self._writer is None:
            self._writer, self._path = RunWriter(self.folder, self.table_id), None
        if self._path != partition_path:
            self._writer.start_slice(partition_path, generation, groups)
            self._path = partition_path
        self._writer.add(entries)

    def finish(self) -> list[NewFile]:
        """All runs so far; the next entries begin another one."""
        if self._writer is not None:
            self._finished.append(self._writer.finish())
            self._writer.__exit__(None, None, None)
            self._writer = None
        return self._finished


def _same_numbers(slices: Sequence[RunSlice]) -> tuple[list[str], list[tuple[RunSlice, npt.NDArray[np.uint32]]]]:
    """The file ids of all slices, and for each slice its group numbers as positions among these."""
    groups = sorted({file_id for each in slices for file_id in each.groups})
    numbers = {file_id: number for number, file_id in enumerate(groups)}
    return groups, [(each, np.array([numbers[file_id] for file_id in each.groups], np.uint32)) for each in slices]


def _hash_ranges(entries: int, piece: int) -> Iterator[tuple[int, int]]:
    """Ranges of hashes with about so many entries each: hashes are evenly spread."""
    pieces = max(1, -(-entries // piece))
    edges = [_FULL * number // pieces for number in range(pieces + 1)]
    yield from pairwise(edges)


def _place(run: RunSlice, edge: int) -> int:
    return len(run) if edge == _FULL else int(np.searchsorted(run.entries.hashes, np.uint64(edge)))
