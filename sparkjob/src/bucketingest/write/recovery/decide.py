"""Decides what happens to an instant that an attempt left. Pure: facts in, a step with its reason out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, StrEnum
from typing import Final

from bucketingest.hudi.timeline.heartbeat import INTERVAL, TOLERABLE_MISSES
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, WRITE_ACTIONS, State
from bucketingest.write.instants.records import AbortDecision, CommitDecision
from bucketingest.write.recovery.facts import Facts

QUIET_MIN: Final = INTERVAL * TOLERABLE_MISSES
"""A writer without a sign of life for longer than this counts as dead: Hudi's own limit."""


class Policy(Enum):
    """What is done with a pipeline's undecided instant."""

    RESUME = "resume"
    """The pipeline itself starts: complete micro-batches are committed, a started one is written again."""
    ROLL_BACK = "roll back"
    """Another pipeline starts, or a person runs the rollback command: the rows come again when the pipeline starts."""


class Step(StrEnum):
    """What happens to an instant."""

    RESUME = "resume"
    """Its last micro-batch is written again under the same names, and equal files are adopted."""
    COMPLETE = "complete"
    """It is decided to commit unless it is decided, and completed exactly as decided."""
    CLOSE = "close"
    """It is completed; its dead letters are published, its heartbeat and markers deleted."""
    ROLL_BACK = "roll back"
    FINISH_ROLLBACK = "finish its rollback"
    SWEEP = "sweep"
    """It is off the timeline; late files, and those that another writer's rollback left, are deleted."""
    NOTHING = "nothing"


class Left(StrEnum):
    """Why nothing happens to an instant."""

    HELD = "held"
    """Its writer may still work on it."""
    REFUSED = "refused"
    """It was requested by name, and must not be rolled back."""
    NOT_ASKED = "not asked for"
    DONE = "done"
    """It was requested by name, and is already rolled back."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What happens to one instant, and why."""

    found: Facts
    step: Step
    reason: str
    left: Left | None = None
    """Set if and only if the step is NOTHING."""


def decide(found: Facts, policy: Policy) -> Choice:
    """What happens to a pipeline's instant whose decision was not carried out completely."""
    decision = found.decision
    rolled_back = bool(found.rollbacks) or found.rolled_back
    if isinstance(decision, AbortDecision):
        return Choice(found, Step.ROLL_BACK, f"it was decided to abort: {decision.reason}")
    if found.state is State.COMPLETED and found.rollbacks and isinstance(decision, CommitDecision):
        why = f"it completed while rollback {found.rollbacks[0]} of it was under way"
        # The pipeline itself ingests its rows again immediately; any other process would only hide them from readers.
        return Choice(found, Step.ROLL_BACK if policy is Policy.RESUME else Step.CLOSE, why)
    if found.state is State.COMPLETED or found.archived:
        archived = " and archived" if found.archived else ""
        late = ", and a rollback that came too late deleted its files" if rolled_back else ""
        return Choice(found, Step.CLOSE, f"it is complete{archived}{late}")
    if isinstance(decision, CommitDecision):
        if found.state is None or rolled_back:
            return Choice(found, Step.ROLL_BACK, "it was decided to commit, but another writer rolled it back")
        if found.overtaken_by is not None:
            why = f"it was decided to commit at {decision.completion_time}, and {found.overtaken_by} came before it"
            return Choice(found, Step.ROLL_BACK, why)
        return Choice(found, Step.COMPLETE, "it was decided to commit")
    if found.state is None or rolled_back:
        return Choice(found, Step.ROLL_BACK, "another writer rolled it back, or it was never on the timeline")
    if found.behind_archive or found.shares_time:
        why = "newer instants were archived before it was on the timeline"
        return Choice(found, Step.ROLL_BACK, "another writer's compaction has its time" if found.shares_time else why)
    if policy is Policy.ROLL_BACK:
        return Choice(found, Step.ROLL_BACK, "it was started and not completed")
    if found.started is not None:
        return Choice(found, Step.RESUME, "a micro-batch of it was started")
    if found.ledgers:
        return Choice(found, Step.COMPLETE, "all its rows are in storage")
    return Choice(found, Step.ROLL_BACK, "no micro-batch of it was started")


def choose(survey: Iterable[Facts], wanted: Collection[str], *, force: bool) -> tuple[Choice, ...]:
    """What a rollback of a table does with each instant, oldest first; those without anything to report are left out.

    `wanted`: request times given by name; empty: all instants of pipelines and every pending rollback. `force`: also
    instants that a live writer may work on.
    """
    choices = []
    for found in sorted(survey, key=lambda each: each.request_time):
        named = found.request_time in wanted
        if wanted and not named:
            continue
        choice = _choose(found, named=named)
        if choice is not None and choice.step is not Step.NOTHING and not force and (held := _held(choice)) is not None:
            choice = None if found.state is State.COMPLETED else held
        if choice is not None:
            choices.append(choice)
    return tuple(choices)


