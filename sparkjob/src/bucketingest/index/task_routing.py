"""Spreads file groups over write tasks: one task per file group, about as many file groups for each task."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class PartitionNumbers:
    """A number per partition path, the same in every task of an instant. Build it with `of`.

    Known partitions are numbered one after the other, so their file groups are spread evenly; an unknown one gets a
    number from its path alone (CRC-32), so all tasks use the same number.
    """

    known: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, partition_paths: Sequence[str]) -> Self:
        """Numbers for these known partition paths, in any order."""
        return cls({path: number for number, path in enumerate(sorted(set(partition_paths)))})

    def number(self, partition_path: str) -> int:
        """The path's number, >= 0 and below 2^33."""
        known = self.known.get(partition_path)
        return known if known is not None else len(self.known) + zlib.crc32(partition_path.encode())

    def numbers(self, partition_paths: Sequence[str]) -> npt.NDArray[np.int64]:
        """Numbers of several paths (the dictionary of a batch's partition paths), int64[len]."""
        return np.array([self.number(path) for path in partition_paths], np.int64)


def route(
    partition_numbers: npt.NDArray[np.int64],
    bucket_ids: npt.NDArray[np.int32],
    buckets: int | npt.NDArray[np.int32],
    tasks: int,
) -> npt.NDArray[np.int32]:
    """Task of each (partition, bucket), int32[n] in 0..tasks-1; the arrays have length n. `buckets`: the bucket count
    of all partitions, or of each place's one. Spans of buckets are routed in the same way, by their number and count.

    A partition's buckets go round robin, and each partition starts where the one before it ended, so partitions with
    few buckets do not pile up on the first tasks. With known partitions of one bucket count, the tasks' numbers of file
    groups differ by at most one.
    """
    counts = np.asarray(buckets, np.int64)
    if tasks < 1 or (counts.size and counts.min() < 1):
        raise ValueError(f"buckets and tasks must be at least 1, are {buckets} and {tasks}")
    # Numbers are below 2^33 and bucket counts below 2^27, so the product fits 63 bits.
    return ((partition_numbers * counts + bucket_ids) % np.int64(tasks)).astype(np.int32)
