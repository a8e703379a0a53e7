"""Proposes a clustering: plans what is due on a table that was looked at. Nothing is written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from bucketingest.hudi.damage.compare import Damaged
from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.table.schema import schema_json
from bucketingest.hudi.timeline.instant_time import format_time, newest_time, parse_time
from bucketingest.index.assignment.plan import new_file_id
from bucketingest.index.state.store import keeps_state
from bucketingest.services.clustering.choose import ClusteringTriggers, Small, due_clustering, small_groups
from bucketingest.services.clustering.records import ClusteredSlice, ClusteringJournal, ClusteringPlan, NewGroup
from bucketingest.services.compaction.propose import TableNow, claimed
from bucketingest.storage import Storage

_MILLISECOND: Final = timedelta(milliseconds=1)
_TRIES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class SmallGroups:
    """How many file groups are small."""

    groups: int = 0
    size: int = 0
    """Their bytes."""
    most: int = 0
    """Of one partition."""


@dataclass(frozen=True, slots=True)
class ClusteringLook:
    """What a look at the table found."""

    small: SmallGroups
    plan: ClusteringPlan | None
    """The clustering that is due; None if nothing is."""
    damaged: tuple[Damaged, ...] = ()
    """Files that small file groups lack: these are not merged."""


def count_small(found: TableNow, triggers: ClusteringTriggers) -> SmallGroups:
    """The small file groups that may be merged."""
    counted = small_groups(found.view, found.busy, triggers).values()
    sizes = [[each.files.size for each in groups] for groups in counted]
    return SmallGroups(sum(map(len, sizes)), sum(map(sum, sizes)), max(map(len, sizes), default=0))


def propose_clustering(
    storage: Storage,
    found: TableNow,
    triggers: ClusteringTriggers,
    *,
    resting: Collection[Group] = (),
    size_max: int,
) -> ClusteringLook:
    """Plan the clustering that is due. `resting`: file groups that are left as they are; `size_max`: bytes to merge.

    Only a table whose keys are looked up in a state: a bucket has one file group. Raises NewerFormat, and what reading
    a table raises.
    """
    if not keeps_state(found.table):
        return ClusteringLook(SmallGroups(), None)
    busy, small = found.busy.union(resting), count_small(found, triggers)
    due = due_clustering(found.view, busy, triggers, size_max)
    times = _times(storage, found) if due else None
    if times is None:
        return ClusteringLook(small, None)
    groups = {each.group for merged in due for each in merged}
    damaged = found.damage(groups)
    if damaged:  # a clustering would make the loss final
        others = due_clustering(found.view, busy.union(each.group for each in damaged), triggers, size_max)
        due = tuple(merged for merged in others if groups.issuperset(each.group for each in merged))
    if not due:
        return ClusteringLook(small, None, damaged)
    new_groups = tuple(_new_group(each, times[0], number) for number, each in enumerate(due))
    plan = ClusteringPlan(*times, schema_json(found.schema), found.known, found.timeline.first_active, new_groups)
    return ClusteringLook(small, plan, damaged)


def _times(storage: Storage, found: TableNow) -> tuple[str, str] | None:
    used = found.times(storage, claimed(storage)) | rollback_targets(storage, found.timeline)
    completed = {each.completion_time or "" for each in found.timeline.completed_commits}
    return free_times(found.timeline.first_active, used, completed, newest_clustering(storage))


def free_times(
    first_active: str | None, times: Collection[str], completed: Collection[str], before: str | None
) -> tuple[str, str] | None:
    """Request and completion time of a clustering. The request time is unused, and before the newest one that is known,
    so that no instant that begins while the clustering is not on the timeline can take it; the completion time is the
    newest one. None: wait for the next instant. Pure.

    `completed`: completion times of the writes; none of them is between the two ([rules](docs/exactly-once.md)). Nor is
    an older clustering's time, whose files may come late: `before` is that of the newest. `first_active`: older ones
    count as archived.
    """
    newest = newest_time(times)
    if newest is None or first_active is None:
        return None
    least = max(first_active, before or "", *(time for time in completed if time < newest))
    for back in range(1, _TRIES_MAX):
        time = format_time(parse_time(newest) - back * _MILLISECOND)
        if time <= least:
            return None
        if time not in times:
            return time, newest
    return None


def newest_clustering(storage: Storage) -> str | None:
    """Request time of the newest clustering; None before the first. Raises NewerFormat and InvalidTable."""
    journal = ClusteringJournal(storage)
    plans = (journal.plan(number) for number in reversed(journal.numbers()))
    return next((plan.instant for plan in plans if plan is not None), None)


def _new_group(merged: tuple[Small, ...], instant: str, number: int) -> NewGroup:
    partition_path = merged[0].partition_path
    slices = tuple(
        ClusteredSlice(
            each.file_id,
            None if each.files.base_file is None else str(each.files.base_file.name),
            tuple(str(log.name) for log in each.files.log_files),
            each.files.size,
        )
        for each in merged
    )
    return NewGroup(partition_path, new_file_id("merge", instant, 0, partition_path, number), slices)
