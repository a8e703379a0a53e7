"""What to do with an instant that an earlier attempt left undone: what is there goes in, a verdict comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bucketingest.hudi.rollback import rollbacks_of
from bucketingest.hudi.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write.commit_content import is_of_pipeline
from bucketingest.write.coordination import (
    AbortDecision,
    CommitDecision,
    Coordination,
    Decision,
    Intent,
    LedgerEntry,
)


class Verdict(Enum):
    """What happens to an instant found at the start."""

    COMMIT = "commit"
    """All its rows are in storage: decide it unless it is decided, and carry the decision out."""
    RESUME = "resume"
    """A micro-batch was begun: it is written again under the same names, and equal files are adopted."""
    ABORT = "abort"
    UNDO = "undo"
    """It was decided to commit, but another writer rolled it back: what is left of it goes, its rows are written again.
    """
    FORGET = "forget"
    """It is complete, and archived or forgotten already."""


@dataclass(frozen=True, slots=True)
class FoundInstant:
    """What storage tells about an instant of ours whose decision has not been carried out to the end."""

    request_time: str
    on_timeline: bool
    """Whether a file of it is on the active timeline, in whatever state."""
    completed: bool
    """Whether it is there as completed."""
    archived: bool
    """Whether it is not there because it is older than the active timeline."""
    rolled_back: bool
    """Whether a rollback, pending or completed, names it."""
    decision: Decision | None
    ledgers: tuple[LedgerEntry, ...]
    """Micro-batches whose rows are all in storage, in order."""
    begun: Intent | None
    """The micro-batch after them, if it was begun."""


def verdict(found: FoundInstant) -> tuple[Verdict, str]:
    """What to do, and why, in words for the log. Pure."""
    if isinstance(found.decision, AbortDecision):
        return Verdict.ABORT, f"it was decided to abort: {found.decision.reason}"
    gone = found.rolled_back or not found.on_timeline
    if isinstance(found.decision, CommitDecision):
        if found.archived and not found.rolled_back:
            return Verdict.FORGET, "it was decided to commit and is archived"
        if found.completed and found.rolled_back:
            return Verdict.FORGET, "it is complete, and a rollback of it that came too late took its files"
        if gone:
            return Verdict.UNDO, "it was decided to commit, but another writer rolled it back"
        return Verdict.COMMIT, "it was decided to commit"
    if found.completed:
        return Verdict.FORGET, "it is complete, and its decision was forgotten"
    if gone:
        return Verdict.ABORT, "another writer rolled it back, or it never got onto the timeline"
    if found.begun is not None:
        return Verdict.RESUME, "a micro-batch of it was begun"
    if found.ledgers:
        return Verdict.COMMIT, "all its rows are in storage"
    return Verdict.ABORT, "nothing was begun in it"


def find_instant(storage: Storage, coordination: Coordination, request_time: str) -> FoundInstant:
    """Read what storage tells about an instant of ours."""
    timeline = Timeline.load(storage)
    on_timeline = timeline.find(request_time)
    if on_timeline is not None and not is_of_pipeline(storage, on_timeline, coordination.pipeline):
        on_timeline = None
    ledgers = coordination.ledgers(request_time)
    return FoundInstant(
        request_time=request_time,
        on_timeline=on_timeline is not None,
        completed=on_timeline is not None and on_timeline.is_completed,
        archived=on_timeline is None and timeline.is_archived(request_time),
        rolled_back=bool(rollbacks_of(storage, timeline, request_time)),
        decision=coordination.decision(request_time),
        ledgers=ledgers,
        begun=coordination.intent(request_time, len(ledgers) + 1),
    )
