"""Proposes a compaction: looks at the whole table, without the lock, and plans what is due. Nothing is written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self

from bucketingest.hudi.damage.compare import Damaged
from bucketingest.hudi.damage.look import look_for_damage
from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.hudi.history.archived import archived_completion_times, archived_times, hidden_writes
from bucketingest.hudi.merge.merge_rules import merge_rules
from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.plans.replaced import replaced_file_groups
from bucketingest.hudi.table.file_view import FileView, Group, load_file_view
from bucketingest.hudi.table.schema import AvroSchema, avro_to_arrow, schema_json, with_meta_columns
from bucketingest.hudi.table.table import HoodieTable, load_table
from bucketingest.hudi.timeline.instant import CLEAN, CLUSTERING, COMPACTION, DELTA_COMMIT, LOG_COMPACTION, SAVEPOINT
from bucketingest.hudi.timeline.instant_time import format_time, newest_time, next_instant_time, parse_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.compaction.choose import CompactionTriggers, Due, due_groups, plan_of
from bucketingest.services.compaction.records import PlanRecord
from bucketingest.services.errors import PlanOutdated
from bucketingest.services.merge.merge_group import MERGE_VERSION
from bucketingest.services.protocol.records import OURS
from bucketingest.storage import Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.taken_out import overtaken
from bucketingest.write.open_table import stored_schema
from bucketingest.write.pipeline_names import pipelines

log = logging.getLogger(__name__)

_BEHIND: Final = timedelta(seconds=60)
"""A compaction is requested so far in the past: a writer whose clock is behind may still complete before it."""
OPERATIONS_MAX: Final = 10_000
LOG_FILES_MAX: Final = 500_000
"""Most log files that one plan names: about 40 MB of it."""
_DO_NOT_COUNT: Final = (DELTA_COMMIT, CLEAN, SAVEPOINT)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan that may be requested if nothing came between."""

    record: PlanRecord
    due: tuple[Due, ...]
    left_out: int
    """Due file groups beyond the limits of one plan: they come next."""
    seen: frozenset[tuple[str, str]]
    """What `services_of` found."""

    def summary(self) -> dict[str, object]:
        """What an operator of the table wants to know of it."""
        oldest = max(self.due, key=lambda each: each.age)
        return {
            "compaction": self.record.compaction,
            "file_groups": self.record.operations,
            "left_for_later": self.left_out,
            "oldest_log_seconds": round(oldest.age.total_seconds()),
            "why": oldest.why,
        }

    def without_groups(self) -> Self:
        """With only the file group of the oldest log file: what the plan has anyhow need not be handed over twice."""
        return replace(self, due=(max(self.due, key=lambda each: each.age),))


