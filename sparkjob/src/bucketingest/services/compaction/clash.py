"""Why a compaction that is on the timeline must not be carried out: something came before its request did. The request
may have been on its way for hours, or its process ended before it could look.
"""

from __future__ import annotations

from collections.abc import Iterator

from bucketingest.hudi.plans.compaction_plan import read_compaction_plan
from bucketingest.hudi.timeline.instant import (
    CLUSTERING,
    COMMIT,
    COMPACTION,
    LOG_COMPACTION,
    SAVEPOINT,
    Instant,
    State,
)
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.services.compaction.propose import claimed, open_at
from bucketingest.services.compaction.records import PlanRecord
from bucketingest.storage import Storage, get_if_there


def clash(storage: Storage, timeline: Timeline, record: PlanRecord) -> str | None:
    """The first reason, in words; None if there is none. Raises what reading a table raises."""
    return next(_clashes(storage, timeline, record), None)


def requested_path(compaction: str) -> str:
    """Path of the requested file, which has the plan."""
    return path_of(Instant(compaction, COMPACTION, State.REQUESTED))


def is_requested(storage: Storage, record: PlanRecord) -> bool:
    """Whether the requested file has this plan, and is not another writer's with its time."""
    return get_if_there(storage, requested_path(record.compaction)) == record.content


def _clashes(storage: Storage, timeline: Timeline, record: PlanRecord) -> Iterator[str]:
    compaction = record.compaction
    for instant in timeline.instants:
        if instant.request_time == compaction:
            if instant.action not in (COMMIT, COMPACTION, SAVEPOINT):  # a savepoint is on it: another writer was fast
                yield f"{instant.action} {compaction} has its time"
            if instant.action == COMPACTION and not is_requested(storage, record):
                yield "another writer requested a compaction with its time"
        elif instant.is_completed:
            continue
        elif instant.action == CLUSTERING:
            yield f"clustering {instant.request_time} is pending"
        elif instant.action in (COMPACTION, LOG_COMPACTION):
            other = read_compaction_plan(storage, instant.request_time, instant.action)
            if other is None or not record.groups().isdisjoint(operation.group for operation in other.operations):
                yield f"a file group of it is in {instant.action} {instant.request_time}"
    # Readers know a file's instant by its time alone: they would show the files of one that was aborted.
    if compaction in (ours := claimed(storage)):
        yield "an instant of a pipeline has its time"
    for time in open_at(compaction, timeline, ours):
        yield f"instant {time} was open at its time"
