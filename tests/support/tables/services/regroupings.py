"""Merges of small file groups of tables in memory, from the plan to the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime

from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compaction.propose import TableNow
from bucketingest.services.regroup.choose import MergeTriggers
from bucketingest.services.regroup.execute import make_base_files
from bucketingest.services.regroup.holder import MergeHolder
from bucketingest.services.regroup.propose import propose_merge
from bucketingest.services.regroup.records import MergeEnded, MergePlan
from bucketingest.storage import Storage

PAIRS = MergeTriggers(target_bytes=10 * 1024**2, small_percent=50, min_groups=2)
"""Two small file groups of a partition are enough."""


def merge_holder(storage: Storage, clock: Callable[[], datetime] = utc_now) -> MergeHolder:
    return MergeHolder(storage, nullcontext, lambda: None, clock=clock)


def planned(storage: Storage, triggers: MergeTriggers = PAIRS) -> MergePlan | None:
    """What is due."""
    found = TableNow.load(storage)
    return None if found is None else propose_merge(storage, found, triggers, size_max=1024**3).plan


def made(storage: Storage, triggers: MergeTriggers = PAIRS) -> tuple[MergeHolder, int]:
    """A merge whose base files are made, and not committed."""
    plan = planned(storage, triggers)
    assert plan is not None, "nothing is due"
    holder = merge_holder(storage)
    number = holder.begin(plan)
    make_base_files(storage, number)
    return holder, number


def merge_groups(storage: Storage, triggers: MergeTriggers = PAIRS) -> MergeEnded:
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
