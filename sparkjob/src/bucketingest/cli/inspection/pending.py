"""About instants that have not completed: their pipeline, whether a writer is active, what to do. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bucketingest.cli.inspection.report import PendingInstant
from bucketingest.cli.inspection.snapshot import TableSnapshot
from bucketingest.hudi.errors import InvalidName
from bucketingest.hudi.timeline.heartbeat import is_expired
from bucketingest.hudi.timeline.instant import CLEAN, COMPACTION, DELTA_COMMIT, ROLLBACK, Instant
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.write.instants.commit_content import EPOCH
from bucketingest.write.recovery.decide import Policy, Step, decide
from bucketingest.write.recovery.facts import Facts

_DOES: Final = {
    Step.RESUME: "resumes the instant",
    Step.COMPLETE: "completes the instant",
    Step.CLOSE: "closes the instant",
    Step.ROLL_BACK: "rolls the instant back and ingests its rows again",
}
_FINISHED_BY: Final = {
    COMPACTION: "if a job or command of bucketingest planned it, the job or bucketingest compact finishes it; if Hudi "
    "did, run it again with Hudi, or have Hudi roll it back",
    CLEAN: "the job, if it carries out table services, or bucketingest clean finishes it; Hudi's next clean does, too",
}
_TABLE_SERVICES: Final = frozenset({"logcompaction", "clustering", "indexing", "replacecommit"})


def pending_instants(snapshot: TableSnapshot, limit: timedelta) -> tuple[PendingInstant, ...]:
    """Every pending instant, the oldest first; those older than the limit hang."""
    return tuple(_pending(instant, snapshot, limit) for instant in snapshot.timeline.pending)


def _pending(instant: Instant, snapshot: TableSnapshot, limit: timedelta) -> PendingInstant:
    time = instant.request_time
    beat = snapshot.heartbeats.get(time)
    metadata = snapshot.inflight.get(time)
    found = snapshot.facts.get(time)
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
        pipeline=None if found is None else found.pipeline,
        epoch=None if metadata is None else metadata.extra_metadata.get(EPOCH),
        advice=_advice(instant, found, hangs=hangs, alive=alive),
    )


def _age(time: str, snapshot: TableSnapshot) -> timedelta:
    try:
        return max(timedelta(), snapshot.now - (parse_time(time) - snapshot.zone_offset))
    except InvalidName:
        return timedelta()


def _advice(instant: Instant, found: Facts | None, *, hangs: bool, alive: bool) -> str:
    if not hangs:
        return "nothing: it is young, its writer is probably active"
    if instant.action in _FINISHED_BY:
        return _FINISHED_BY[instant.action]
    if instant.action in _TABLE_SERVICES:
        return (
            f"a {instant.action} of Hudi's table services: bucketingest never touches it; run it again with Hudi, or "
            "have Hudi roll it back"
        )
    if instant.action == ROLLBACK:
        return "a rollback that did not finish: bucketingest rollback finishes it; else Hudi's EAGER writers may fail"
    if alive:
        return "its heartbeat is recent, so its writer may be active: look at that process first"
    if found is not None and found.pipeline is not None:
        choice = decide(found, Policy.RESUME)
        return (
            f"start pipeline {found.pipeline} (bucketingest run): its start {_DOES[choice.step]} ({choice.reason}), "
            "without losing or doubling a row; or free the table now: bucketingest rollback"
        )
    if instant.action == DELTA_COMMIT:
        return (
            "another writer's, without a recent heartbeat: its own next start rolls it back, or bucketingest rollback "
            f"--instant {instant.request_time} does; first make sure that the writer has ended"
        )
    return "another writer's: its own next start deals with it"
