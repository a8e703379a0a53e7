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

from bucketingest.hudi.commit_metadata import CommitMetadata
from bucketingest.hudi.history import archived_instants
from bucketingest.hudi.rollback import rollback_targets
from bucketingest.hudi.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.commit_content import PIPELINE, RANGES
from bucketingest.write.coordination import Coordination
from bucketingest.write.source_range import SourceRange, before, begins_after

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
    """A rollback names it: its rows count as not in the table, whatever is left of them."""


@dataclass(frozen=True, slots=True)
class Position:
    """The place from which the source must be read on."""

    end: SourceRange | None
    """Range whose end it is; None: the source's beginning."""
    lost: tuple[str, ...] = ()
    """Instants at which a hole begins, newest first: those taken back, or, where nothing is left of those, the one
    before them."""


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


def read_position(storage: Storage, timeline: Timeline, pipeline: str) -> Position:
    """The pipeline's position as the active timeline tells it."""
    targets = rollback_targets(storage, timeline)
    oldest_named = min((time for time in targets if time >= (timeline.first_active or "")), default=None)
    return position_after(_written(storage, timeline, pipeline, targets, oldest_named))


def _written(
    storage: Storage, timeline: Timeline, pipeline: str, targets: frozenset[str], oldest_named: str | None
) -> Iterable[Written]:
    seen = 0
    for instant in sorted(timeline.completed_commits, key=lambda each: each.request_time, reverse=True):
        if seen >= DEPTH or (seen >= _CHAIN and (oldest_named is None or instant.request_time < oldest_named)):
            return
        ranges = ranges_of(storage, path_of(instant), pipeline)
        if ranges:
            seen += 1
            yield Written(instant.request_time, ranges, taken_back=instant.request_time in targets)


def archived_position(storage: Storage, coordination: Coordination) -> SourceRange | None:
    """The range of our newest instant that other writers' archival took off the timeline while we were idle."""
    for request_time in reversed(coordination.instants()):
        ledgers = coordination.ledgers(request_time)
        if ledgers and archived_instants(storage, request_time):
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
