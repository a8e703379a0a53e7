"""Clusterings beside a job's other table services: what it asks for at each look, and what became of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.table.file_view import Group
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.clustering.execute import ClusteringExecutor
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.propose import ClusteringLook, propose_clustering
from bucketingest.services.clustering.records import ClusteringEnded, ClusteringPlan
from bucketingest.services.compaction.propose import TableNow
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.protocol.records import End
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

_SIZE_MAX: Final = 1024**3
"""Bytes that one clustering reads: a minute's work. What an update meets meanwhile is not merged."""
_SIZE_MIN: Final = 16 * 1024**2
_REST: Final = timedelta(minutes=15)
"""Time for which file groups are left alone that were written to while they were merged, or could not be."""


@dataclass(frozen=True, slots=True)
class ClusteringWish:
    """What a look at the table should find."""

    triggers: ClusteringTriggers
    resting: frozenset[Group] = frozenset()
    size_max: int = _SIZE_MAX

    def look(self, storage: Storage, found: TableNow) -> ClusteringLook:
        """Look; raises as `propose_clustering`."""
        return propose_clustering(storage, found, self.triggers, resting=self.resting, size_max=self.size_max)


@dataclass(frozen=True, slots=True)
class Made:
    """The answer to `MakeBaseFiles`."""

    number: int


@dataclass(frozen=True, slots=True)
class MakeBaseFiles:
    """Make the base files of a planned clustering."""

    storage: Storage
    number: int

    def run(self, _: Callable[[int, int], None]) -> Made:
        """Carry the request out."""
        ClusteringExecutor(self.storage, self.number).run()
        return Made(self.number)


@dataclass(slots=True)
class InlineClustering:
    """The clusterings of a running job, one at a time. Not used by two threads."""

    storage: Storage
    holder: ClusteringHolder
    triggers: ClusteringTriggers
    forward: Callable[[], float] = forward_seconds
    _resting: dict[Group, float] = field(default_factory=dict)
    _size_max: int = _SIZE_MAX

    def wish(self) -> ClusteringWish:
        """For the next look."""
        since = self.forward() - _REST.total_seconds()
        self._resting = {group: at for group, at in self._resting.items() if at > since}
        return ClusteringWish(self.triggers, frozenset(self._resting), self._size_max)

    def begin(self, plan: ClusteringPlan) -> MakeBaseFiles | None:
        """Plan the clustering; what must be done first. None: something came between."""
        try:
            number = self.holder.begin(plan)
        except PlanOutdated as error:
            log.info("clustering not begun", extra={"reason": str(error)})
            return None
        extra = {"instant": plan.instant, "file_groups": len(plan.replaced), "new_file_groups": len(plan.new_groups)}
        log.info("clustering", extra={**extra, "bytes": plan.size})
        return MakeBaseFiles(self.storage, number)

    def end(self, made: Made) -> ClusteringEnded:
        """Commit it. Raises as `ClusteringHolder.commit`."""
        ended = self.holder.commit(made.number)
        self._learn(ended)
        return ended

    def settle(self) -> None:
        """End the clustering whose base files were not made: no process of this job makes them any more. Raises as
        `ClusteringHolder.settle`.
        """
        ended = self.holder.settle(maker_has_ended=True)
        if ended is not None:
            self._learn(ended)

    def _learn(self, ended: ClusteringEnded) -> None:
        self._resting |= dict.fromkeys(ended.kept, self.forward())
        # A shorter clustering meets fewer updates.
        interrupted = bool(ended.kept) or ended.end is End.VOID
        self._size_max = max(self._size_max // 2, _SIZE_MIN) if interrupted else min(self._size_max * 2, _SIZE_MAX)
