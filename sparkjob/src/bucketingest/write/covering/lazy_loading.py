"""Which partitions of a large table are left out of the state until a row of them comes: a start would read the keys of
years to look up those of today.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from bucketingest.hudi.table.file_view import FileView
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.write.table_groups import Group

EAGER_BYTES_MAX: Final = 1024**3
"""Bytes of data files that are not covered yet: up to so many are loaded at once, in seconds."""
RECENT_COMMITS: Final = 10
"""Partitions that these wrote to are loaded at the start."""
_MISSES_MAX: Final = 8
"""Micro-batches that may meet a partition that is not loaded: each is written twice. After these all are loaded."""


@dataclass(slots=True)
class LazyLoading:
    """The partitions that are left out. Every other one is loaded before a plan."""

    unloaded: frozenset[str] = frozenset()
    """Partition paths with keys that the state lacks."""
    wanted: frozenset[str] = frozenset()
    """Those of them that must be loaded now."""
    _misses: int = 0
    _again: bool = False
    """Whether the last micro-batch met one, too."""

    @property
    def left_out(self) -> frozenset[str]:
        """Partition paths that stay unloaded now."""
        return self.unloaded - self.wanted

    def choose(
        self, view: FileView, replaced: Collection[Group], loaded: Collection[str], recent: Collection[str]
    ) -> None:
        """After a listing of the whole table. `loaded`: the state has them; `recent`: rows of them are to be expected;
        `replaced`: file groups without readers.
        """
        sizes = {
            path: sum(
                group.latest.size
                for file_id, group in groups.items()
                if group.latest is not None and (path, file_id) not in replaced
            )
            for path, groups in view.partitions.items()
            if path not in loaded
        }
        later = {path: size for path, size in sizes.items() if size and path not in recent}
        few = sum(later.values()) <= EAGER_BYTES_MAX
        self.unloaded = frozenset() if few else frozenset(later)

    def want(self, partition_paths: Collection[str], *, everything: bool) -> None:
        """Rows of these came. All are loaded if that happens a second time in a row, or often: one task names only the
        partitions that it met first.
        """
        self._misses += 1
        everything = everything or self._again or self._misses > _MISSES_MAX
        self._again = True
        self.wanted |= self.unloaded if everything else self.unloaded.intersection(partition_paths)

    def met_none(self) -> None:
        """A micro-batch had rows of loaded and new partitions only."""
        self._again = False

    def loaded(self) -> None:
        """The wanted ones are in the state."""
        self.unloaded, self.wanted = self.left_out, frozenset()


def recent_partitions(commits: Sequence[CommitMetadata]) -> frozenset[str]:
    """Where the last commits wrote rows. `commits`: oldest first; table services do not count."""
    written = [each for each in commits if each.write_stats and not each.compacted]
    return frozenset(path for each in written[-RECENT_COMMITS:] for path in each.write_stats)