def _choose(found: Facts, *, named: bool) -> Choice | None:
    if found.action not in (None, *WRITE_ACTIONS) or (
        found.state is not State.COMPLETED and found.action not in (None, DELTA_COMMIT)
    ):
        why = f"it is a {found.action}: only deltacommits are rolled back here; leave it to the writer that started it"
        return _leave(found, Left.REFUSED if named else Left.NOT_ASKED, why)
    if found.state is State.COMPLETED:
        return _completed(found, named=named)
    if found.pipeline is not None:
        return _of_pipeline(found, named=named)
    if found.rollbacks:
        return _finish_rollback(found)
    if found.state is not None:
        if named:
            return Choice(found, Step.ROLL_BACK, "another writer's, requested by name")
        why = "another writer's: its own next start rolls it back, or name it with --instant"
        return _leave(found, Left.NOT_ASKED, why)
    return _foreign_gone(found) if named else None


def _completed(found: Facts, *, named: bool) -> Choice | None:
    if found.rollbacks:
        why = (
            f"it is completed, but rollback {found.rollbacks[0]} of it was started; Hudi's next write may finish the "
            "rollback and delete its rows. "
        )
        why += (
            f"Start pipeline {found.pipeline}: it ingests them again"
            if found.pipeline is not None
            else "Its writer must write them again"
        )
        return _leave(found, Left.REFUSED if named else Left.NOT_ASKED, why)
    if isinstance(found.decision, CommitDecision) and not found.done and found.traces:
        return Choice(found, Step.COMPLETE, "it is completed, but its heartbeat or markers are left")
    if not named:
        return None
    return _leave(found, Left.REFUSED, "it is completed: readers have seen its rows, so it is never rolled back")


def _of_pipeline(found: Facts, *, named: bool) -> Choice | None:
    choice = decide(found, Policy.ROLL_BACK)
    if choice.step is Step.COMPLETE:
        return choice
    if choice.step is Step.CLOSE:
        return _leave(found, Left.REFUSED, "it is completed and archived") if named else None
    if found.rollbacks:
        return _finish_rollback(found)
    if found.state is not None or (found.decision is None and not found.done):
        return choice
    if (found.files or found.traces) and found.decision is not None:
        return Choice(found, Step.SWEEP, "it was rolled back, but some of its files are left")
    return _leave(found, Left.DONE, "it is rolled back") if named else None


def _foreign_gone(found: Facts) -> Choice:
    if found.archived and not found.rolled_back:
        why = "it is older than the active timeline: readers treat it as completed and archived"
        return _leave(found, Left.REFUSED, why)
    if found.files or found.traces:
        return Choice(found, Step.SWEEP, "it is not on the timeline, but some of its files are left")
    if found.rolled_back:
        return _leave(found, Left.DONE, "it is rolled back")
    return _leave(found, Left.REFUSED, "there is no such instant: `bucketingest inspect` lists the instants")


def _finish_rollback(found: Facts) -> Choice:
    return Choice(found, Step.FINISH_ROLLBACK, f"rollback {found.rollbacks[0]} was started and not finished")


def _held(choice: Choice) -> Choice | None:
    """The same instant left alone, if its writer may still work on it."""
    found = choice.found
    if choice.step is Step.SWEEP:
        return None
    if found.held_by is not None:
        why = f"the table is held by {found.held_by}: stop that job, or use --force, which fences it out"
        return _leave(found, Left.HELD, why)
    if _alive(found.quiet):
        why = f"its writer gave a sign of life {_seconds(found.quiet)} ago"
    elif _alive(found.rollback_quiet) and not isinstance(found.decision, AbortDecision):
        why = f"rollback {found.rollbacks[0]} of it gave a sign of life {_seconds(found.rollback_quiet)} ago"
    else:
        return None
    return _leave(
        found, Left.HELD, f"{why}: stop that process and wait until {_seconds(QUIET_MIN)} have passed, or use --force"
    )


def _alive(quiet: timedelta | None) -> bool:
    return quiet is not None and quiet <= QUIET_MIN


def _leave(found: Facts, left: Left, why: str) -> Choice:
    return Choice(found, Step.NOTHING, why, left)


def _seconds(length: timedelta | None) -> str:
    return f"{max(0, round((length or timedelta()).total_seconds()))} s"
