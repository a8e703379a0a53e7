"""Decides what a rollback of a table does with each instant. Pure: what was found goes in, steps with reasons come
out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from bucketingest.hudi.heartbeat import INTERVAL, TOLERABLE_MISSES
from bucketingest.hudi.instant import DELTA_COMMIT, WRITE_ACTIONS, State
from bucketingest.write.coordination import AbortDecision, CommitDecision, Decision

QUIET_MIN: Final = INTERVAL * TOLERABLE_MISSES
"""Without a sign of life for longer than this, a writer counts as gone: Hudi's own measure."""


class Step(StrEnum):
    """What happens to an instant."""

    ROLL_BACK = "roll back"
    FINISH_ROLLBACK = "finish its rollback"
    """Somebody began to roll it back."""
    COMPLETE = "complete"
    """It was decided to commit, so it is completed exactly as decided."""
    SWEEP = "sweep"
    """It is off the timeline; what came late, or what another writer's rollback left, is deleted."""
    NOTHING = "nothing"


class Left(StrEnum):
    """Why nothing happens to an instant."""

    HELD = "held"
    """Somebody may be at work on it."""
    REFUSED = "refused"
    """It was asked for by name, and must not be rolled back."""
    NOT_ASKED = "not asked for"
    DONE = "done"
    """It was asked for by name, and is rolled back already."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What was found of one instant."""

    request_time: str
    action: str | None = None
    """Its action if it is on the active timeline; else what a pending rollback's plan says, if one does."""
    state: State | None = None
    """None: it is not on the active timeline."""
    archived: bool = False
    """Whether it is off the timeline and so old that readers take it for committed."""
    pipeline: str | None = None
    """The pipeline of ours that began it; None: another writer."""
    held_by: str | None = None
    """Who holds the table's lease, if the instant is ours and somebody does."""
    decision: Decision | None = None
    settled: bool = False
    """Whether the decision has been carried out to the end."""
    rollbacks: tuple[str, ...] = ()
    """Request times of pending rollbacks that name it."""
    rolled_back: bool = False
    """Whether a completed rollback names it."""
    quiet: timedelta | None = None
    """Since its last sign of life: heartbeat or change of its files on the timeline. None: there is none, or it does
    not count, as nobody holds the table's lease.
    """
    rollback_quiet: timedelta | None = None
    """The same of the pending rollbacks."""
    files: tuple[str, ...] = ()
    """Data files that carry its time."""
    traces: bool = False
    """Whether it has a heartbeat or markers."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What happens to one instant, and why."""

    candidate: Candidate
    step: Step
    reason: str
    left: Left | None = None
    """Set if and only if the step is NOTHING."""


def choose(candidates: Iterable[Candidate], wanted: Collection[str], *, force: bool) -> tuple[Choice, ...]:
    """What happens to each instant, oldest first; those that need no word are left out.

    `wanted`: request times asked for by name; empty: everything of ours and every rollback that was begun. `force`:
    also what somebody may be at work on.
    """
    choices = []
    for candidate in sorted(candidates, key=lambda each: each.request_time):
        named = candidate.request_time in wanted
        if wanted and not named:
            continue
        choice = _choose(candidate, named=named)
        if choice is not None and choice.step is not Step.NOTHING and not force and (held := _held(choice)) is not None:
            choice = None if candidate.state is State.COMPLETED else held
        if choice is not None:
            choices.append(choice)
    return tuple(choices)


def _choose(candidate: Candidate, *, named: bool) -> Choice | None:
    if candidate.action not in (None, *WRITE_ACTIONS) or (
        candidate.state is not State.COMPLETED and candidate.action not in (None, DELTA_COMMIT)
    ):
        why = (
            f"it is a {candidate.action}: only deltacommits are rolled back here; leave it to the writer that began it"
        )
        return _leave(candidate, Left.REFUSED if named else Left.NOT_ASKED, why)
    if candidate.state is State.COMPLETED:
        return _completed(candidate, named=named)
    if candidate.pipeline is not None:
        return _ours(candidate, named=named)
    if candidate.rollbacks:
        return Choice(candidate, Step.FINISH_ROLLBACK, f"rollback {candidate.rollbacks[0]} was begun and not finished")
    if candidate.state is not None:
        if named:
            return Choice(candidate, Step.ROLL_BACK, "another writer's, asked for by name")
        why = "another writer's: its own next start deals with it, or name it with --instant"
        return _leave(candidate, Left.NOT_ASKED, why)
    return _foreign_gone(candidate) if named else None


