"""Rolling back an instant that never completed, in Hudi's steps and order, so that any writer may finish it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta

from bucketingest.hudi.errors import InstantExists, RollbackError
from bucketingest.hudi.history.archived import archived_contents, archived_instants
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import BaseFileName, parse_data_file_name
from bucketingest.hudi.rollback.markers import delete_markers, marked_files
from bucketingest.hudi.rollback.pending import pending_rollbacks, read_rollback
from bucketingest.hudi.rollback.plan import (
    RollbackFile,
    RollbackMetadata,
    RollbackPlan,
    files_of_instant,
    refuse_unless_pending_deltacommit,
    rolled_back_instants,
)
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import (
    COMMIT,
    COMPACTION,
    DELTA_COMMIT,
    PENDING_STATES,
    ROLLBACK,
    WRITE_ACTIONS,
    Instant,
    State,
)
from bucketingest.hudi.timeline.instant_time import CLOCKS_DIFFER, format_time, next_instant_time, parse_time
from bucketingest.hudi.timeline.overtaking import plan_of_compaction
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested, path_of
from bucketingest.storage.interface import Storage

_REQUEST_ATTEMPTS_MAX = 8

Lock = Callable[[], AbstractContextManager[object]]
"""Makes a context that holds the table's lock while it is entered."""


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """How a rollback is run.

    `partitions`: where the instant may have written, None for anywhere (lists the whole table). `known_files`: data
    files it wrote or may have written, relative to the table's root; deleted whether or not a listing shows them.
    `known_times`: times outside the active timeline that new times must exceed.
    """

    partitions: Sequence[str] | None = None
    known_files: Sequence[str] = ()
    known_times: Sequence[str] = ()
    lock: Lock = nullcontext
    clock: Callable[[], datetime] = utc_now


@dataclass(frozen=True, slots=True)
class RollbackResult:
    """What a rollback did. `rollback_time` is None for an instant off the timeline: then it only deleted files."""

    instant_time: str
    rollback_time: str | None
    deleted: tuple[str, ...]
    resumed: bool


DEFAULT_OPTIONS = RollbackOptions()


def roll_back(storage: Storage, instant_time: str, options: RollbackOptions = DEFAULT_OPTIONS) -> RollbackResult:
    """Roll the pending deltacommit back. May be repeated after a crash at any point, and after it succeeded.

    The order is Hudi 1.2.0's: plan, inflight, data files, the instant's inflight then requested file, completed
    rollback, markers, heartbeat. All pending rollbacks whose plans name the instant, Hudi's or our own, are
    resumed: one that stays would make every later write of Hudi's EAGER writer fail. Beside a compaction of the same
    time there is no rollback on the timeline, as Hudi would take it for one of the compaction. Raises `RollbackError`
    if the instant is completed or archived, or is not a deltacommit.
    """
    files = files_to_delete(storage, instant_time, options)
    with options.lock():
        timeline = Timeline.load(storage)
        refuse_completed(storage, timeline, instant_time)
        compacted = compacted_at(storage, timeline, instant_time)
        if compacted is not None:
            files = [file for file in files if compacted.leaves(file.path)]
        pending = [
            (rollback.rollback_time, rollback.plan)
            for rollback in pending_rollbacks(storage, timeline, instant_time)
            if rollback.plan is not None and (compacted is None or rollback.plan.action == DELTA_COMMIT)
        ]
        resumed = bool(pending)
        if not pending:
            is_there = newest_state(timeline, instant_time) is not None
            if not is_there or compacted is not None:
                storage.delete_many([file.path for file in files])
                if is_there:
                    _leave_timeline(storage, RollbackPlan(instant_time, DELTA_COMMIT, tuple(files)))
                if compacted is None:
                    delete_marks(storage, instant_time)
                return RollbackResult(instant_time, None, tuple(file.path for file in files), resumed=False)
            pending = [_request(storage, timeline, RollbackPlan(instant_time, DELTA_COMMIT, tuple(files)), options)]
    rollback_times = [rollback_time for rollback_time, _ in pending]
    planned = [file for _, plan in pending for file in plan.files if compacted is None or compacted.leaves(file.path)]
    all_files = tuple(sorted({file.path: file for file in (*planned, *files)}.values()))
    started = options.clock()
    for rollback_time in rollback_times:
        create_inflight(storage, rollback_time, ROLLBACK)
    storage.delete_many([file.path for file in all_files])
    done = RollbackPlan(instant_time, DELTA_COMMIT, all_files)
    with options.lock():
        _leave_timeline(storage, done)
        for rollback_time in rollback_times:
            _finish(storage, rollback_time, done, started, options)
    if compacted is None:
        delete_marks(storage, instant_time)
    return RollbackResult(instant_time, rollback_times[0], tuple(file.path for file in all_files), resumed)


