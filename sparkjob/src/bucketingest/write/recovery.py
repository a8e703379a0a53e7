"""What to do with an instant that an earlier attempt left undone. Pure: what is there goes in, a verdict comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bucketingest.write.coordination import AbortDecision, CommitDecision, Decision, Intent, LedgerEntry


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
    intent: Intent | None
    ledger: LedgerEntry | None


def verdict(found: FoundInstant) -> tuple[Verdict, str]:
    """What to do, and why, in words for the log."""
    if isinstance(found.decision, AbortDecision):
        return Verdict.ABORT, f"it was decided to abort: {found.decision.reason}"
    gone = found.rolled_back or not found.on_timeline
    if isinstance(found.decision, CommitDecision):
        if found.archived and not found.rolled_back:
            return Verdict.FORGET, "it was decided to commit and is archived"
        if gone:
            return Verdict.UNDO, "it was decided to commit, but another writer rolled it back"
        return Verdict.COMMIT, "it was decided to commit"
    if found.completed:
        return Verdict.FORGET, "it is complete, and its decision was forgotten"
    if gone:
        return Verdict.ABORT, "another writer rolled it back, or it never got onto the timeline"
    if found.ledger is not None:
        return Verdict.COMMIT, "all its rows are in storage"
    if found.intent is not None:
        return Verdict.RESUME, "its micro-batch was begun"
    return Verdict.ABORT, "nothing was begun in it"