def _completed(candidate: Candidate, *, named: bool) -> Choice | None:
    if candidate.rollbacks:
        why = (
            f"it is completed, yet rollback {candidate.rollbacks[0]} of it was begun; Hudi's next write may finish "
            "that and take its rows. "
        )
        why += (
            f"Start pipeline {candidate.pipeline}: it ingests them again"
            if candidate.pipeline is not None
            else "Its writer must write them again"
        )
        return _leave(candidate, Left.REFUSED if named else Left.NOT_ASKED, why)
    if isinstance(candidate.decision, CommitDecision) and not candidate.settled and candidate.traces:
        return Choice(candidate, Step.COMPLETE, "it is completed, and its heartbeat or markers are left")
    if not named:
        return None
    return _leave(candidate, Left.REFUSED, "it is completed: its rows have been read and are never taken back")


def _ours(candidate: Candidate, *, named: bool) -> Choice | None:
    decision, taken_back = candidate.decision, bool(candidate.rollbacks) or candidate.rolled_back
    if isinstance(decision, CommitDecision):
        if candidate.state is not None and not taken_back:
            return Choice(candidate, Step.COMPLETE, "it was decided to commit")
        if candidate.archived and not taken_back:
            return _leave(candidate, Left.REFUSED, "it is completed and archived") if named else None
    if candidate.rollbacks:
        return Choice(candidate, Step.FINISH_ROLLBACK, f"rollback {candidate.rollbacks[0]} was begun and not finished")
    if candidate.state is not None:
        if isinstance(decision, AbortDecision):
            return Choice(candidate, Step.ROLL_BACK, f"it was decided to abort: {decision.reason}")
        return Choice(candidate, Step.ROLL_BACK, "it was begun and not completed")
    if decision is None and not candidate.settled:
        return Choice(candidate, Step.ROLL_BACK, "it was begun, and is not on the timeline")
    if (candidate.files or candidate.traces) and decision is not None:
        return Choice(candidate, Step.SWEEP, "it was rolled back, and something of it is there")
    return _leave(candidate, Left.DONE, "it is rolled back") if named else None


def _foreign_gone(candidate: Candidate) -> Choice:
    if candidate.archived and not candidate.rolled_back:
        why = "it is older than the active timeline: readers take it for completed and archived"
        return _leave(candidate, Left.REFUSED, why)
    if candidate.files or candidate.traces:
        return Choice(candidate, Step.SWEEP, "it is not on the timeline, and something of it is there")
    if candidate.rolled_back:
        return _leave(candidate, Left.DONE, "it is rolled back")
    return _leave(
        candidate, Left.REFUSED, "there is no such instant: neither on the timeline, nor in a rollback, nor in a file"
    )


def _held(choice: Choice) -> Choice | None:
    """The same instant left alone, if somebody may be at work on it."""
    candidate = choice.candidate
    if choice.step is Step.SWEEP:
        return None
    if candidate.held_by is not None:
        why = f"the table is held by {candidate.held_by}: stop that job, or take --force, which fences it out"
        return _leave(candidate, Left.HELD, why)
    if _alive(candidate.quiet):
        why = f"its writer gave a sign of life {_seconds(candidate.quiet)} ago"
    elif _alive(candidate.rollback_quiet) and not isinstance(candidate.decision, AbortDecision):
        why = f"rollback {candidate.rollbacks[0]} of it gave a sign of life {_seconds(candidate.rollback_quiet)} ago"
    else:
        return None
    return _leave(
        candidate,
        Left.HELD,
        f"{why}: stop that process and wait until {_seconds(QUIET_MIN)} have passed, or take --force",
    )


def _alive(quiet: timedelta | None) -> bool:
    return quiet is not None and quiet <= QUIET_MIN


def _leave(candidate: Candidate, left: Left, why: str) -> Choice:
    return Choice(candidate, Step.NOTHING, why, left)


def _seconds(length: timedelta | None) -> str:
    return f"{max(0, round((length or timedelta()).total_seconds()))} s"
