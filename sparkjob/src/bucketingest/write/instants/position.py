"""The committed source position, read from the timeline alone, because other writers may roll back a pipeline's
instants at any time.

The newest completed instant says where the source ends in the table. But an earlier instant may be missing: rolled back
by a writer that does not wait for live ones (Hudi 1.2.0's EAGER cleaning), or completed after its rollback had started.
The ranges of a pipeline's instants form a chain, so a hole shows. The position is then the start of the first hole: all
that follows is ingested again, in order, which gives the same table with and without an ordering field.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from bucketingest.hudi.history.archived import archived_commits, archived_contents, is_archived
from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.commit_content import RANGES
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision
from bucketingest.write.instants.source_range import SourceRange, before, begins_after, reaches_beyond
from bucketingest.write.pipeline_names import PIPELINE

_CHAIN: Final = 20
"""Newest instants of the pipeline that are searched for holes, also when no rollback names an older one."""


@dataclass(frozen=True, slots=True)
class Written:
    """An instant of the pipeline, and its part of the source."""

    request_time: str
    ranges: tuple[SourceRange, ...]
    rolled_back: bool = False
    """A rollback names it, or it was overtaken: its rows count as not in the table, even if some are left."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading the source continues."""

    end: SourceRange | None
    """The range that ends there; None: the source's beginning."""
    lost: tuple[str, ...] = ()
    """Instants at which a hole starts, newest first: those rolled back, or, if nothing is left of them, the one
    before the hole."""
    superseded: frozenset[str] = frozenset()
    """Instants whose rows are, or were, ingested again: their dead letters must not stay published."""


def position_after(newest_first: Iterable[Written]) -> Position:
    """The position that a pipeline's instants add up to. Pure."""
    end: SourceRange | None = None
    need: SourceRange | None = None  # the earliest range that counts, from the newest instant on
    lost: list[str] = []
    for instant in newest_first:
        first = instant.ranges[0]
        has_up_to = before(first) if instant.rolled_back else instant.ranges[-1]
        if need is None or begins_after(need, has_up_to):
            if need is not None or instant.rolled_back:
                lost.append(instant.request_time)
            end, need = has_up_to, first
        elif begins_after(need, before(first)):
            need = first
    return Position(end, tuple(lost))


def read_position(storage: Storage, timeline: Timeline, journal: Journal) -> Position:
    """The pipeline's position by the active timeline, or by its journal if all of its instants are archived."""
    objects_by_instant = journal.objects_by_instant()
    closed = {time for time, objects in objects_by_instant.items() if "done" in objects and "aborted" not in objects}
    overtaken = {
        time for time, objects in objects_by_instant.items() if "overtaken" in objects and "aborted" not in objects
    }
    withdrawn = {time for time, objects in objects_by_instant.items() if "withdrawn" in objects}
    rolled_back = rollback_targets(storage, timeline) | overtaken
    named = (time for time in rolled_back if time >= (timeline.first_active or ""))
    oldest_named = min((time for time in named if not _never_completed(journal, time)), default=None)
    written = list(_written(storage, timeline, journal.pipeline, rolled_back, oldest_named))
    written += (  # those archived before a compaction was found to leave them out, until their rows come again
        Written(time, ranges, rolled_back=True)
        for time in sorted(journal.missing(objects_by_instant) - {each.request_time for each in written}, reverse=True)
        if (timeline.is_archived(time) or is_archived(storage, time))
        and (ranges := _kept_ranges(storage, journal, time))
    )
    position = position_after(written)
    end = position.end
    if not position.lost and (end is None or _is_put_back(storage, journal, written[0], rolled_back)):
        end = _archived_position(storage, journal, rolled_back)
    if not position.lost:
        return Position(end, (), (rolled_back & closed) | withdrawn)
    # `written` ends before those that follow an archived one.
    seen = _seen(storage, timeline, journal.pipeline, min(position.lost))
    last_ranges = {each.request_time: each.ranges[-1] for each in (*written, *seen)}
    again = {time for time, last_range in last_ranges.items() if reaches_beyond(last_range, end)}
    return Position(end, position.lost, rolled_back | again | withdrawn)


