"""Clusterings of tables in memory, from the plan to the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clustering.choose import ClusteringTriggers
from bucketingest.services.clustering.execute import ClusteringExecutor
from bucketingest.services.clustering.holder import ClusteringHolder
from bucketingest.services.clustering.propose import propose_clustering
from bucketingest.services.clustering.records import ClusteringEnded, ClusteringPlan
from bucketingest.services.compaction.propose import TableNow
from bucketingest.storage import Storage

PAIRS = ClusteringTriggers(target_bytes=10 * 1024**2, small_percent=50, min_groups=2)
"""Two small file groups of a partition are enough."""


def clustering_holder(storage: Storage, clock: Callable[[], datetime] = utc_now) -> ClusteringHolder:
    return ClusteringHolder(storage, nullcontext, lambda: None, clock=clock)


def planned(storage: Storage, triggers: ClusteringTriggers = PAIRS) -> ClusteringPlan | None:
    """What is due."""
    found = TableNow.load(storage)
    return None if found is None else propose_clustering(storage, found, triggers, size_max=1024**3).plan


def made(storage: Storage, triggers: ClusteringTriggers = PAIRS) -> tuple[ClusteringHolder, int]:
    """A merge whose base files are made, and not committed."""
    plan = planned(storage, triggers)
    assert plan is not None, "nothing is due"
    holder = clustering_holder(storage)
    number = holder.begin(plan)
    ClusteringExecutor(storage, number).run()
    return holder, number


def cluster(storage: Storage, triggers: ClusteringTriggers = PAIRS) -> ClusteringEnded:
    """Plan, make and commit."""
    holder, number = made(storage, triggers)
    return holder.commit(number)


def current_groups(storage: Storage) -> dict[str, set[str]]:
    """Partition path -> file ids that readers read."""
    timeline = Timeline.load(storage)
    replaced = replaced_file_groups(storage, timeline)
    found: dict[str, set[str]] = {}
    for group in load_file_view(storage, timeline).groups:
        if group.latest is not None and (group.partition_path, group.file_id) not in replaced:
            found.setdefault(group.partition_path, set()).add(group.file_id)
    return found
