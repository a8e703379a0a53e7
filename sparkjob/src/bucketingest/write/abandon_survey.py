"""Finds the instants that a rollback has to think about: one listing of the timeline, one of the data files, and small
objects of the instants that are not settled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Self

from bucketingest.hudi import heartbeat
from bucketingest.hudi.commit_metadata import CommitMetadata
from bucketingest.hudi.file_view import list_data
from bucketingest.hudi.instant import DELTA_COMMIT, WRITE_ACTIONS, Instant, State
from bucketingest.hudi.markers import marked_files, marker_directory
from bucketingest.hudi.naming import TIMELINE_DIRECTORY, parse_data_file_name
from bucketingest.hudi.pending_rollbacks import PendingRollback, pending_rollbacks
from bucketingest.hudi.rollback import rollback_targets
from bucketingest.hudi.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.abandon_plan import Candidate
from bucketingest.write.commit_content import PIPELINE
from bucketingest.write.coordination import ROOT, AbortDecision, CommitDecision, Coordination
from bucketingest.write.lease_objects import LEASES, newest_lease
from bucketingest.write.lease_record import milliseconds, why_free

ROLLBACK_OWNER: Final = "(rollback)"
"""Who a rollback says it is when it holds the table's lease. No pipeline's name has parentheses."""


@dataclass(frozen=True, slots=True)
class Survey:
    """A table's unsettled instants at one moment."""

    candidates: tuple[Candidate, ...]
    wanted: frozenset[str]
    """Request times asked for by name; for a pending rollback that of the instant that it takes back."""
    unreadable: tuple[PendingRollback, ...]
    """Pending rollbacks of which nobody can tell what they take back."""


def survey(storage: Storage, wanted: Collection[str], now: datetime) -> Survey:
    """Look at every instant that is not settled, and at those asked for by name."""
    listing = storage.list_level(TIMELINE_DIRECTORY).objects
    timeline = Timeline.of_file_names(info.path.rpartition("/")[2] for info in listing)
    changed: dict[str, datetime] = {}
    for info in listing:
        instant = Instant.try_parse(info.path.rpartition("/")[2])
        if instant is not None:
            changed[instant.request_time] = max(info.modified, changed.get(instant.request_time, info.modified))
    rollbacks = pending_rollbacks(storage, timeline)
    targets = {rollback.rollback_time: rollback.target for rollback in rollbacks}
    meant = frozenset(targets.get(time) or time for time in wanted)
    owners = _unsettled(storage, timeline, meant)
    times = {i.request_time for i in timeline.pending if i.action in WRITE_ACTIONS} | set(owners) | meant
    times |= {target for target in targets.values() if target}
    candidates = _Finder(storage, timeline, now, changed, rollbacks, owners, _Lease.of(storage, now)).candidates(times)
    return Survey(candidates, meant, tuple(rollback for rollback in rollbacks if rollback.plan is None))


def pipelines(storage: Storage) -> tuple[str, ...]:
    """Names of the pipelines that ever wrote to the table."""
    directories = [path for path in storage.list_level(ROOT).directories if path != LEASES]
    return tuple(sorted(path.rpartition("/")[2].replace("~", "/") for path in directories))


def _unsettled(storage: Storage, timeline: Timeline, wanted: frozenset[str]) -> dict[str, str]:
    """Request time -> pipeline, of instants of ours that are not simply completed or forgotten."""
    committed = {instant.request_time for instant in timeline.completed_commits}
    found = {}
    for pipeline in pipelines(storage):
        coordination = Coordination(storage, pipeline)
        for time in coordination.instants():
            done = coordination.is_done(time)
            settled = done and (time in committed or not isinstance(coordination.decision(time), AbortDecision))
            if not settled or time in wanted:
                found[time] = pipeline
    return found


