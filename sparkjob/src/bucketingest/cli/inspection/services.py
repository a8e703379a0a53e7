"""What table services have left to do: log files that no compaction has merged, pending plans, what is due."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from bucketingest.cli.inspection.layout import current_groups
from bucketingest.cli.inspection.report import (
    ArchivePin,
    DueServices,
    PendingPlan,
    ServicesReport,
    SmallFileGroups,
    UnmergedGroup,
)
from bucketingest.cli.inspection.snapshot import TableSnapshot
from bucketingest.errors import BucketIngestError
from bucketingest.hudi.damage.compare import Damaged
from bucketingest.hudi.plans.clean_plan import read_clean_plan
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.table.file_view import FileGroup, Group
from bucketingest.hudi.table.table import StateRules
from bucketingest.hudi.timeline.instant import CLEAN, COMPACTION, LOG_COMPACTION
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.services.archive.choose import ArchiveRules, Held, old_writes
from bucketingest.services.clean.choose import DEFAULT_RETENTION, Retention, choose
from bucketingest.services.clean.facts import load_clean_facts
from bucketingest.services.clean_and_archive import archive_plan
from bucketingest.services.clustering.choose import ClusteringTriggers, due_clustering, small_groups
from bucketingest.services.compaction.choose import CompactionTriggers, due_groups
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.records import OURS
from bucketingest.storage import Storage

OLDEST_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Rules:
    """When a service is due: those of a resource, or the defaults."""

    triggers: CompactionTriggers = field(default_factory=CompactionTriggers)
    retention: Retention = DEFAULT_RETENTION
    archive: ArchiveRules = field(default_factory=ArchiveRules)
    clustering: ClusteringTriggers = field(default_factory=lambda: ClusteringTriggers(StateRules().target_bytes))
    clusters: bool = False
    """Whether small file groups are merged at all."""


def services_report(storage: Storage, snapshot: TableSnapshot, rules: Rules) -> ServicesReport:
    """The report: from the snapshot's listing, a file for each pending plan, and what the choice of a clean opens.

    Raises what storage raises. Plans that cannot be read are reported.
    """
    groups = current_groups(snapshot.view, snapshot.replaced)
    unmerged = [_unmerged(each, snapshot) for each in groups if each.slices[-1].log_files]
    unmerged.sort(key=lambda each: (-each.oldest_log_age, each.partition_path, each.file_id))
    commits = snapshot.timeline.completed_commits
    bases = (each.slices[-1].base_file for each in groups)
    return ServicesReport(
        unmerged_groups=len(unmerged),
        without_base=sum(each.base_bytes is None for each in unmerged),
        log_files=sum(each.log_files for each in unmerged),
        log_bytes=sum(each.log_bytes for each in unmerged),
        base_bytes=sum(each.size for each in bases if each is not None),
        snapshot_age=_age(commits[-1].completion_time or "", snapshot) if commits else None,
        read_optimized_age=unmerged[0].oldest_log_age if unmerged else None,
        oldest=tuple(unmerged[:OLDEST_SHOWN]),
        pending=tuple(_pending(storage, snapshot)),
        due=_due(storage, snapshot, rules),
    )


def _unmerged(group: FileGroup, snapshot: TableSnapshot) -> UnmergedGroup:
    latest = group.slices[-1]
    return UnmergedGroup(
        partition_path=group.partition_path,
        file_id=group.file_id,
        log_files=len(latest.log_files),
        log_bytes=sum(each.size for each in latest.log_files),
        base_bytes=None if latest.base_file is None else latest.base_file.size,
        oldest_log_age=_age(min(each.instant for each in latest.log_files), snapshot),
    )


def _age(time: str, snapshot: TableSnapshot) -> float:
    return max(0.0, (snapshot.now + snapshot.zone_offset - parse_time(time)).total_seconds())


def _pending(storage: Storage, snapshot: TableSnapshot) -> Iterator[PendingPlan]:
    for instant in snapshot.timeline.pending:
        if instant.action not in (COMPACTION, LOG_COMPACTION, CLEAN):
            continue
        file_groups = files = None
        is_ours = False
        try:
            if instant.action == CLEAN:
                clean = read_clean_plan(storage, instant.request_time)
                files = None if clean is None else sum(map(len, clean.files.values()))
            else:
                plan = read_compaction_plan(storage, instant.request_time, instant.action)
                file_groups = None if plan is None else len(plan.operations)
                is_ours = plan is not None and OURS in plan.extra
        except BucketIngestError:  # archived, completed or damaged since the listing
            pass
        by = "bucketingest" if is_ours else "unknown" if instant.action == CLEAN else "another writer"
        yield PendingPlan(
            instant.request_time, instant.action, _age(instant.request_time, snapshot), file_groups, files, by
        )


def _due(storage: Storage, snapshot: TableSnapshot, rules: Rules) -> DueServices:
    now, timeline = snapshot.now + snapshot.zone_offset, snapshot.timeline
    unknown: list[str] = []
    pins: tuple[ArchivePin, ...] = ()
    compaction = clean = None
    busy: set[Group] | None = None
    try:
        busy = {*snapshot.replaced, *snapshot.damage.groups, *_in_plans(storage, snapshot)}
        compaction = len(due_groups(snapshot.view, busy, rules.triggers, now)[0])
    except BucketIngestError as error:
        unknown.append(f"compaction: {error}")
    try:
        _, facts = load_clean_facts(storage)
        plan = choose(snapshot.view, timeline, facts, rules.retention, now).plan
        clean = 0 if plan is None else sum(map(len, plan.files.values()))
    except BucketIngestError as error:
        unknown.append(f"clean: {error}")
    old = old_writes(timeline, rules.archive, now, Held())
    try:
        pins = _pins(storage, rules.archive, now, snapshot.damage.damaged) if old else ()
    except BucketIngestError as error:
        unknown.append(f"archive: {error}")
    return DueServices(
        compaction_file_groups=compaction,
        clean_files=clean,
        archive_instants=len(old),
        archive_pins=pins,
        log_age=rules.triggers.log_age.total_seconds(),
        log_files=rules.triggers.log_files,
        log_ratio=rules.triggers.log_ratio,
        retain=None if (retain := rules.retention.retain) is None else retain.total_seconds(),
        versions=rules.retention.versions,
        small_groups=_small(snapshot, busy, rules) if snapshot.has_state else None,
        unknown=tuple(unknown),
    )


def _pins(storage: Storage, rules: ArchiveRules, now: datetime, damaged: tuple[Damaged, ...]) -> tuple[ArchivePin, ...]:
    found = archive_plan(Guarded(storage, nullcontext, lambda: None, lambda: now), rules, damaged).pins
    return tuple(ArchivePin(each.instant, each.why, each.first_kept) for each in found)


def _small(snapshot: TableSnapshot, busy: set[Group] | None, rules: Rules) -> SmallFileGroups:
    limit = rules.clustering.small_below
    if busy is None:
        return SmallFileGroups(None, 0, 0, 0, limit, rules.clusters)
    found = small_groups(snapshot.view, busy, rules.clustering)
    due = due_clustering(snapshot.view, busy, rules.clustering, sys.maxsize)
    return SmallFileGroups(
        groups=sum(map(len, found.values())),
        size=sum(each.files.size for groups in found.values() for each in groups),
        most=max(map(len, found.values()), default=0),
        due=sum(map(len, due)),
        limit=limit,
        merged=rules.clusters,
    )


def _in_plans(storage: Storage, snapshot: TableSnapshot) -> Iterator[Group]:
    """File groups that a pending compaction merges."""
    for instant in snapshot.timeline.pending:
        if instant.action in (COMPACTION, LOG_COMPACTION):
            plan = read_compaction_plan(storage, instant.request_time, instant.action)
            yield from (operation.group for operation in plan.operations) if plan is not None else ()
