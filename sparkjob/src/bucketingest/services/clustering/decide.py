"""What happens to a clustering that has not ended: one record of facts, one table of decisions. Pure.

Who plans a clustering also commits it; any other process, and the same one after a failure, only ends it. So one
without a decision is void. One that was decided may still be completed by the process that decided it, however long
that was paused. Therefore the name of its completed file is taken in any case: by the commit, if the file groups are as
they were, else by one that replaces nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bucketingest.services.protocol.records import End
from bucketingest.write.instants.records import AbortDecision, Decision


class Step(StrEnum):
    """The next thing that the holder of the table does for a clustering."""

    NOTHING = "nothing"
    """It has ended."""
    VOID = "void"
    """Decide that it is never committed."""
    COMPLETE = "complete"
    """Write the completed file as decided."""
    CLOSE = "close"
    """Write a completed file that replaces nothing under the name that was decided."""
    UNDO = "undo"
    """Put such a file in the place of the one that is there."""
    END = "end"
    """Record how it ended, and delete what it made and did not commit."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What storage shows of a clustering."""

    done: End | None = None
    decided: Decision | None = None
    completed: bytes | None = None
    """Content of the completed file on the timeline; None: it is not there."""
    archived: bool = False
    """Whether the history has it."""
    changed: str | None = None
    """Why the new groups must not take the place of the old ones: these were written to since, or files are missing."""
    built_on: bool = False
    """Whether another instant wrote to a new group: it is too late to take it back."""
    cleaned: bool = False
    """Whether files of the old groups are gone or about to be deleted: then their rows are in the new groups alone."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The next step, and why."""

    step: Step
    reason: str
    end: End | None = None
    """Of the step END."""


def decide(facts: Facts) -> Choice:
    """The next step for a clustering."""
    if facts.done is not None:
        return Choice(Step.NOTHING, f"it has ended: {facts.done.value}")
    decided = facts.decided
    if decided is None:
        return Choice(Step.VOID, "the process that planned it has not decided it")
    if isinstance(decided, AbortDecision):
        return Choice(Step.END, "it is never committed", End.VOID)
    if facts.archived:
        return Choice(Step.END, "it is complete and archived", End.COMPLETED)
    if facts.completed is None:
        if facts.changed is not None:
            return Choice(Step.CLOSE, facts.changed)
        return Choice(Step.COMPLETE, "its commit is decided")
    if facts.completed != decided.content:
        return Choice(Step.END, "it was closed", End.VOID)
    if facts.changed is not None and not (facts.built_on or facts.cleaned):
        return Choice(Step.UNDO, facts.changed)
    return Choice(Step.END, "it is complete", End.COMPLETED)
