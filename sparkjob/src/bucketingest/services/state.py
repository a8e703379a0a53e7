"""What table services see and do, for those who report it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.damage.compare import Damaged
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.services.clustering.propose import SmallGroups
from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.placement import Home
from bucketingest.services.pods.waiting import PodWork
from bucketingest.spec.job_report import DamagedFile, Pin

log = logging.getLogger(__name__)

_COUNTS: Final = (
    "compactions",
    "cleaned_files",
    "archived_instants",
    "failures",
    "clusterings",
    "merged_groups",
)
DAMAGE_MAX: Final = 1_000
"""Damaged files that are reported: whole folders may be gone."""


@dataclass(frozen=True, slots=True)
class ServicesState:
    """What table services see and do; totals since the start of the job."""

    backlog: LogBacklog | None = None
    """As of the last look at the table; None before the first."""
    compacting: str | None = None
    """Request time of the compaction that is pending."""
    compactions: int = 0
    """Compactions that were completed."""
    cleaned_files: int = 0
    """Files that cleans deleted."""
    archived_instants: int = 0
    """Instants that were taken off the active timeline."""
    failures: int = 0
    """Steps that failed, each tried again."""
    failing: int = 0
    """Steps that failed one after the other up to now; 0: the last one did its work."""
    last_error: BucketIngestError | None = None
    """Why the newest of them failed."""
    home: Home | None = None
    """Where the newest compaction is merged; None before the first, and while they are left to Hudi."""
    why: str | None = None
    """Why there, or why they are left to Hudi."""
    pod_work: PodWork | None = None
    """What pods are wanted for now."""
    last_compaction: str | None = None
    """Request time of the newest compaction that was completed."""
    last_compaction_at: datetime | None = None
    """When that was noticed."""
    too_large: str | None = None
    """A file group of the last compaction whose base file the storage does not take: its partition needs more buckets.
    """
    pins: tuple[Pin, ...] = ()
    """What holds clean and archive, the oldest first."""
    damage: tuple[DamagedFile, ...] = ()
    """Data files that commits name and that are gone or too short."""
    small_groups: SmallGroups | None = None
    """As of the last look at a table whose small file groups are merged; None before it, and where they stay."""
    clusterings: int = 0
    """Clusterings that were committed."""
    merged_groups: int = 0
    """File groups whose place new ones took."""

    def totals(self) -> ServicesState:
        """Of a table that nobody looks after any more: what was done."""
        return replace(self, backlog=None, compacting=None, failing=0, pins=(), damage=(), small_groups=None)

    def after(self, before: ServicesState | None) -> ServicesState:
        """With the totals of the time before the table was opened again."""
        if before is None:
            return self
        return replace(self, **{name: getattr(self, name) + getattr(before, name) for name in _COUNTS})

    def pinned_for(self, service: str) -> float:
        """For how many seconds `clean` or `archive` has been held; 0 if nothing holds it."""
        return max((pin.seconds for pin in self.pins if pin.service == service), default=0.0)

    @property
    def last_failure(self) -> str | None:
        """The same in words."""
        return None if self.last_error is None else str(self.last_error)

    def oldest_log_age(self, now: datetime) -> float | None:
        """Seconds since the request of the oldest log file's instant; None without log files."""
        oldest_at = None if self.backlog is None else self.backlog.oldest_at
        return None if oldest_at is None else max(now - oldest_at, timedelta()).total_seconds()

    def compacting_for(self, now: datetime) -> float | None:
        """Seconds since the request time of the pending compaction; None without one."""
        return max(now - parse_time(self.compacting), timedelta()).total_seconds() if self.compacting else None


def together(each: Sequence[ServicesState]) -> ServicesState | None:
    """Those of several tables: counts are added, of what can be one only the oldest, the newest or the worst stays."""
    if not each:
        return None
    logs = [one.backlog for one in each if one.backlog is not None]
    oldest = min((one.oldest_at for one in logs if one.oldest_at is not None), default=None)
    backlog = LogBacklog(sum(one.log_files for one in logs), sum(one.size for one in logs), oldest) if logs else None
    small = [one.small_groups for one in each if one.small_groups is not None]
    newest = max(each, key=lambda one: one.last_compaction or "")
    placed = next((one for one in each if one.home is not None or one.why is None), each[0])  # else all are left
    return replace(
        max(each, key=lambda one: (one.failing, one.failures)),
        **{name: sum(getattr(one, name) for one in each) for name in _COUNTS},
        home=placed.home,
        why=placed.why,
        backlog=backlog,
        compacting=min((one.compacting for one in each if one.compacting), default=None),
        last_compaction=newest.last_compaction,
        last_compaction_at=newest.last_compaction_at,
        small_groups=SmallGroups(
            sum(one.groups for one in small), sum(one.size for one in small), max(one.most for one in small)
        )
        if small
        else None,
        too_large=next((one.too_large for one in each if one.too_large), None),
        pins=tuple(sorted((pin for one in each for pin in one.pins), key=lambda pin: -pin.seconds)),
        damage=tuple(islice((file for one in each for file in one.damage), DAMAGE_MAX)),
    )


def damage_report(damaged: Iterable[Damaged], known: Collection[DamagedFile] = ()) -> tuple[DamagedFile, ...]:
    """Damaged files as a job reports them. Those that are not known are logged."""
    found = tuple(
        DamagedFile(file=each.file.path, file_group=each.file_id, instant=each.file.instant, problem=each.problem)
        for each in islice(damaged, DAMAGE_MAX)
    )
    before = {each.file for each in known}
    for each in found:
        if each.file not in before:
            extra = {"file": each.file, "instant": each.instant, "problem": each.problem}
            log.error("data file damaged: its file group is neither compacted nor cleaned", extra=extra)
    return found


def with_damage(known: tuple[DamagedFile, ...], damaged: Iterable[Damaged]) -> tuple[DamagedFile, ...]:
    """The known ones, and those of a look at some file groups: only a look at the whole table shows what was mended."""
    found = {each.file: each for each in (*known, *damage_report(damaged, known))}
    return tuple(found.values())[:DAMAGE_MAX]
