"""Finds the instants that a rollback of a table must consider: by one listing of the timeline, one of the data files,
and small objects of the unsettled instants.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from bucketingest.hudi.naming import TIMELINE_DIRECTORY, parse_data_file_name
from bucketingest.hudi.rollback.markers import marked_files, marker_directory
from bucketingest.hudi.rollback.pending import PendingRollback
from bucketingest.hudi.table.file_view import list_data
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import WRITE_ACTIONS, Instant
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.lease.objects import age_of, newest_lease
from bucketingest.lease.record import COMMAND_OWNERS, why_free
from bucketingest.storage import AccessDenied, Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision
from bucketingest.write.pipeline_names import pipelines
from bucketingest.write.recovery.facts import FactReader, Facts


@dataclass(frozen=True, slots=True)
class Survey:
    """A table's unsettled instants at one moment."""

    instants: tuple[Facts, ...]
    wanted: frozenset[str]
    """Request times given by name; for a pending rollback, that of the instant that it rolls back."""
    unreadable: tuple[PendingRollback, ...]
    """Pending rollbacks without a readable plan: their instant is unknown."""


def survey(storage: Storage, wanted: Collection[str], now: datetime) -> Survey:
    """Read the facts of every unsettled instant, and of those given by name."""
    listing = storage.list_level(TIMELINE_DIRECTORY).objects
    timeline = Timeline.of_file_names(info.path.rpartition("/")[2] for info in listing)
    changed: dict[str, datetime] = {}
    for info in listing:
        instant = Instant.try_parse(info.path.rpartition("/")[2])
        if instant is not None:
            changed[instant.request_time] = max(info.modified, changed.get(instant.request_time, info.modified))
    reader = FactReader(storage, timeline)
    targets = {rollback.rollback_time: rollback.target for rollback in reader.rollbacks}
    meant = frozenset(targets.get(time) or time for time in wanted)
    owners = _unsettled(storage, timeline, meant)
    times = {i.request_time for i in timeline.pending if i.action in WRITE_ACTIONS} | set(owners) | meant
    times |= {target for target in targets.values() if target}
    signs = _Signs(storage, now, changed, _Lease.of(storage), _files(storage, times))
    found = (reader.facts(time, owners.get(time)) for time in sorted(times))
    unreadable = tuple(rollback for rollback in reader.rollbacks if rollback.plan is None)
    return Survey(tuple(map(signs.added_to, found)), meant, unreadable)


def _unsettled(storage: Storage, timeline: Timeline, wanted: frozenset[str]) -> dict[str, str]:
    """Request time -> pipeline, of pipelines' instants that are not simply completed or forgotten."""
    committed = {instant.request_time for instant in timeline.completed_commits}
    found = {}
    for pipeline in pipelines(storage):
        journal = Journal(storage, pipeline)
        for time in journal.instants():
            done = journal.is_done(time)
            settled = done and (time in committed or not isinstance(journal.decision(time), AbortDecision))
            if not settled or time in wanted:
                found[time] = pipeline
    return found


def _files(storage: Storage, times: Collection[str]) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for info in list_data(storage) if times else ():
        name = parse_data_file_name(info.path.rpartition("/")[2])
        if name is not None and name.instant in times:
            found[name.instant].add(info.path)
    for time in times:
        found[time].update(marked_files(storage, time))
    return found


@dataclass(frozen=True, slots=True)
class _Lease:
    """What the table's lease shows about jobs: each holds it for the whole life of its attempt."""

    known: bool
    """Whether the newest lease is a job's; else only heartbeats count."""
    holder: str | None

    @classmethod
    def of(cls, storage: Storage) -> Self:
        number, newest = newest_lease(storage)
        if newest is None:
            return cls(known=False, holder=None)
        dead = newest.owner.process.is_dead()
        try:
            unchanged = age_of(storage, number, newest)
        except AccessDenied:  # without write access, treat it as held
            unchanged = timedelta()
        free = why_free(newest, unchanged, owner_dead=dead) is not None
        # A command's lease shows nothing about jobs that were started without a lease.
        known = newest.owner.pipeline not in COMMAND_OWNERS
        return cls(known=known, holder=None if free else newest.describe())


@dataclass(frozen=True, slots=True)
class _Signs:
    """Signs of life of instants and of their rollbacks."""

    storage: Storage
    now: datetime
    changed: Mapping[str, datetime]
    """Request time -> when a file of the instant on the timeline was last changed."""
    lease: _Lease
    files: Mapping[str, set[str]]

    def added_to(self, found: Facts) -> Facts:
        is_pipelines, time = found.pipeline is not None, found.request_time
        return replace(
            found,
            held_by=self.lease.holder if is_pipelines else None,
            quiet=None if is_pipelines and self.lease.known else self._quiet([time]),
            rollback_quiet=self._quiet(found.rollbacks),
            files=tuple(sorted(self.files.get(time, ()))),
            traces=heartbeat.last_beat(self.storage, time) is not None
            or next(iter(self.storage.list(marker_directory(time))), None) is not None,
        )

    def _quiet(self, times: Iterable[str]) -> timedelta | None:
        signs = [sign for time in times for sign in (self.changed.get(time), heartbeat.last_beat(self.storage, time))]
        last = max((sign for sign in signs if sign is not None), default=None)
        return None if last is None else self.now - last