@dataclass(frozen=True, slots=True)
class LogBacklog:
    """The log files of the latest file slices, which no compaction has merged. Sizes in bytes."""

    log_files: int = 0
    size: int = 0
    oldest_at: datetime | None = None
    """When the oldest instant with such a log file was requested; None without log files."""

    @classmethod
    def of(cls, view: FileView, replaced: Collection[Group]) -> Self:
        """Those of every file group but the replaced ones, which nobody reads."""
        slices = [each.latest for each in view.groups if (each.partition_path, each.file_id) not in replaced]
        logs = [log for each in slices if each is not None for log in each.log_files]
        oldest = min((log.instant for log in logs), default=None)
        return cls(len(logs), sum(log.size for log in logs), None if oldest is None else parse_time(oldest))


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the whole table found."""

    backlog: LogBacklog
    proposal: Proposal | None
    """The compaction that is due; None if nothing is."""
    damaged: tuple[Damaged, ...] = ()
    """Files that due file groups lack: these groups are not compacted, which would make the loss final."""


def services_of(timeline: Timeline) -> frozenset[tuple[str, str]]:
    """Request time and action of everything on the timeline that changes which files belong together."""
    return frozenset(i.key for i in timeline.instants if i.action not in _DO_NOT_COUNT)


@dataclass(frozen=True, slots=True)
class TableNow:
    """A table that has columns, at one moment."""

    table: HoodieTable
    timeline: Timeline
    schema: AvroSchema
    """Without meta columns."""
    view: FileView
    replaced: frozenset[Group]
    busy: frozenset[Group]
    """File groups that no table service may take: replaced ones, those in a pending one, and those with a log file
    whose place nobody knows.
    """

    @classmethod
    def load(cls, storage: Storage) -> Self | None:
        """Look at the whole table; None before its first commit.

        Raises UnsupportedTable for a table that only Hudi can compact, PlanOutdated while committed rows are hidden,
        and what reading a table raises.
        """
        table = load_table(storage)
        timeline = Timeline.load(storage)
        if hidden := hidden_writes(storage, timeline):  # a base file without their rows would supersede these
            raise PlanOutdated(
                f"{storage.url}: readers do not see what was archived up to {max(hidden)}; table services wait. Either "
                "an instant that came late hides archived ones: the next archival removes it (`bucketingest archive`). "
                "Or every commit on the timeline has a savepoint: the next commit ends it"
            )
        schema = stored_schema(table, timeline)
        if schema is None:
            return None
        merge_rules(table, avro_to_arrow(with_meta_columns(schema)))  # refuses the table early
        view = load_file_view(storage, timeline)
        replaced = replaced_file_groups(storage, timeline)
        busy = frozenset((*replaced, *_busy(storage, timeline), *_unplaced(storage, timeline, view)))
        return cls(table, timeline, schema, view, replaced, busy)

    def times(self, storage: Storage, ours: Collection[str]) -> set[str]:
        """Every time that anybody has used. `ours`: what pipelines claimed."""
        return {*self.timeline.times, *archived_times(storage), *ours}

    def damage(self, groups: Collection[Group]) -> tuple[Damaged, ...]:
        """Files that these file groups lack. Raises as `look_for_damage`."""
        if not groups:
            return ()
        storage, timeline = self.table.storage, self.timeline
        return look_for_damage(storage, timeline, self.view, self.replaced, overtaken, only=groups).damaged

    @property
    def known(self) -> frozenset[str]:
        """Request times of the write instants that have completed."""
        return frozenset(instant.request_time for instant in self.timeline.completed_commits)


def propose(
    storage: Storage,
    triggers: CompactionTriggers,
    now: datetime,
    *,
    skipped: Collection[Group] = (),
    only: Collection[Group] | None = None,
    accept_damage: bool = False,
) -> Look:
    """Look at the table, and plan the compaction that is due. `skipped`: file groups that are left as they are; `only`:
    those that are not; None: all others. `accept_damage`: also groups that lack files, whose rows are then given up.

    Raises UnsupportedTable for a table that only Hudi can compact, and what reading a table raises.
    """
    found = TableNow.load(storage)
    if found is None:
        return Look(LogBacklog(), None)
    if only is not None:
        places = ((each.partition_path, each.file_id) for each in found.view.groups)
        skipped = {*skipped, *(each for each in places if each not in only)}
    return propose_for(storage, found, triggers, now, skipped, accept_damage=accept_damage)


def propose_for(
    storage: Storage,
    found: TableNow,
    triggers: CompactionTriggers,
    now: datetime,
    skipped: Collection[Group] = (),
    *,
    accept_damage: bool = False,
) -> Look:
    """The same for a table that was looked at."""
    busy, backlog = found.busy.union(skipped), LogBacklog.of(found.view, found.replaced)
    due, left_out = due_groups(found.view, busy, triggers, now)
    if not due:
        return Look(backlog, None)
    ours = claimed(storage)
    compaction = quiet_time(found.timeline, found.times(storage, ours), ours, now)
    if compaction is None:
        log.info("compaction waits for the end of the open instant")
        return Look(backlog, None)
    damaged = () if accept_damage else found.damage({each.operation.group for each in due})
    if damaged:
        due, left_out = due_groups(found.view, busy.union(each.group for each in damaged), triggers, now)
    chosen = _limited(due)
    if not chosen:
        return Look(backlog, None, damaged)
    beyond = due[len(chosen) :]
    plan = plan_of(chosen, [*left_out, *(each.operation.group for each in beyond)], {OURS: "1"})
    record = PlanRecord.of(compaction, schema_json(found.schema), MERGE_VERSION, found.known, plan)
    return Look(backlog, Proposal(record, tuple(chosen), len(beyond), services_of(found.timeline)), damaged)


def quiet_time(timeline: Timeline, times: Collection[str], ours: Collection[str], now: datetime) -> str | None:
    """A request time for a compaction: after every known time; or before the first of our instants that is open then,
    if nothing has completed since. None: wait for its end. Pure.

    hudi-rs 0.5.0 leaves the rows of an instant that is open at this time out of an incremental read that ends with it:
    it looks for base files by request times, and for the log files that are merged with them by completion times. The
    millisecond before an open instant is not taken: it may be the time of a clustering that is not on the timeline yet.
    """
    newest = next_instant_time(now - _BEHIND, times)
    first = min(open_at(newest, timeline, ours), default=None)
    if first is None:
        return newest
    before = newest_time(time for time in times if time < first)
    if before is None or any((each.completion_time or "") >= first for each in timeline.completed_commits):
        return None
    time = format_time(parse_time(before) + timedelta(milliseconds=1))
    return time if time < format_time(parse_time(first) - timedelta(milliseconds=1)) else None


def open_at(time: str, timeline: Timeline, ours: Collection[str]) -> list[str]:
    """Request times of those instants of pipelines that began before this time and had not completed by then. `ours`:
    what they claimed.
    """
    return [
        each.request_time
        for each in timeline.instants
        if each.request_time in ours and each.request_time <= time <= (each.completion_time or time)
    ]


def _limited(due: list[Due]) -> list[Due]:
    count, log_files = 0, 0
    for each in due[:OPERATIONS_MAX]:
        log_files += len(each.operation.log_files)
        if log_files > LOG_FILES_MAX and count:
            break
        count += 1
    return due[:count]


def _busy(storage: Storage, timeline: Timeline) -> Iterator[Group]:
    """File groups in another table service that is pending. Raises UnsupportedTable if it cannot be known which."""
    for instant in timeline.pending:
        if instant.action == CLUSTERING:
            why = f"clustering {instant.request_time} is pending: compaction waits for its end"
            raise UnsupportedTable(storage.url, [why])
        if instant.action in (COMPACTION, LOG_COMPACTION):
            plan = read_compaction_plan(storage, instant.request_time, instant.action)
            if plan is None:
                why = f"{instant.action} {instant.request_time} is pending without a plan: roll it back with Hudi"
                raise UnsupportedTable(storage.url, [why])
            yield from (operation.group for operation in plan.operations)


def _unplaced(storage: Storage, timeline: Timeline, view: FileView) -> Iterator[Group]:
    """File groups with a log file whose completion time nobody knows: readers put it on top of whatever is newest."""
    archived = [
        (log.instant, (group.partition_path, group.file_id))
        for group in view.groups
        if group.latest is not None
        for log in group.latest.log_files
        if timeline.completion_time(log.instant) is None
    ]
    known = archived_completion_times(storage, {time for time, _ in archived})
    yield from (group for time, group in archived if time not in known)


def claimed(storage: Storage) -> frozenset[str]:
    """Times that pipelines claimed, also those of aborted instants."""
    return frozenset(time for pipeline in pipelines(storage) for time in Journal(storage, pipeline).instants())
