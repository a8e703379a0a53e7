"""Which files a clean deletes: whole file slices that every reader has left behind, and nothing that is not elsewhere.
Pure.

A slice goes only if all its rows are in the base file that superseded it: a log file that no compaction merged holds
the only copy of its rows, so its slice stays and is reported. From the earliest retained instant on everything stays:
readers that started a while ago, and Hudi's next clean, rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Final, Self

from bucketingest.hudi.plans.clean_plan import BY_HOURS, BY_VERSIONS, SAVEPOINTS, CleanPlan, Earliest
from bucketingest.hudi.plans.compaction_plan import CompactionOperation
from bucketingest.hudi.table.file_view import DataFile, FileGroup, FileSlice, FileView, Group
from bucketingest.hudi.timeline.instant import COMMIT, REPLACE_COMMIT, RESTORE, SAVEPOINT, WRITE_ACTIONS, Instant
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.facts import CleanFacts
from bucketingest.spec.fields.services import DEFAULT_RETAIN, Clean

FILES_MAX: Final = 100_000
"""Files of one plan: about 25 MB on the timeline. The next plan has the others."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What is retained: all that readers need which started within `retain`, or with `versions` so many of the newest
    slices of each file group. One of the two.
    """

    retain: timedelta | None = None
    versions: int | None = None

    def __post_init__(self) -> None:
        if (self.retain is None) == (self.versions is None):
            raise ValueError("a retention is either a time or a number of versions")
        if (self.retain is not None and self.retain < timedelta()) or (self.versions is not None and self.versions < 1):
            raise ValueError("a retention is a time of at least 0, or at least one version")

    @classmethod
    def of(cls, clean: Clean) -> Self:
        """That of a resource."""
        return cls(clean.chosen_retain, clean.versions)


DEFAULT_RETENTION: Final = Retention(retain=DEFAULT_RETAIN)


@dataclass(frozen=True, slots=True)
class Kept:
    """A file slice that is old enough and stays."""

    partition_path: str
    file_id: str
    base_instant: str
    why: str
    superseded_by: str = ""
    """Request time of the instant that superseded it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a clean would do now."""

    plan: CleanPlan | None
    """None if there is nothing to delete."""
    limit: Limit
    """What is retained, and why not less. By versions it has no instant."""
    kept: tuple[Kept, ...]

    @property
    def retained(self) -> str:
        """Request time of the write from which on slices are kept, if all that may go before it is gone; else "". The
        last clean says an older one while there is nothing to delete.
        """
        limit = self.limit.instant
        return limit.request_time if limit is not None and self.plan is None and not self.kept else ""


def choose(
    view: FileView,
    timeline: Timeline,
    facts: CleanFacts,
    retention: Retention,
    now: datetime,
    *,
    files_max: int = FILES_MAX,
) -> Choice:
    """Choose by the rules of Hudi 1.2.0 (CleanPlanner) and three more: nothing that was superseded within the time to
    retain, however long ago that began; nothing whose rows are not in the superseding base file; never a partition.

    `view` must be loaded after `timeline`. `now` is aware. A plan of more than `files_max` files is cut after a slice.
    """
    limit = Limit(None, "the policy is by versions")
    restores = [instant.request_time for instant in timeline.pending if instant.action == RESTORE]
    if restores:
        return Choice(None, Limit(None, f"restore {restores[0]} is pending"), ())
    if retention.retain is not None:
        limit = earliest_to_retain(timeline, now, retention.retain, facts.modified, facts.last_earliest)
        if limit.instant is None:
            return Choice(None, limit, ())
    earliest = "" if limit.instant is None else limit.instant.request_time
    reasons = Reasons(timeline, facts)
    chosen: list[tuple[FileGroup, FileSlice]] = []
    kept: list[Kept] = []
    for group in view.groups:
        for position in _old_slices(group, facts, retention, earliest):
            file_slice, why = group.slices[position], reasons.to_keep(group, position)
            if why is None:
                chosen.append((group, file_slice))
            else:
                place = (group.partition_path, group.file_id)
                replacement = facts.replaced.get(place)
                newer = group.slices[position + 1].base_instant if replacement is None else replacement.request_time
                kept.append(Kept(*place, file_slice.base_instant, why, newer))
    return Choice(_plan(chosen, timeline, facts, limit, files_max), limit, tuple(kept))


def _old_slices(group: FileGroup, facts: CleanFacts, retention: Retention, earliest: str) -> range:
    """Positions of the slices, oldest first, that no reader protected by the retention needs."""
    slices = group.slices
    replacement = facts.replaced.get((group.partition_path, group.file_id))
    if replacement is not None:
        gone = retention.versions is not None or replacement.request_time < earliest
        return range(len(slices) if gone else 0)
    if retention.versions is not None:
        return range(max(0, len(slices) - retention.versions))
    # A reader of the earliest retained moment reads the newest slice before it.
    return range(max(0, sum(each.base_instant < earliest for each in slices) - 1))


def _plan(
    chosen: list[tuple[FileGroup, FileSlice]], timeline: Timeline, facts: CleanFacts, limit: Limit, files_max: int
) -> CleanPlan | None:
    files: dict[str, list[str]] = {}
    count, cut = 0, False
    for group, file_slice in chosen:
        # Log files first: one that is left without its base file would look like a part of the slice before it.
        names = [str(file.name) for file in (*file_slice.log_files, file_slice.base_file) if file is not None]
        if count and count + len(names) > files_max:
            cut = True
            break
        count += len(names)
        files.setdefault(group.partition_path, []).extend(names)
    if not files:
        return None
    # Hudi's next clean takes it that all before the earliest instant is clean, which a cut plan does not make so.
    instant = None if cut else limit.instant
    writes = [each.request_time for each in timeline.completed if each.action in WRITE_ACTIONS]
    return CleanPlan(
        files={partition_path: tuple(names) for partition_path, names in files.items()},
        earliest=None if instant is None else Earliest(instant.request_time, instant.action),
        last_completed=max(writes, default=""),
        policy=BY_HOURS if limit.instant is not None else BY_VERSIONS,
        extra_metadata={SAVEPOINTS: ",".join(sorted(facts.savepoints))} if facts.savepoints else {},
    )


class Reasons:
    """Asks the facts for reasons; each plan is indexed once."""

    def __init__(self, timeline: Timeline, facts: CleanFacts) -> None:
        self._timeline = timeline
        self._facts = facts
        self._operations = cache(self._operations_of)

    def to_keep(self, group: FileGroup, position: int) -> str | None:
        """Why the slice at this position stays, in words; None: it can go. Not for the newest slice, unless the group
        is replaced.
        """
        return next(self._all(group, position), None)

    def _all(self, group: FileGroup, position: int) -> Iterator[str]:
        file_slice, place = group.slices[position], (group.partition_path, group.file_id)
        paths = {file.path for file in _files(file_slice)}
        if place in self._facts.damaged:
            yield "a file of its file group's newest slice is gone or cut"
        for savepoint, files in self._facts.savepoints.items():
            if not paths.isdisjoint(files):
                yield f"savepoint {savepoint} keeps it"
        pending = self._facts.pending.get(place)
        if pending is not None and file_slice.base_instant >= pending.first_slice:
            yield f"pending {pending.name} reads its file group"
        if place in self._facts.replaced:
            yield from self._after_replacement(file_slice, place)
        else:
            yield from self._not_merged(file_slice, group.slices[position + 1], place)

    def _after_replacement(self, file_slice: FileSlice, place: Group) -> Iterator[str]:
        replacement = self._facts.replaced[place]
        for log in file_slice.log_files:
            if (self._timeline.completion_time(log.instant) or "") > (replacement.completion_time or ""):
                yield f"log file {log.name} completed after {replacement.request_time} had replaced its file group"

    def _not_merged(self, file_slice: FileSlice, newer: FileSlice, place: Group) -> Iterator[str]:
        instant = newer.base_instant
        superseder = self._facts.superseder(instant)
        if superseder is None:
            yield f"the plan or the commit of {instant}, which superseded it, is gone, or is being rolled back"
            return
        if newer.base_file is None or newer.base_file.path not in superseder.base_files:
            yield f"the commit of {instant} does not name the base file that superseded it"
        operation = self._operations(instant).get(place)
        merged = frozenset(operation.log_files) if operation else frozenset()
        lost = [log for log in file_slice.log_files if str(log.name) not in merged and log.path not in superseder.added]
        if lost:
            others = f" and {len(lost) - 1} more are" if len(lost) > 1 else " is"
            yield f"log file {lost[0].name}{others} not in the plan of {instant}, which superseded it"
        # Without one, log files came again when a clean had deleted all: of a late twin of the task that wrote them.
        base = None if file_slice.base_file is None else str(file_slice.base_file.name)
        if base is not None and superseder.plan is not None and base != (operation and operation.base_file):
            yield f"the plan of {instant}, which superseded it, does not name its base file"

    def _operations_of(self, instant: str) -> Mapping[Group, CompactionOperation]:
        superseder = self._facts.superseder(instant)
        plan = None if superseder is None else superseder.plan
        return {} if plan is None else {operation.group: operation for operation in plan.operations}


def _files(file_slice: FileSlice) -> Iterator[DataFile]:
    yield from file_slice.log_files
    if file_slice.base_file is not None:
        yield file_slice.base_file


_SUPERSEDE = frozenset({COMMIT, REPLACE_COMMIT})


@dataclass(frozen=True, slots=True)
class Limit:
    """The greatest instant that may be the earliest retained one, and what says so."""

    instant: Instant | None
    """A completed write; None: nothing may be deleted."""
    why: str
    pending: str = ""
    """Request time of the pending instant that says so."""


def earliest_to_retain(
    timeline: Timeline, now: datetime, retain: timedelta, modified: Mapping[str, datetime], last: str
) -> Limit:
    """The earliest instant to retain so that every reader that started within `retain` keeps its files.

    It is the least of: the first write requested within that time, or the newest one if there is none; each compaction
    and replacecommit that readers see only since then, however long ago it was requested; the last one before anything
    pending. `modified`: request time -> when the completed file was put onto storage, as a paused process may do that
    long after the completion time. `last`: the earliest instant of the last clean, or ""; Hudi's next clean looks at
    no older ones, so it never goes back.
    """
    completed = [instant for instant in timeline.completed if instant.action in WRITE_ACTIONS]
    if not completed:
        return Limit(None, "no write has completed")
    cutoff = format_time(now - retain)
    limit = min(_limits(timeline, completed, cutoff, modified), key=lambda each: _time(each.instant))
    if limit.instant is not None and limit.instant.request_time < last:
        return Limit(None, f"the last clean retained all from {last} on, now {limit.why}", limit.pending)
    return limit


def _limits(
    timeline: Timeline, completed: list[Instant], cutoff: str, modified: Mapping[str, datetime]
) -> Iterator[Limit]:
    recent = next((instant for instant in completed if instant.request_time >= cutoff), None)
    yield Limit(
        recent or completed[-1], "it is the first write within the time to retain" if recent else "it is the newest"
    )
    for instant in completed:
        if instant.action in _SUPERSEDE and _visible(instant, modified) > cutoff:
            yield Limit(instant, f"{instant.action} {instant.request_time} completed within the time to retain")
    for instant in timeline.pending:
        if instant.action in WRITE_ACTIONS:
            before = [each for each in completed if each.request_time < instant.request_time]
        elif instant.action == SAVEPOINT:  # another writer is just choosing its files
            before = [each for each in completed if each.request_time <= instant.request_time]
        else:
            continue
        why = f"{instant.action} {instant.request_time} is pending"
        yield Limit(before[-1] if before else None, why, instant.request_time)


def _visible(instant: Instant, modified: Mapping[str, datetime]) -> str:
    """When readers saw it first, as an instant time."""
    put = modified.get(instant.request_time)
    return max(instant.completion_time or "", "" if put is None else format_time(put))


def _time(instant: Instant | None) -> str:
    return "" if instant is None else instant.request_time
