"""Up to where the source is in the table, read from the timeline alone, because other writers may take back instants of
ours at any time.

The newest completed instant says where the source ends in the table; but an instant before it may be gone, rolled
back by a writer that does not wait for live ones (Hudi 1.2.0's EAGER cleaning), or completed over a rollback that had
already begun. The ranges of our instants chain, so a hole shows. The position is then the place where the first hole
begins: all that follows is ingested again, in order, which leaves the same table with and without an ordering field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.history import is_archived
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.commit_content import PIPELINE, RANGES
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.source_range import SourceRange, before, begins_after, reaches_beyond

DEPTH: Final = 200
"""Instants of ours that are looked through for holes, counted from the newest."""
_CHAIN: Final = 20
"""Instants of ours that are looked through when no rollback tells of an older one."""


@dataclass(frozen=True, slots=True)
class Written:
    """An instant of ours, and what part of the source it is."""

    request_time: str
    ranges: tuple[SourceRange, ...]
    taken_back: bool = False
    """A rollback names it, or it was overtaken: its rows count as not in the table, whatever is left of them."""


@dataclass(frozen=True, slots=True)
class Position:
    """The place from which the source must be read on."""

    end: SourceRange | None
    """Range whose end it is; None: the source's beginning."""
    lost: tuple[str, ...] = ()
    """Instants at which a hole begins, newest first: those taken back, or, where nothing is left of those, the one
    before them."""
    superseded: frozenset[str] = frozenset()
    """Instants whose rows are ingested again, also those of which that is done: dead letters of them must not stand."""


def position_after(newest_first: Iterable[Written]) -> Position:
    """The position that a pipeline's instants add up to. Pure."""
    end: SourceRange | None = None
    need: SourceRange | None = None  # range that begins earliest of those that count, from the newest instant on
    lost: list[str] = []
    for instant in newest_first:
        first = instant.ranges[0]
        has_up_to = before(first) if instant.taken_back else instant.ranges[-1]
        if need is None or begins_after(need, has_up_to):
            if need is not None or instant.taken_back:
                lost.append(instant.request_time)
            end, need = has_up_to, first
        elif begins_after(need, before(first)):
            need = first
    return Position(end, tuple(lost))


def read_position(storage: Storage, timeline: Timeline, journal: Journal) -> Position:
    """The pipeline's position as the active timeline tells it, or its own objects where all of it is archived."""
    standing = journal.standing()
    closed = {time for time, objects in standing.items() if "done" in objects and "aborted" not in objects}
    overtaken = {time for time, objects in standing.items() if "overtaken" in objects and "aborted" not in objects}
    taken_back = rollback_targets(storage, timeline) | overtaken
    oldest_named = min((time for time in taken_back if time >= (timeline.first_active or "")), default=None)
    written = list(_written(storage, timeline, journal.pipeline, taken_back, oldest_named))
    newest = max(closed - overtaken, default="")
    written += (  # those that were archived before a compaction was found to leave them out, until they come again
        Written(time, tuple(entry.source_range for entry in ledgers), taken_back=True)
        for time in sorted(overtaken - {each.request_time for each in written}, reverse=True)
        if timeline.is_archived(time)
        and newest <= journal.newest_when_overtaken(time)
        and (ledgers := journal.ledgers(time))
    )
    position = position_after(written)
    end = position.end or _archived_position(storage, journal, taken_back)
    again = {each.request_time for each in written if reaches_beyond(each.ranges[-1], end)} if position.lost else set()
    return Position(end, position.lost, frozenset(again | (taken_back if position.lost else taken_back & closed)))


def _written(
    storage: Storage, timeline: Timeline, pipeline: str, taken_back: frozenset[str], oldest_named: str | None
) -> Iterable[Written]:
    seen = 0
    for instant in sorted(timeline.completed_commits, key=lambda each: each.request_time, reverse=True):
        if seen >= DEPTH or (seen >= _CHAIN and (oldest_named is None or instant.request_time < oldest_named)):
            return
        if seen and timeline.is_archived(instant.request_time):
            return  # kept by a savepoint: what followed it is archived, which is no hole
        ranges = ranges_of(storage, path_of(instant), pipeline)
        if ranges:
            seen += 1
            yield Written(instant.request_time, ranges, taken_back=instant.request_time in taken_back)


def _archived_position(storage: Storage, journal: Journal, taken_back: frozenset[str]) -> SourceRange | None:
    """The range of our newest instant that other writers' archival took off the timeline while we were idle."""
    for request_time in reversed(journal.instants()):
        ledgers = journal.ledgers(request_time)
        if ledgers and request_time not in taken_back and is_archived(storage, request_time):
            return ledgers[-1].source_range
    return None


def ranges_of(storage: Storage, path: str, pipeline: str) -> tuple[SourceRange, ...]:
    """The source ranges that a completed instant has of the pipeline; none if it is another writer's, or gone."""
    try:
        extra = CommitMetadata.decode_extra(storage.get(path), path)
    except NotFound:
        return ()
    if extra.get(PIPELINE) != pipeline:
        return ()
    return tuple(SourceRange.from_json(record) for record in json.loads(extra[RANGES]))
