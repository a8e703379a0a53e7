"""The table as this attempt knows it, while other writers work on it too: their file groups are learnt, and what they
take back is noticed.
"""

from __future__ import annotations

from collections.abc import Collection

from bucketingest.hudi.instant import ROLLBACK
from bucketingest.hudi.replaced import replaced_file_groups
from bucketingest.hudi.rollback import rollback_targets
from bucketingest.hudi.timeline import Timeline
from bucketingest.index.bucket import BucketIndex
from bucketingest.write.commit_content import written_file_groups
from bucketingest.write.errors import PositionLost
from bucketingest.write.opening import OpenTable


class SharedTable:
    """File groups and partitions of the completed instants, and which instants those were."""

    def __init__(self, opened: OpenTable) -> None:
        self._storage = opened.storage
        self._folded = opened.commits
        self._known = opened.commits
        self._rollbacks: frozenset[str] = frozenset()
        self.index: BucketIndex = opened.index
        """Every file group that a completed instant wrote."""
        self.partitions: set[str] = set(opened.partitions)
        """Partition paths that have their partition metadata."""

    def look(self) -> Timeline:
        """The timeline; what other writers have done up to now counts as known afterwards."""
        timeline = Timeline.load(self._storage)
        self._rollbacks = _rollback_times(timeline)
        self._known = frozenset(instant.request_time for instant in timeline.completed_commits)
        return timeline

    def check_taken_back(self, timeline: Timeline) -> None:
        """Raise PositionLost if another writer took completed instants back since the last `look`."""
        completed = frozenset(instant.request_time for instant in timeline.completed_commits)
        gone = {time for time in self._known - completed if not timeline.is_archived(time)}
        if _rollback_times(timeline) - self._rollbacks:
            gone |= rollback_targets(self._storage, timeline, self._rollbacks) & self._known
        if gone:
            raise PositionLost(
                f"{self._storage.url}: another writer took instants back that were completed: "
                f"{', '.join(sorted(gone))}; their rows are ingested again"
            )
        self._known = completed
        self._rollbacks = _rollback_times(timeline)

    def fold_in(self, timeline: Timeline) -> None:
        """Learn the file groups that other writers' instants made since the last look."""
        written = written_file_groups(self._storage, timeline, self._folded)
        replaced = replaced_file_groups(self._storage, timeline)
        self.index = self.index.without(replaced).with_commit(group for group in written if group not in replaced)
        self.index.check_replaced(replaced)
        self._folded = frozenset(instant.request_time for instant in timeline.completed_commits)

    def wrote(self, instant: str, file_groups: Collection[tuple[str, str]]) -> None:
        """An instant of ours is complete, with these (partition path, file id)."""
        self.index = self.index.with_commit(file_groups)
        self.partitions.update(partition_path for partition_path, _ in file_groups)
        self._folded |= {instant}
        self._known |= {instant}

    def rolled_back(self, rollback_time: str) -> None:
        """A rollback is our own."""
        self._rollbacks |= {rollback_time}


def _rollback_times(timeline: Timeline) -> frozenset[str]:
    return frozenset(instant.request_time for instant in timeline.instants if instant.action == ROLLBACK)
