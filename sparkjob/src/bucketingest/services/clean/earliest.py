"""From which instant on a table retains everything: readers that started a while ago, and Hudi's next clean, rely on
it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from bucketingest.hudi.timeline.instant import COMMIT, REPLACE_COMMIT, SAVEPOINT, WRITE_ACTIONS, Instant
from bucketingest.hudi.timeline.instant_time import format_time
from bucketingest.hudi.timeline.timeline import Timeline

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
