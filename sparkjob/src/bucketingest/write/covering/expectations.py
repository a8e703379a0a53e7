"""What the last commits say of the next one: how many new keys to expect, and which file groups have room for them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from bucketingest.hudi.table.file_view import FileGroup
from bucketingest.hudi.table.table import StateRules
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.index.assignment.open_groups import PartitionProfile, WriteProfile
from bucketingest.write.covering.written_keys import inserts_of
from bucketingest.write.table_groups import Group

_PROFILED: Final = 3
"""Commits whose inserts say how many new keys to expect."""


@dataclass(slots=True)
class Expectations:
    """Of one table."""

    rules: StateRules
    _recent: deque[tuple[Counter[str], int]] = field(default_factory=lambda: deque(maxlen=_PROFILED))
    _rooms: dict[str, dict[str, int]] = field(default_factory=dict)
    """If new keys go into log files: bytes of file groups that are smaller than the target, by partition."""

    def note_commits(self, commits: Iterable[CommitMetadata]) -> None:
        """These were completed, in this order."""
        self._recent.extend(inserts_of(each) for each in commits if any(inserts_of(each)))

    def note_rooms(self, path: str, groups: Mapping[str, FileGroup]) -> None:
        """These are all file groups of a partition."""
        if self.rules.inserts == "base":
            return
        latest = {file_id: group.latest.size for file_id, group in groups.items() if group.latest is not None}
        self._rooms[path] = {file_id: size for file_id, size in latest.items() if size < self.rules.target_bytes}
        if not self._rooms[path]:
            del self._rooms[path]

    def profile(self, busy: Collection[Group]) -> WriteProfile:
        """`busy`: file groups that must take no new keys."""
        rows: Counter[str] = sum((by_partition for by_partition, _ in self._recent), Counter())
        expected = max((size for _, size in self._recent), default=0)
        rooms = {
            path: {file_id: size for file_id, size in sizes.items() if (path, file_id) not in busy}
            for path, sizes in self._rooms.items()
        }
        paths = [path for path in rooms.keys() | rows.keys() if rows[path] or rooms[path]]
        return WriteProfile({path: PartitionProfile(rows[path], rooms.get(path, {})) for path in paths}, expected)