@dataclass(frozen=True, slots=True)
class _Lease:
    """What the table's lease tells about writers of ours: they hold it for the whole life of an attempt."""

    known: bool
    """Whether a job's is the newest; else only heartbeats tell."""
    holder: str | None

    @classmethod
    def of(cls, storage: Storage, now: datetime) -> Self:
        _, newest = newest_lease(storage)
        if newest is None:
            return cls(known=False, holder=None)
        dead = newest.owner.process.is_dead()
        free = why_free(newest, milliseconds(now), timedelta(), owner_dead=dead) is not None
        # After another rollback it says nothing about jobs that were started without a lease.
        known = newest.owner.pipeline != ROLLBACK_OWNER
        return cls(known=known, holder=None if free else newest.describe())


@dataclass(frozen=True, slots=True)
class _Finder:
    storage: Storage
    timeline: Timeline
    now: datetime
    changed: Mapping[str, datetime]
    """Request time -> when a file of the instant on the timeline was last changed."""
    rollbacks: tuple[PendingRollback, ...]
    owners: Mapping[str, str]
    lease: _Lease

    def candidates(self, times: Collection[str]) -> tuple[Candidate, ...]:
        if not times:
            return ()
        files = self._files(times)
        found = [self._candidate(time, files.get(time, ())) for time in sorted(times)]
        if not any(each.state is None or isinstance(each.decision, CommitDecision) for each in found):
            return tuple(found)
        rolled_back = rollback_targets(
            self.storage, self.timeline, frozenset(rollback.rollback_time for rollback in self.rollbacks)
        )
        return tuple(replace(each, rolled_back=each.request_time in rolled_back) for each in found)

    def _candidate(self, time: str, files: Iterable[str]) -> Candidate:
        instant = self._on_timeline(time)
        naming = [rollback for rollback in self.rollbacks if rollback.target == time]
        planned = next((rollback.plan.action for rollback in naming if rollback.plan is not None), None)
        pipeline = self._pipeline_of(instant, self.owners.get(time))
        return Candidate(
            request_time=time,
            action=planned if instant is None else instant.action,
            state=None if instant is None else instant.state,
            archived=instant is None and self.timeline.is_archived(time),
            pipeline=pipeline,
            decision=None if pipeline is None else Coordination(self.storage, pipeline).decision(time),
            settled=pipeline is not None and Coordination(self.storage, pipeline).is_done(time),
            rollbacks=tuple(rollback.rollback_time for rollback in naming),
            held_by=None if pipeline is None else self.lease.holder,
            quiet=None if pipeline is not None and self.lease.known else self._quiet([time]),
            rollback_quiet=self._quiet([rollback.rollback_time for rollback in naming]),
            files=tuple(sorted(files)),
            traces=heartbeat.last_beat(self.storage, time) is not None
            or next(iter(self.storage.list(marker_directory(time))), None) is not None,
        )

    def _on_timeline(self, time: str) -> Instant | None:
        """The instant of this time; of several, as a commit and its savepoint, the one that wrote data."""
        found = [instant for instant in self.timeline.instants if instant.request_time == time]
        writes = [instant for instant in found if instant.action in WRITE_ACTIONS]
        return next(iter(writes or found), None)

    def _pipeline_of(self, instant: Instant | None, owner: str | None) -> str | None:
        """Whose instant it is: its inflight or completed file tells, as a time that we took and never put onto the
        timeline is free for other writers; without one whoever has coordination objects of it.
        """
        if instant is None or instant.state is State.REQUESTED or instant.action != DELTA_COMMIT:
            return owner
        path = path_of(instant)
        try:
            return CommitMetadata.decode_extra(self.storage.get(path), path).get(PIPELINE)
        except NotFound:  # completed or rolled back since the listing
            return owner

    def _quiet(self, times: Iterable[str]) -> timedelta | None:
        signs = [self.changed.get(time) for time in times] + [heartbeat.last_beat(self.storage, time) for time in times]
        last = max((sign for sign in signs if sign is not None), default=None)
        return None if last is None else self.now - last

    def _files(self, times: Collection[str]) -> dict[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for info in list_data(self.storage):
            name = parse_data_file_name(info.path.rpartition("/")[2])
            if name is not None and name.instant in times:
                found[name.instant].add(info.path)
        for time in times:
            found[time].update(marked_files(self.storage, time))
        return found
