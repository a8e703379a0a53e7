"""Runs of the index's state, made of keys that a test names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from bucketingest.index.state.hashing import KeyHasher, KeyHashes
from bucketingest.index.state.runs.entries import Entries, one_for_each_key
from bucketingest.index.state.runs.run_file import Run, RunWriter

TABLE_ID = bytes(range(16))
HASHER = KeyHasher(bytes(range(32)))

Contents = Mapping[str, Mapping[str, Sequence[str]]]
"""Partition path to file id to record keys."""


def hashed(keys: Sequence[str]) -> KeyHashes:
    """The keys' hashes."""
    return HASHER.hash(pa.array(keys, pa.string()))


def entries(*rows: tuple[int, int, int]) -> Entries:
    """Entries of these (hash, check, group number)."""
    hashes = np.array([row[0] for row in rows], np.uint64)
    pairs = np.array([(check << 32) | group for _, check, group in rows], np.uint64)
    return Entries(hashes, pairs)


def make_run(folder: Path, contents: Contents, generations: Mapping[str, int] | None = None) -> Run:
    """A run with these keys. `generations` of its partitions: 0 where it names none."""
    parts = {
        path: (
            list(groups),
            Entries.joined([Entries.of(hashed(keys), number) for number, keys in enumerate(groups.values())]),
        )
        for path, groups in contents.items()
    }
    return make_run_of(folder, parts, generations)


def make_run_of(
    folder: Path,
    slices: Mapping[str, tuple[Sequence[str], Entries]],
    generations: Mapping[str, int] | None = None,
) -> Run:
    """A run with, for each partition, these file ids and entries."""
    with RunWriter(folder, TABLE_ID) as writer:
        for path, (groups, unsorted) in sorted(slices.items()):
            writer.start_slice(path, (generations or {}).get(path, 0), groups)
            writer.add(one_for_each_key(unsorted)[0])
        digest, file = writer.finish()
    return Run.open(file, TABLE_ID, digest=digest)
