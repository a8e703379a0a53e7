"""Proposes a merge of small file groups: plans what is due on a table that was looked at. Nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.table.schema import schema_json
from bucketingest.index.state.store import keeps_state
from bucketingest.services.compaction.propose import TableNow
from bucketingest.services.regroup.choose import MergeTriggers, Small, due_merges, small_groups
from bucketingest.services.regroup.records import MergedSlice, MergePlan, NewGroup
from bucketingest.storage import Storage

_BEHIND: Final = timedelta(seconds=1)
"""A merge has its time before it is on the timeline: instants that begin later take later ones."""


@dataclass(frozen=True, slots=True)
class SmallGroups:
    """How many file groups are small."""

    groups: int = 0
    size: int = 0
    """Their bytes."""
    most: int = 0
    """Of one partition."""


@dataclass(frozen=True, slots=True)
class MergeLook:
    """What a look at the table found."""

    small: SmallGroups
    plan: MergePlan | None
    """The merge that is due; None if nothing is."""


def count_small(found: TableNow, triggers: MergeTriggers) -> SmallGroups:
    """The small file groups that may be merged."""
    counted = small_groups(found.view, found.busy, triggers).values()
    sizes = [[each.files.size for each in groups] for groups in counted]
    return SmallGroups(sum(map(len, sizes)), sum(map(sum, sizes)), max(map(len, sizes), default=0))


def propose_merge(
    storage: Storage,
    found: TableNow,
    triggers: MergeTriggers,
    now: datetime,
    *,
    resting: Collection[Group] = (),
    size_max: int,
) -> MergeLook:
    """Plan the merge that is due. `resting`: file groups that are left as they are; `size_max`: bytes to merge.

    Only a table whose keys are looked up in a state: a bucket has one file group. Raises ClockError, and what reading a
    table raises.
    """
    if not keeps_state(found.table):
        return MergeLook(SmallGroups(), None)
    due = due_merges(found.view, found.busy.union(resting), triggers, size_max)
    small = count_small(found, triggers)
    if not due:
        return MergeLook(small, None)
    new_groups = tuple(_new_group(each) for each in due)
    instant = found.next_time(storage, now, _BEHIND)
    plan = MergePlan(instant, schema_json(found.schema), found.known, found.timeline.first_active, new_groups)
    return MergeLook(small, plan)


def _new_group(merged: tuple[Small, ...]) -> NewGroup:
    slices = tuple(
        MergedSlice(
            each.file_id,
            None if each.files.base_file is None else str(each.files.base_file.name),
            tuple(str(log.name) for log in each.files.log_files),
            each.files.size,
        )
        for each in merged
    )
    return NewGroup(merged[0].partition_path, f"{uuid.uuid4()}-0", slices)
