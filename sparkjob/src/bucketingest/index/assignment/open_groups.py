"""Decides which file groups of a partition take new keys, and which share of them each takes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bucketingest.hudi.table.table import InsertMode


@dataclass(frozen=True, slots=True)
class PartitionProfile:
    """One partition."""

    recent_rows: int = 0
    """Rows that the last micro-batches wrote to it: only the partitions' proportions count."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """File id to bytes of the newest slice. Without groups that must take no new keys: those in a pending compaction or
    clustering, and replaced ones.
    """


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """A table."""

    partitions: Mapping[str, PartitionProfile]
    """By partition path: those of the last micro-batches, and others that have groups with room."""
    insert_bytes: int
    """Bytes on storage that the micro-batch's new keys are expected to take, in all partitions."""

    def share(self, partition_path: str) -> tuple[int, int]:
        """The partition's share of the rows, as a fraction of integers: the numerator, the denominator."""
        total = sum(each.recent_rows for each in self.partitions.values())
        return self.partitions[partition_path].recent_rows, max(total, 1)

    def expected_bytes(self, partition_path: str) -> int:
        """Bytes of the partition's new keys."""
        rows, total = self.share(partition_path)
        return self.insert_bytes * rows // total


HASHES: Final = 1 << 64
"""So many hashes are divided among the groups."""
UNKNOWN_PARTITION_GROUPS_MAX: Final = 8
GROUPS_MAX: Final = 4096
"""Open groups of a partition, whatever is expected."""
_FULL_PERCENT: Final = 90
"""A file group of this part of the target takes no more keys."""
_OVER_PERCENT: Final = 115
_ERROR_PERCENT: Final = 25
"""If a partition gets so much more than expected, its groups still stay below that part of the target."""
_LEAST_SHARE: Final[dict[InsertMode, int]] = {"base": 4, "log": 16}
"""No group is opened for less than this fraction of the target: in mode base, no smaller base file is made."""

NewFileId: TypeAlias = Callable[[str, int], str]
"""The id of a partition's new file group with this number."""


@dataclass(frozen=True, slots=True)
class InsertRules:
    """What the spec says."""

    mode: InsertMode
    target_bytes: int
    """The size that a file group should get."""
    tasks: int
    """Write tasks."""


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A file group that takes the new keys whose hash is at least `first`, and less than the next group's."""

    file_id: str
    first: int


def open_groups(
    profile: WriteProfile, partition_path: str, rules: InsertRules, new_file_id: NewFileId
) -> tuple[OpenGroup, ...]:
    """The open groups of a known partition, by their hashes; at least one.

    All partitions together have at most `tasks` + partitions, if these have room for what they get. Else a partition
    has more: one task can write several groups, one after the other. Mode log: the fullest groups that are not full,
    then new ones, each in proportion to its room.
    """
    wanted = profile.expected_bytes(partition_path)
    rows, total = profile.share(partition_path)
    slots = min(max(rows * rules.tasks // total, 1), rules.tasks)
    slots = min(slots, max(1, -(-wanted * _LEAST_SHARE[rules.mode] // rules.target_bytes)))
    chosen = _Chosen(rules, wanted, slots)
    if rules.mode == "log":
        full = rules.target_bytes * _FULL_PERCENT // 100
        groups = profile.partitions[partition_path].groups
        fullest = sorted((-size, file_id) for file_id, size in groups.items() if size < full)
        for size, file_id in fullest:
            if chosen.enough:
                break
            chosen.add(file_id, rules.target_bytes + size)
    number = 0
    while not chosen.enough:
        chosen.add(new_file_id(partition_path, number), rules.target_bytes)
        number += 1
    return ranges(chosen.rooms)


def unknown_partition_groups(active_partitions: int, tasks: int) -> int:
    """How many open groups a partition has that no micro-batch wrote to before."""
    return min(UNKNOWN_PARTITION_GROUPS_MAX, tasks) if active_partitions <= UNKNOWN_PARTITION_GROUPS_MAX else 1


def ranges(rooms: Sequence[tuple[str, int]]) -> tuple[OpenGroup, ...]:
    """The hashes divided in proportion to the room, in bytes, of each of these file ids."""
    total = sum(room for _, room in rooms)
    found, before = [], 0
    for file_id, room in rooms:
        found.append(OpenGroup(file_id, HASHES * before // total))
        before += room
    return tuple(found)


@dataclass(slots=True)
class _Chosen:
    """The groups chosen so far, with their room in bytes."""

    rules: InsertRules
    wanted: int
    slots: int
    rooms: list[tuple[str, int]] = field(default_factory=list)
    total: int = 0
    largest: int = 0

    def add(self, file_id: str, room: int) -> None:
        """One more."""
        self.rooms.append((file_id, room))
        self.total += room
        self.largest = max(self.largest, room)

    @property
    def enough(self) -> bool:
        """Whether they are as many as wanted, and none of them grows too far: each gets bytes in proportion to its
        room, so the one with most room decides.
        """
        if len(self.rooms) < self.slots:
            return False
        added = self.wanted * (100 + _ERROR_PERCENT) * self.largest
        over = (_OVER_PERCENT - 100) * self.rules.target_bytes
        return added <= self.total * (100 * self.largest + over) or len(self.rooms) >= GROUPS_MAX
