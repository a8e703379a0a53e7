"""What to make of instants that have not completed: whose they are, whether somebody is at work, what to do. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.cli.inspection.report import PendingInstant
from bucketingest.cli.inspection.snapshot import TableSnapshot
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.heartbeat import is_expired
from bucketingest.hudi.instant import DELTA_COMMIT, ROLLBACK, Instant, parse_time
from bucketingest.write.commit_content import EPOCH, PIPELINE

_TABLE_SERVICES: Final = frozenset({"compaction", "logcompaction", "clustering", "clean", "indexing", "replacecommit"})


def pending_instants(snapshot: TableSnapshot, limit: timedelta) -> tuple[PendingInstant, ...]:
    """Every pending instant, the oldest first; those older than the limit hang."""
    return tuple(_pending(instant, snapshot, limit) for instant in snapshot.timeline.pending)


def _pending(instant: Instant, snapshot: TableSnapshot, limit: timedelta) -> PendingInstant:
    time = instant.request_time
    beat = snapshot.heartbeats.get(time)
    metadata = snapshot.inflight.get(time)
    pipeline = _owner(time, snapshot) if metadata is None else metadata.extra_metadata.get(PIPELINE)
    age = _age(time, snapshot)
    hangs = age > limit
    alive = not is_expired(beat, snapshot.now)
    return PendingInstant(
        time=time,
        action=instant.action,
        state=instant.state.value,
        age=age.total_seconds(),
        hangs=hangs,
        heartbeat_age=None if beat is None else (snapshot.now - beat).total_seconds(),
        pipeline=pipeline,
        epoch=None if metadata is None else metadata.extra_metadata.get(EPOCH),
        advice=_advice(instant, pipeline, hangs=hangs, alive=alive),
    )


def _owner(time: str, snapshot: TableSnapshot) -> str | None:
    """Whose instant it is by the coordination objects, which are there before the inflight file."""
    return next((each.pipeline for each in snapshot.coordinated if time in each.open_instants), None)


def _age(time: str, snapshot: TableSnapshot) -> timedelta:
    try:
        return max(timedelta(), snapshot.now - (parse_time(time) - snapshot.zone_offset))
    except InvalidName:
        return timedelta()


def _advice(instant: Instant, pipeline: str | None, *, hangs: bool, alive: bool) -> str:
    if not hangs:
        return "nothing: it is young, its writer is probably at work"
    if instant.action in _TABLE_SERVICES:
        return (
            f"a {instant.action} of Hudi's table services: bucketingest never touches it; run it again with Hudi, or "
            "have Hudi roll it back"
        )
    if instant.action == ROLLBACK:
        return "a rollback that did not finish: bucketingest rollback finishes it; else Hudi's EAGER writers may fail"
    if alive:
        return "its writer still gives signs of life: look at that process before anything else"
    if pipeline is not None:
        return (
            f"start pipeline {pipeline} (bucketingest run): its start finishes the instant or takes it back, without "
            "losing or doubling a row; or take it back now: bucketingest rollback"
        )
    if instant.action == DELTA_COMMIT:
        return (
            "another writer's, without sign of life: its own next start rolls it back, or bucketingest rollback "
            f"--instant {instant.request_time} does; first make sure that the writer is gone"
        )
    return "another writer's: its own next start deals with it"
