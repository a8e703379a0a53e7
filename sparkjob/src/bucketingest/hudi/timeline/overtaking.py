"""Finds completed instants whose rows are lost, because another writer's instant overtook them.

Readers place a log file by its instant's completion time. So once a compaction is on the timeline, every log file that
completed before it must be in its plan: any other one belongs to the slice that the compaction supersedes, and readers
no longer read it. No check before the completed file prevents that: a process may be paused after the check, and a Hudi
scheduler without a lock reads the timeline before it chooses its time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from bucketingest.hudi.history.archived import archived_plan
from bucketingest.hudi.naming import PARTITION_METADATA_NAME, LogFileName, join
from bucketingest.hudi.plans.clean_plan import CleanPlan, read_clean_plan
from bucketingest.hudi.plans.compaction_plan import CompactionOperation, CompactionPlan, read_compaction_plan
from bucketingest.hudi.plans.replaced import (
    clustered_groups,
    clustered_slices,
    replaced_file_groups,
    replaced_since,
)
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata, WrittenFile
from bucketingest.hudi.timeline.instant import (
    CLEAN,
    CLUSTERING,
    COMMIT,
    COMPACTION,
    LOG_COMPACTION,
    REPLACE_COMMIT,
    WRITE_ACTIONS,
    Instant,
)
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage

_DEPTH: Final = 200
"""Instants before the newest one that a planner saw which are searched, too: another writer may complete late."""
_SUPERSEDE = frozenset({COMPACTION, COMMIT, LOG_COMPACTION, CLUSTERING, REPLACE_COMMIT})


def overtaken_by(timeline: Timeline, request_time: str, completion_time: str) -> str | None:
    """What forbids that a pending instant completes now at a time decided before, in words; None: nothing. Pure.

    A table service requested since then is planned without its files. Incremental readers may have passed a write
    completed since then, and never look back. Rollbacks, cleans, savepoints and requested writes do not count.
    """
    for instant in timeline.instants:
        if instant.request_time == request_time or instant.action not in WRITE_ACTIONS:
            continue
        if instant.action in _SUPERSEDE and instant.request_time > completion_time:
            return f"{instant.action} {instant.request_time}"
        if instant.is_completed and (instant.completion_time or "") > completion_time:
            return f"{instant.action} {instant.request_time}, completed at {instant.completion_time},"
    return None


@dataclass(frozen=True, slots=True)
class Committed:
    """A completed instant that wrote log files, on the timeline or archived."""

    request_time: str
    completion_time: str
    files: Callable[[], Iterable[WrittenFile]]
    """Reads the log files that it wrote."""

    @classmethod
    def of(cls, storage: Storage, instant: Instant) -> Self:
        """A completed instant on the timeline."""
        return cls(instant.request_time, instant.completion_time or "", lambda: files_of(storage, instant))


@dataclass(frozen=True, slots=True)
class Merge:
    """What a compaction or a clustering merges, at least one file slice."""

    action: str
    request_time: str
    before: str
    """Nobody reads a log file of these slices that completed before this time, unless it is merged: the request of a
    compaction, whose base file takes its place, and the completion of a clustering, which replaces the file groups.
    """
    slices: tuple[CompactionOperation, ...]

    @classmethod
    def of_compaction(cls, request_time: str, plan: CompactionPlan) -> Self | None:
        """By its plan; None if it merges nothing."""
        return cls(COMPACTION, request_time, request_time, plan.operations) if plan.operations else None

    @classmethod
    def of_clustering(cls, completed: Instant, slices: tuple[CompactionOperation, ...]) -> Self | None:
        """Of a completed replacement; None if it is no clustering with a plan, as ours have none."""
        return cls(CLUSTERING, completed.request_time, completed.completion_time or "", slices) if slices else None

    @property
    def seen(self) -> set[str]:
        """Request times of instants that the planner saw."""
        names = (LogFileName.try_parse(name) for each in self.slices for name in each.log_files)
        return {name.instant for name in names if name is not None}


def merges_of(storage: Storage, compactions: Iterable[str], replacements: Iterable[Instant]) -> list[Merge]:
    """What those of the compactions, and of the completed replacements, merge, on the timeline or archived."""
    plans = ((time, plan_of_compaction(storage, time)) for time in sorted(compactions))
    return [
        *(merge for time, plan in plans if plan is not None and (merge := Merge.of_compaction(time, plan))),
        *(merge for each in replacements if (merge := Merge.of_clustering(each, clustered_slices(storage, each)))),
    ]


def left_out(merges: Iterable[Merge], instants: Collection[Committed]) -> Iterator[tuple[Committed, str]]:
    """Instants with a log file that a table service should merge but does not, each with the name of that service.

    Opens the files of all instants that completed before it and after what its planner saw, however many they are.
    """
    for merge in merges:
        late = [instant for instant in instants if instant.completion_time < merge.before]
        late.sort(key=lambda instant: instant.completion_time, reverse=True)
        operations = {operation.group: operation for operation in merge.slices}
        oldest_slice = min(operation.supersedes_from for operation in merge.slices)
        seen = merge.seen
        newest_seen = next((at for at, each in enumerate(late) if each.request_time in seen), len(late))
        for instant in late[: newest_seen + _DEPTH]:
            completion_time = instant.completion_time
            for file in instant.files() if completion_time >= oldest_slice else ():
                operation = operations.get((file.partition_path, file.file_id))
                if operation is not None and operation.loses(file.name, completion_time):
                    yield instant, f"{merge.action} {merge.request_time}"
                    break


def swept_away(
    storage: Storage, timeline: Timeline, cleans: Mapping[Instant, CleanPlan], instants: Collection[Committed]
) -> Iterator[tuple[Committed, str]]:
    """Instants with a file in a partition that a completed clean deleted as a whole, each with what deleted it. Hudi
    plans that when all file groups of the partition were replaced, and deletes also what was written since.

    No time says what the planner saw: it looks before it chooses its request time. So each file counts whose file
    group was not replaced, unless its instant completed before the writes that the clean retains. If they all stand,
    with the partition's metadata, the clean deleted nothing of it. If one is gone, those of all instants count as
    lost: what still stands may lack its base file. If that of a clustering is, so are the rows of the file groups that
    it replaced. After a clean of a whole partition it lists it, and reads the history: what replaced a group may be
    archived.
    """
    for clean, plan in cleans.items():
        before = [instant for instant in instants if instant.request_time < (clean.completion_time or "")]
        if not before or not plan.partitions:
            continue
        retained_from = plan.earliest.request_time if plan.earliest else ""
        replaced = replaced_since(storage, timeline, min(instant.request_time for instant in before))
        written = [
            (instant, file)
            for instant in before
            for file in (instant.files() if instant.completion_time > retained_from else ())
            if file.partition_path in plan.partitions
        ]
        there = {info.path for path in plan.partitions for info in storage.list_level(path).objects}
        while True:
            counting = [each for each in written if (each[1].partition_path, each[1].file_id) not in replaced]
            lost = _lost(counting, there)
            if not (moved := _clustered_by(storage, timeline, {each.request_time for each, _ in lost}) & replaced):
                break
            replaced -= moved
        for instant, partition_path in lost:
            yield instant, f"clean {clean.request_time}, which deleted partition {partition_path!r},"


def _lost(written: Collection[tuple[Committed, WrittenFile]], there: Collection[str]) -> list[tuple[Committed, str]]:
    """The instants that lost files, each with a partition of these. `there`: the files that stand."""
    needed = {join(file.partition_path, file.name): file.partition_path for _, file in written}
    needed |= {join(path, PARTITION_METADATA_NAME): path for path in set(needed.values())}
    gone = {partition_path for path, partition_path in needed.items() if path not in there}
    lost = {each.request_time: (each, file.partition_path) for each, file in written if file.partition_path in gone}
    return list(lost.values())


def _clustered_by(storage: Storage, timeline: Timeline, instants: Collection[str]) -> frozenset[tuple[str, str]]:
    """The file groups whose rows these instants moved."""
    found = (timeline.find(time, REPLACE_COMMIT) for time in instants)
    return frozenset().union(*(clustered_groups(storage, each) for each in found if each is not None))


def completed_cleans(timeline: Timeline, since: str = "") -> list[Instant]:
    """Cleans that completed after this time."""
    return [each for each in timeline.completed if each.action == CLEAN and (each.completion_time or "") > since]


def plans_of_cleans(storage: Storage, cleans: Iterable[Instant]) -> dict[Instant, CleanPlan]:
    """The plans of those of the cleans that are still on the timeline."""
    plans = ((clean, read_clean_plan(storage, clean.request_time)) for clean in cleans)
    return {clean: plan for clean, plan in plans if plan is not None}


def plan_of_compaction(storage: Storage, compaction: str) -> CompactionPlan | None:
    """The plan of a compaction on the timeline or in the history; None if neither has it. Raises `InvalidTable`."""
    plan = read_compaction_plan(storage, compaction)
    if plan is None and (content := archived_plan(storage, compaction)) is not None:
        return CompactionPlan.decode(content, f"history: plan of {compaction}")
    return plan


def came_too_late(storage: Storage, timeline: Timeline, instant: Instant) -> str | None:
    """What overtook an instant that has just been completed, in words; None if nothing did."""
    committed = Committed.of(storage, instant)
    newer = [compaction for compaction in timeline.compactions if compaction > committed.completion_time]
    later = [each for each in timeline.replacements if (each.completion_time or "") > committed.completion_time]
    for _, service in left_out(merges_of(storage, newer, later), [committed]):
        return service
    cleans = plans_of_cleans(storage, completed_cleans(timeline, instant.request_time))
    for _, clean in swept_away(storage, timeline, cleans, [committed]):
        return clean
    replaced = replaced_file_groups(storage, timeline, before=committed.completion_time)
    if replaced and any((file.partition_path, file.file_id) in replaced for file in committed.files()):
        return "the replacement of one of its file groups"
    return None


def files_of(storage: Storage, instant: Instant) -> list[WrittenFile]:
    """What a completed write instant wrote; nothing if it is gone since the timeline was loaded."""
    path = path_of(instant)
    try:
        return CommitMetadata.decode_files(storage.get(path), path)
    except NotFound:  # archived or rolled back since the timeline was loaded
        return []
