"""Which files a clean deletes: whole file slices that every reader has left behind, and nothing that is not elsewhere.
Pure.

A slice goes only if all its rows are in the base file that superseded it: a log file that no compaction merged holds
the only copy of its rows, so its slice stays and is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self

from bucketingest.hudi.plans.clean_plan import BY_HOURS, BY_VERSIONS, SAVEPOINTS, CleanPlan, Earliest
from bucketingest.hudi.table.file_view import FileGroup, FileSlice, FileView
from bucketingest.hudi.timeline.instant import RESTORE, WRITE_ACTIONS
from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.services.clean.earliest import Limit, earliest_to_retain
from bucketingest.services.clean.facts import CleanFacts
from bucketingest.services.clean.reasons import Reasons
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