def finish_compaction_rollback(
    storage: Storage, rollback_time: str, plan: RollbackPlan, lock: Lock, clock: Callable[[], datetime]
) -> None:
    """Finish a pending rollback of a compaction: its base files go, and it is requested again, not inflight.

    These are the steps of Hudi 1.2.0 (BaseRollbackActionExecutor with deleteInstants false). May be repeated. Raises
    `RollbackError` if the compaction was completed meanwhile.
    """
    started = clock()
    create_inflight(storage, rollback_time, ROLLBACK)
    storage.delete_many([file.path for file in plan.files])
    with lock():
        target = Timeline.load(storage).find(plan.instant_time, COMMIT)
        if target is not None and target.is_completed:
            raise RollbackError(f"compaction {plan.instant_time} was completed while it was rolled back")
        storage.delete(path_of(Instant(plan.instant_time, COMPACTION, State.INFLIGHT)))
        _finish(storage, rollback_time, plan, started, RollbackOptions(lock=lock, clock=clock))


def pending_rollback(storage: Storage, timeline: Timeline, instant_time: str) -> tuple[str, RollbackPlan] | None:
    """Time and plan of the first pending rollback that names the instant; None if there is none."""
    for rollback in pending_rollbacks(storage, timeline, instant_time):
        if rollback.plan is not None:
            return rollback.rollback_time, rollback.plan
    return None


def rollbacks_of(storage: Storage, timeline: Timeline, instant_time: str) -> tuple[Instant, ...]:
    """Rollbacks on the active timeline, pending or completed, that name the instant. Usually opens no file."""
    found = []
    for instant in timeline.instants:
        if instant.action != ROLLBACK or instant.request_time <= instant_time:
            continue
        if instant.is_completed:
            named = instant_time in rolled_back_instants(storage.get(path_of(instant)), path_of(instant))
        else:
            named = read_rollback(storage, instant).target == instant_time
        if named:
            found.append(instant)
    return tuple(found)


def rollback_targets(storage: Storage, timeline: Timeline, ignoring: frozenset[str] = frozenset()) -> frozenset[str]:
    """Request times that the active timeline's rollbacks name, also pending ones. `ignoring`: request times of
    rollbacks to leave out.
    """
    targets: set[str] = set()
    for instant in timeline.instants:
        if instant.action != ROLLBACK or instant.request_time in ignoring:
            continue
        if instant.is_completed:
            targets.update(rolled_back_instants(storage.get(path_of(instant)), path_of(instant)))
        elif (target := read_rollback(storage, instant).target) is not None:
            targets.add(target)
    return frozenset(targets)


def rolled_back_since(storage: Storage, timeline: Timeline, time: str) -> frozenset[str]:
    """Request times that rollbacks name which had not completed by this time, also those that have since. Not those of
    compactions and replacecommits on the timeline: these are carried out again after a rollback, under the same time.

    A rollback that began before its instant completed goes on, and deletes files that readers have seen: Hudi 1.2.0
    looks at the instant only before it plans. An hour is left for the clocks of other writers.
    """
    before = format_time(parse_time(time) - CLOCKS_DIFFER)
    ended = (each for each in timeline.instants if each.action == ROLLBACK and each.is_completed)
    ignored = frozenset(each.request_time for each in ended if (each.completion_time or "") < before)
    made_again = {each.request_time for each in timeline.completed_commits if each.action != DELTA_COMMIT}
    return rollback_targets(storage, timeline, ignored) - made_again


def newest_state(timeline: Timeline, instant_time: str) -> Instant | None:
    """The instant that writes data files at this time, as far as the active timeline shows it: of several the
    deltacommit, whose time a scheduler without the table's lock took for a compaction.
    """
    own = timeline.find(instant_time)
    if own is not None:
        return own
    writes = (i for i in timeline.instants if i.request_time == instant_time and i.action in WRITE_ACTIONS)
    return next(writes, None)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The file groups of a compaction that has the time of a deltacommit. Readers know a file's instant by its time
    alone, so the compaction would make the deltacommit's files visible.
    """

    groups: frozenset[tuple[str, str]] | None
    """Partition path and file id of each; None: its plan is missing, and it is not completed."""

    def leaves(self, path: str) -> bool:
        """Whether a data file of that time is the deltacommit's: a log file, or in a file group of its own."""
        partition_path, _, base_name = path.rpartition("/")
        name = parse_data_file_name(base_name)
        if not isinstance(name, BaseFileName):
            return True
        return self.groups is not None and (partition_path, name.file_id) not in self.groups


