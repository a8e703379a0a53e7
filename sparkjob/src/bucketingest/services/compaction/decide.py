"""What happens next to a compaction that bucketingest planned: one record of facts, one table of decisions. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline.instant import State
from bucketingest.services.compaction.records import Round
from bucketingest.services.protocol.records import End
from bucketingest.write.instants.records import AbortDecision, CommitDecision, Decision


class Step(StrEnum):
    """The next thing that the holder of the table does for a compaction."""

    NOTHING = "nothing"
    """It has ended."""
    START = "start"
    """It was requested: record that it may be carried out."""
    VOID = "void"
    """It was never requested, or something came before: nobody carries it out."""
    END = "end"
    """Record how it ended, and delete late files."""
    FINISH_ROLLBACK = "finish rollback"
    """Finish what another writer started: its rollback would delete our base files later."""
    WAIT = "wait"
    """Another writer carries it out."""
    OPEN_ROUND = "open round"
    EXECUTE = "execute"
    """Base files are missing."""
    LOOK = "look"
    """The base files must be looked for in storage."""
    COMMIT = "commit"
    """All base files are in storage."""
    COMPLETE = "complete"
    """The commit is decided: write the completed file."""
    UNDO = "undo"
    """It was completed, and a rollback deleted its base files, or will: take the completed file away."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What storage shows of such a compaction."""

    go: bool | None
    done: End | None
    state: State | None
    """Its state on the active timeline; None: it is not there."""
    archived: bool = False
    """Whether the history has it."""
    completion_time: str | None = None
    closed_completion: bool = False
    """Whether it was completed as a round before the newest one had decided."""
    clash: str | None = None
    """Why it must not be carried out; only looked for until `go` is recorded."""
    rollbacks: frozenset[str] = frozenset()
    """Request times of rollbacks that name it, pending or completed."""
    unfinished: bool = False
    """Whether one of them is pending."""
    foreign_heartbeat: bool = False
    """Whether another writer's heartbeat of it is alive."""
    lost: frozenset[Group] = frozenset()
    """Its file groups with files of instants that were rolled back, or are no longer on the timeline."""
    round_number: int = 0
    opened: Round | None = None
    """The newest round."""
    decided: Decision | None = None
    """How the newest round ended."""
    merges_alike: bool = True
    """Whether this release merges as the one that opened the newest round."""
    complete_results: bool = False
    """Whether every operation of the newest round has its result."""
    files_stand: bool | None = True
    """Whether all base files that the decision commits, without one all of the round, are in storage; None: nobody has
    looked.
    """


@dataclass(frozen=True, slots=True)
class Choice:
    """The next step, and why."""

    step: Step
    reason: str
    end: End | None = None
    """Of the step END."""


def decide(facts: Facts) -> Choice:
    """The next step for a compaction."""
    if facts.done is not None:
        return Choice(Step.NOTHING, f"it has ended: {facts.done.value}")
    if facts.go is None:
        return _first(facts)
    if not facts.go and facts.state in (None, State.REQUESTED):
        return Choice(Step.END, "nobody carries it out", End.VOID)
    if facts.state is State.COMPLETED:
        return _completed(facts)
    if facts.state is None:
        if facts.archived:
            return Choice(Step.END, "it is complete and archived", End.COMPLETED)
        return Choice(Step.END, "another writer took it off the timeline", End.GONE)
    return _pending(facts)


def _first(facts: Facts) -> Choice:
    if facts.state is None and not facts.archived:
        return Choice(Step.VOID, "its process ended before it was requested")
    if facts.clash is not None and facts.state is State.REQUESTED:
        return Choice(Step.VOID, facts.clash)
    return Choice(Step.START, "it was requested")


def _completed(facts: Facts) -> Choice:
    if facts.closed_completion:
        return Choice(Step.UNDO, "a paused process completed a round whose base files are deleted")
    decided = facts.decided
    ours = isinstance(decided, CommitDecision) and decided.completion_time == facts.completion_time
    unknown = facts.rollbacks - (facts.opened.rollbacks if facts.opened else frozenset())
    if ours and unknown and facts.unfinished:
        return Choice(Step.UNDO, f"rollback {max(unknown)} came before its end, and will delete its base files")
    if ours and unknown and facts.files_stand is None:
        return Choice(Step.LOOK, f"rollback {max(unknown)} may have deleted its base files")
    if ours and unknown and not facts.files_stand:
        return Choice(Step.UNDO, f"rollback {max(unknown)} deleted its base files")
    return Choice(Step.END, "it is complete", End.COMPLETED)


def _pending(facts: Facts) -> Choice:
    if facts.foreign_heartbeat:
        return Choice(Step.WAIT, "another writer carries it out")
    if facts.unfinished:
        return Choice(Step.FINISH_ROLLBACK, "a rollback of it is not finished")
    if facts.opened is None:
        return Choice(Step.OPEN_ROUND, "it was requested")
    decided = facts.decided
    if unknown := facts.rollbacks - facts.opened.rollbacks:
        return Choice(Step.OPEN_ROUND, f"another writer rolled it back: {max(unknown)}")
    if facts.lost - facts.opened.left_out:
        return Choice(Step.OPEN_ROUND, "another writer rolled back instants whose files it merges")
    if isinstance(decided, AbortDecision):
        return Choice(Step.OPEN_ROUND, "the round was closed")
    if decided is None and not facts.merges_alike:
        return Choice(Step.OPEN_ROUND, "it was opened by a release that merges otherwise")
    if decided is None and not facts.complete_results:
        return Choice(Step.EXECUTE, "base files are missing")
    if facts.files_stand is None:
        return Choice(Step.LOOK, "all its base files were made")
    if not facts.files_stand:
        return Choice(Step.OPEN_ROUND, "base files of the round are missing")
    if decided is not None:
        return Choice(Step.COMPLETE, "its commit is decided")
    return Choice(Step.COMMIT, "all base files are in storage")
