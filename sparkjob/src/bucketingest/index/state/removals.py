"""Takes keys out of the state that are no longer in their file group: its base file is another one, or it is gone."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np

from bucketingest.index.state.hashing import KeyHashes
from bucketingest.index.state.runs.entries import NO_GROUP, Entries
from bucketingest.index.state.runs.look_up import UNKNOWN, PartitionLookUp
from bucketingest.index.state.runs.merging import NewFile
from bucketingest.index.state.runs.run_file import RunSlice, RunWriter

_PIECE: Final = 1 << 20


def write_removals(
    slices: Sequence[RunSlice],
    stale: Collection[str],
    folder: pathlib.Path,
    table_id: bytes,
    *,
    now: Sequence[RunSlice] = (),
) -> list[NewFile]:
    """Runs, newer than all of `slices`, in which the keys of the stale file groups are in no group.

    slices: the partition's, newest first, of one generation. stale: file ids. now: what is newer still, with the keys
    that these groups have now, and those that are in other groups since: they need no removal.
    """
    before, after = PartitionLookUp.of(slices), PartitionLookUp.of(now)
    is_stale = np.array([file_id in stale for file_id in before.groups], np.bool_)
    files = []
    for each in slices:
        with RunWriter(folder, table_id) as writer:
            writer.start_slice(each.partition_path, each.generation, [])
            for keys in _keys_of(each, stale):
                found = before.find(keys)
                # A newer run may have the key in another group, where it stays.
                removed = found != UNKNOWN
                removed[removed] = is_stale[found[removed]]
                removed &= after.find(keys) == UNKNOWN
                if removed.any():
                    writer.add(Entries.of(keys.take(np.flatnonzero(removed)), NO_GROUP))
            if writer.count:
                files.append(writer.finish())
    return files


def _keys_of(run: RunSlice, file_ids: Collection[str]) -> Iterator[KeyHashes]:
    """The keys that this run has in these file groups, in its order, a bounded number at a time."""
    wanted = np.array([file_id in file_ids for file_id in run.groups], np.bool_)
    if not wanted.any():
        return
    for start in range(0, len(run), _PIECE):
        entries = run.entries.take(slice(start, start + _PIECE))
        rows = np.flatnonzero(entries.groups != NO_GROUP)
        chosen = entries.take(rows[wanted[entries.groups[rows]]])
        yield KeyHashes(chosen.hashes, chosen.checks)