def compacted_at(storage: Storage, timeline: Timeline, instant_time: str) -> Compacted | None:
    """What a compaction of this time writes, pending, completed or archived; None if there is none."""
    contents = archived_contents(storage, instant_time, COMMIT)
    if instant_time not in timeline.compactions and not contents:
        return None
    plan = plan_of_compaction(storage, instant_time)
    if plan is not None:
        return Compacted(frozenset(each.group for each in plan.operations))
    found = timeline.find(instant_time, COMMIT)
    if found is not None and found.is_completed:
        contents = [storage.get(path_of(found))]
    files = [
        file for content in contents for file in CommitMetadata.decode_files(content, f"compaction {instant_time}")
    ]
    return Compacted(frozenset((file.partition_path, file.file_id) for file in files) if contents else None)


def refuse_completed(storage: Storage, timeline: Timeline, instant_time: str) -> None:
    """Raise `RollbackError` if the instant is visible to readers, or must not be rolled back here."""
    target = newest_state(timeline, instant_time)
    if target is not None:
        refuse_unless_pending_deltacommit(target)
    else:
        # Only the history says whether it is archived; the oldest instant on the timeline may have changed.
        for archived in archived_instants(storage, instant_time):
            # A compaction of the same time is no obstacle: what it writes is left out of what is deleted.
            if archived.action in WRITE_ACTIONS and archived.action != COMMIT:
                refuse_unless_pending_deltacommit(archived)


def files_to_delete(storage: Storage, instant_time: str, options: RollbackOptions) -> list[RollbackFile]:
    """The instant's data files: those listed, and those that only a marker names."""
    listed = {info.path for info in list_data(storage, options.partitions) if instant_time in info.path}
    listed |= marked_files(storage, instant_time)
    return files_of_instant(listed, options.known_files, instant_time)


def _request(
    storage: Storage, timeline: Timeline, plan: RollbackPlan, options: RollbackOptions
) -> tuple[str, RollbackPlan]:
    content = plan.encode(storage.absolute)
    taken = {plan.instant_time}
    for _ in range(_REQUEST_ATTEMPTS_MAX):
        known_times = (*timeline.times, *options.known_times, *taken)
        rollback_time = next_instant_time(options.clock(), known_times)
        try:
            create_requested(storage, rollback_time, ROLLBACK, content)
        except InstantExists:
            taken.add(rollback_time)
        else:
            return rollback_time, plan
    raise RollbackError(
        f"{storage.url}: no free time for the rollback of {plan.instant_time} in {_REQUEST_ATTEMPTS_MAX} attempts: "
        "other writers write without the table's lock; stop them"
    )


def _leave_timeline(storage: Storage, done: RollbackPlan) -> None:
    """Step 4, under the lock: remove the instant from the timeline, unless another process completed it meanwhile."""
    refuse_completed(storage, Timeline.load(storage), done.instant_time)
    for state in PENDING_STATES:
        storage.delete(path_of(Instant(done.instant_time, done.action, state)))


def _finish(
    storage: Storage,
    rollback_time: str,
    done: RollbackPlan,
    started: datetime,
    options: RollbackOptions,
) -> None:
    """Step 5, under the same lock: complete the rollback."""
    timeline = Timeline.load(storage)
    rollback = timeline.find(rollback_time, ROLLBACK)
    if rollback is not None and rollback.is_completed:
        return  # another process resumed it at the same time and was faster
    now = options.clock()
    taken_ms = max(0, (now - started) // timedelta(milliseconds=1))
    metadata = RollbackMetadata(rollback_time, done, taken_ms)
    known_times = (*timeline.times, *options.known_times, rollback_time)
    completion_time = next_instant_time(now, known_times)
    complete(storage, rollback_time, completion_time, metadata.encode(storage.absolute), ROLLBACK)


def delete_marks(storage: Storage, instant_time: str) -> None:
    """Delete the instant's markers and its heartbeat."""
    delete_markers(storage, instant_time)
    heartbeat.stop(storage, instant_time)