def lost_in_archive(storage: Storage, timeline: Timeline, pipeline: str, named: Collection[str]) -> set[str]:
    """Archived instants of the pipeline among those that rollbacks name, unless their rows have come again. For those
    of which the journal has nothing any more.
    """
    return not_come_again(storage, timeline, pipeline, {time for time in named if timeline.is_archived(time)})


def not_come_again(storage: Storage, timeline: Timeline, pipeline: str, lost: Collection[str]) -> set[str]:
    """Those of the lost instants, archived ones, whose rows no later one has."""
    if not lost:
        return set()
    seen = _seen(storage, timeline, pipeline, min(lost))
    return set(lost) & set(position_after(replace(each, rolled_back=each.request_time in lost) for each in seen).lost)


def _seen(storage: Storage, timeline: Timeline, pipeline: str, first: str) -> list[Written]:
    """All instants of the pipeline from `first` on, newest first, archived ones too: not those that came after this
    timeline. One that came late may be older than archived ones.
    """
    newest = max(timeline.times, default="")
    found = {time: _ranges_in(content, time, pipeline) for time, content in archived_commits(storage, first)}
    for instant in timeline.completed_commits:
        if instant.request_time >= first:
            found[instant.request_time] = ranges_of(storage, path_of(instant), pipeline)
    return [Written(time, found[time]) for time in sorted(found, reverse=True) if time <= newest and found[time]]


def _kept_ranges(storage: Storage, journal: Journal, instant: str) -> tuple[SourceRange, ...]:
    """What an archived instant wrote, by the journal, or by the history when the journal has forgotten it."""
    if ledgers := journal.ledgers(instant):
        return tuple(entry.source_range for entry in ledgers)
    contents = archived_contents(storage, instant, DELTA_COMMIT)
    return _ranges_in(contents[0], instant, journal.pipeline) if contents else ()


def _written(
    storage: Storage, timeline: Timeline, pipeline: str, rolled_back: frozenset[str], oldest_named: str | None
) -> Iterable[Written]:
    seen = 0
    for instant in sorted(timeline.completed_commits, key=lambda each: each.request_time, reverse=True):
        if seen >= _CHAIN and (oldest_named is None or instant.request_time < oldest_named):
            return
        if seen and timeline.is_archived(instant.request_time):
            return  # kept by a savepoint: what followed it is archived, not a hole
        ranges = ranges_of(storage, path_of(instant), pipeline)
        if ranges:
            seen += 1
            yield Written(instant.request_time, ranges, rolled_back=instant.request_time in rolled_back)


def _never_completed(journal: Journal, instant: str) -> bool:
    """Whether a rollback of the instant makes no hole: it was decided that it never completes."""
    return isinstance(journal.decision(instant), AbortDecision)


def _is_put_back(storage: Storage, journal: Journal, newest: Written, rolled_back: frozenset[str]) -> bool:
    """Whether a newer instant than the newest on the timeline was archived while the pipeline was idle: a request that
    was on its way for long put an older one back.
    """
    kept = journal.kept_position()
    if kept is None or kept[0] <= newest.request_time or kept[0] in rolled_back:
        return False
    return is_archived(storage, kept[0])


def _archived_position(storage: Storage, journal: Journal, rolled_back: frozenset[str]) -> SourceRange | None:
    """The range of the pipeline's newest instant that was archived while the pipeline was idle."""
    kept = journal.kept_position()
    for request_time in reversed(journal.instants()):
        if kept is not None and request_time <= kept[0]:
            break
        ledgers = journal.ledgers(request_time)
        if ledgers and request_time not in rolled_back and is_archived(storage, request_time):
            return ledgers[-1].source_range
    return None if kept is None or kept[0] in rolled_back else kept[1]


def ranges_of(storage: Storage, path: str, pipeline: str) -> tuple[SourceRange, ...]:
    """The pipeline's source ranges in a completed instant; empty if it is another writer's, or missing."""
    try:
        return _ranges_in(storage.get(path), path, pipeline)
    except NotFound:
        return ()


def _ranges_in(content: bytes, where: str, pipeline: str) -> tuple[SourceRange, ...]:
    extra = CommitMetadata.decode_extra(content, where)
    if extra.get(PIPELINE) != pipeline:
        return ()
    return tuple(SourceRange.from_json(record) for record in json.loads(extra[RANGES]))
