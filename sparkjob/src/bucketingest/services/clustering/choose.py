"""Which small file groups become one now. Pure.

An index with a state puts new keys into new file groups, so each micro-batch leaves a small one in each partition that
it writes. Groups of about the same size are merged, the smallest first: a row is written again only a few times until
its group is large.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bucketingest.hudi.table.file_view import FileGroup, FileSlice, FileView, Group

_GROWTH: Final = 2
"""A group joins smaller ones if it has at most so many times their bytes together."""
_LEAST_PART: Final = 256
"""Of the target: smaller groups count as so large, as each of them costs a reader a request, whatever its size."""
_OVER_PERCENT: Final = 115
"""Of the target: so large may a merged group become."""
SIZE_MAX: Final = 1024**3
"""Bytes of a merged group: what takes longer to merge meets more updates."""
OUTPUTS_MAX: Final = 32
"""New groups of one clustering: its commit looks at each of them while it holds the lock."""
INPUTS_MAX: Final = 2_000
"""File groups of one clustering."""
LOG_FILES_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class ClusteringTriggers:
    """When groups of a partition are small, and when there are enough of them."""

    target_bytes: int
    """The size that a file group should get."""
    small_percent: int = 50
    """A group with less than this part of the target is small."""
    min_groups: int = 10
    """So many of about the same size are merged. Fewer are if together they fill a group."""

    @property
    def size(self) -> int:
        """Bytes of a merged group."""
        return min(self.target_bytes, SIZE_MAX)

    @property
    def small_below(self) -> int:
        """A group with fewer bytes is small."""
        return self.size * self.small_percent // 100


@dataclass(frozen=True, slots=True)
class Small:
    """A small file group, and its newest slice."""

    partition_path: str
    file_id: str
    files: FileSlice

    @property
    def group(self) -> Group:
        """Its place."""
        return self.partition_path, self.file_id


def small_groups(view: FileView, busy: Collection[Group], triggers: ClusteringTriggers) -> dict[str, list[Small]]:
    """The small groups of each partition that has some, by size. `busy`: replaced, or in a pending table service."""
    found: dict[str, list[Small]] = {}
    for group in view.groups:
        latest = _mergeable(group)
        if latest is None or (group.partition_path, group.file_id) in busy or latest.size >= triggers.small_below:
            continue
        found.setdefault(group.partition_path, []).append(Small(group.partition_path, group.file_id, latest))
    for groups in found.values():
        groups.sort(key=lambda each: (each.files.size, each.file_id))
    return found


def due_clustering(
    view: FileView, busy: Collection[Group], triggers: ClusteringTriggers, size_max: int
) -> tuple[tuple[Small, ...], ...]:
    """The groups of each merged group, those with the most groups first; all together at most `size_max` bytes, but for
    the first.
    """
    due = [each for groups in small_groups(view, busy, triggers).values() for each in _due(groups, triggers)]
    due.sort(key=lambda each: (-len(each), each[0].group))
    return tuple(_limited(due, size_max))


def _mergeable(group: FileGroup) -> FileSlice | None:
    """A group with a file of an instant that has not completed is being written to."""
    return None if group.uncommitted else group.latest


def _due(groups: Sequence[Small], triggers: ClusteringTriggers) -> Iterator[tuple[Small, ...]]:
    for tier in _tiers(groups, triggers):
        for merged, is_full in _cut(tier, triggers):
            if len(merged) >= (2 if is_full else triggers.min_groups):
                yield merged


def _tiers(groups: Sequence[Small], triggers: ClusteringTriggers) -> Iterator[list[Small]]:
    """Groups by size, cut where one is much larger than all smaller ones of its tier together."""
    least = max(1, triggers.size // _LEAST_PART)
    tier: list[Small] = []
    total = 0
    for each in groups:
        size = max(each.files.size, least)
        if tier and size > _GROWTH * total:
            yield tier
            tier, total = [], 0
        tier.append(each)
        total += size
    if tier:
        yield tier


def _cut(tier: Sequence[Small], triggers: ClusteringTriggers) -> Iterator[tuple[tuple[Small, ...], bool]]:
    """The groups of each merged group, and whether it reaches the target or has no room for the next one."""
    part: list[Small] = []
    total = 0
    for each in tier:
        if part and ((total + each.files.size) * 100 > triggers.size * _OVER_PERCENT or len(part) >= INPUTS_MAX):
            yield tuple(part), True
            part, total = [], 0
        part.append(each)
        total += each.files.size
    if part:
        yield tuple(part), total >= triggers.size


def _limited(due: Sequence[tuple[Small, ...]], size_max: int) -> Iterator[tuple[Small, ...]]:
    size = inputs = log_files = 0
    for count, merged in enumerate(due):
        size += sum(each.files.size for each in merged)
        inputs += len(merged)
        log_files += sum(len(each.files.log_files) for each in merged)
        if count and (size > size_max or inputs > INPUTS_MAX or log_files > LOG_FILES_MAX or count >= OUTPUTS_MAX):
            return
        yield merged
