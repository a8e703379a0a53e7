"""Merges of file groups beside a job's other table services: what it asks for at each look, and what became of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.table.file_view import Group
from bucketingest.services.compaction.propose import TableNow
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.regroup.choose import MergeTriggers
from bucketingest.services.regroup.execute import make_base_files
from bucketingest.services.regroup.holder import MergeHolder
from bucketingest.services.regroup.propose import MergeLook, propose_merge
from bucketingest.services.regroup.records import MergeEnd, MergeEnded, MergePlan
from bucketingest.storage import Storage

log = logging.getLogger(__name__)

_SIZE_MAX: Final = 1024**3
"""Bytes that one merge reads: a minute's work. What an update meets meanwhile is not merged."""
_SIZE_MIN: Final = 16 * 1024**2
_REST: Final = timedelta(minutes=15)
"""Time for which file groups are left alone that were written to while they were merged, or could not be."""


@dataclass(frozen=True, slots=True)
class MergeWish:
    """What a look at the table should find."""

    triggers: MergeTriggers
    resting: frozenset[Group] = frozenset()
    size_max: int = _SIZE_MAX

    def look(self, storage: Storage, found: TableNow) -> MergeLook:
        """Look; raises as `propose_merge`."""
        return propose_merge(storage, found, self.triggers, resting=self.resting, size_max=self.size_max)


@dataclass(frozen=True, slots=True)
class Made:
    """The answer to `MakeBaseFiles`."""

    number: int


@dataclass(frozen=True, slots=True)
class MakeBaseFiles:
    """Make the base files of a planned merge."""

    storage: Storage
    number: int

    def run(self, _: Callable[[int, int], None]) -> Made:
        """Carry the request out."""
        make_base_files(self.storage, self.number)
        return Made(self.number)


@dataclass(slots=True)
class InlineMerges:
    """The merges of a running job, one at a time. Not used by two threads."""

    storage: Storage
    holder: MergeHolder
    triggers: MergeTriggers
    forward: Callable[[], float] = forward_seconds
    _resting: dict[Group, float] = field(default_factory=dict)
    _size_max: int = _SIZE_MAX

    def wish(self) -> MergeWish:
        """For the next look."""
        since = self.forward() - _REST.total_seconds()
        self._resting = {group: at for group, at in self._resting.items() if at > since}
        return MergeWish(self.triggers, frozenset(self._resting), self._size_max)

    def begin(self, plan: MergePlan) -> MakeBaseFiles | None:
        """Plan the merge; what must be done first. None: something came between."""
        try:
            number = self.holder.begin(plan)
        except PlanOutdated as error:
            log.info("file groups not merged", extra={"reason": str(error)})
            return None
        extra = {"instant": plan.instant, "file_groups": len(plan.replaced), "new_file_groups": len(plan.new_groups)}
        log.info("merging file groups", extra={**extra, "bytes": plan.size})
        return MakeBaseFiles(self.storage, number)

    def end(self, made: Made) -> MergeEnded:
        """Commit it. Raises as `MergeHolder.commit`."""
        ended = self.holder.commit(made.number)
        self._learn(ended)
        return ended

    def settle(self) -> None:
        """End the merge whose base files were not made: no process of this job makes them any more. Raises as
        `MergeHolder.settle`.
        """
        ended = self.holder.settle(maker_has_ended=True)
        if ended is not None:
            self._learn(ended)

    def _learn(self, ended: MergeEnded) -> None:
        self._resting |= dict.fromkeys(ended.kept, self.forward())
        # A shorter merge meets fewer updates.
        interrupted = bool(ended.kept) or ended.end is MergeEnd.VOID
        self._size_max = max(self._size_max // 2, _SIZE_MIN) if interrupted else min(self._size_max * 2, _SIZE_MAX)
