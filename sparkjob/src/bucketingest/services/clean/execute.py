"""Carries out a clean in Hudi's steps: plan, inflight, deletions, completed file. Any step may be repeated, and any
writer may finish what another one began.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from bucketingest.hudi.damage.look import look_for_damage
from bucketingest.hudi.errors import InstantExists, InvalidTable
from bucketingest.hudi.history.archived import archived_times
from bucketingest.hudi.plans.clean_plan import CleanMetadata, CleanPlan, read_clean_plan
from bucketingest.hudi.table.file_view import load_file_view
from bucketingest.hudi.timeline.instant import CLEAN, Instant, State
from bucketingest.hudi.timeline.instant_time import format_time, next_instant_time
from bucketingest.hudi.timeline.timeline import (
    Timeline,
    complete,
    completed_files,
    create_inflight,
    create_requested,
    path_of,
)
from bucketingest.services.clean.choose import Choice, Retention, choose
from bucketingest.services.clean.facts import load_clean_facts
from bucketingest.services.clean.guard import Guard
from bucketingest.services.errors import CleanRefused
from bucketingest.services.protocol.holder import Guarded
from bucketingest.services.protocol.journal import KEPT_FOR, Decisions
from bucketingest.services.protocol.records import End
from bucketingest.write.instants.records import CommitDecision
from bucketingest.write.instants.taken_out import overtaken

log = logging.getLogger(__name__)

BATCH: Final = 1000
"""Files deleted between two checks; the most that S3 deletes by one request."""
_REQUEST_ATTEMPTS_MAX: Final = 8


class CleanDecisions(Decisions):
    """How two executors of one clean agree about its completed file: both may find the clean pending, and the name of
    the file has its completion time. The number of a clean is its request time.
    """

    SERVICE = "clean"


@dataclass(frozen=True, slots=True)
class CleanResult:
    """What a clean did."""

    request_time: str
    completion_time: str | None
    """None if it is no longer on the timeline: another process completed and archived it, or took it back."""
    files: int
    """Files that its plan deletes; those of a clean that another process completed do not count."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a call did to the table."""

    results: tuple[CleanResult, ...]
    """Of pending cleans that were finished, then of the new one."""
    choice: Choice
    """What was chosen after the pending ones were finished, with what stays and why."""


def clean_table(table: Guarded, retention: Retention) -> Cleaned:
    """Finish every pending clean, then make and carry out a new one if there is something to delete.

    Raises `CleanRefused` if a pending clean must not go on now, what `table.check` raises, `InvalidTable`,
    `InstantExists`. It may be called again after any failure.
    """
    take_back_doubles(table)
    finished = finish_pending(table)
    choice = choose_now(table, retention)
    if choice.plan is None:
        return Cleaned(finished, choice)
    clean = request(table, choice.plan)
    return Cleaned((*finished, run(table, clean)), choice)


def take_back_doubles(table: Guarded) -> None:
    """Delete our completed file of each clean that another writer completed as well: without a common lock nothing
    prevents two. Both have deleted the same files. Raises what `table.check` raises.
    """
    found: defaultdict[str, list[Instant]] = defaultdict(list)
    for instant in completed_files(table.storage, CLEAN):
        found[instant.request_time].append(instant)
    decisions = CleanDecisions(table.storage)
    for clean in (clean for clean, files in found.items() if len(files) > 1):
        decision = decisions.decision(int(clean))
        with table.lock():
            table.check()
            files = completed_files(table.storage, CLEAN, clean)
            time = decision.completion_time if isinstance(decision, CommitDecision) else None
            ours = [each for each in files if each.completion_time == time]
            if ours and len(files) > 1:
                log.warning("clean was completed twice: ours is withdrawn", extra={"clean": clean})
                table.storage.delete(path_of(ours[0]))


def choose_now(table: Guarded, retention: Retention) -> Choice:
    """What a new clean would delete. Changes nothing; lists the whole table, and opens the commits that say whether
    the file groups concerned are whole. Raises `InvalidTable`.
    """
    timeline, facts = load_clean_facts(table.storage)
    view, now = load_file_view(table.storage, timeline), table.clock()
    choice = choose(view, timeline, facts, retention, now)
    if choice.plan is None:
        return choice
    damage = look_for_damage(table.storage, timeline, view, facts.replaced, overtaken, only=choice.plan.groups)
    return choose(view, timeline, replace(facts, damaged=damage.groups), retention, now) if damage.groups else choice


def finish_pending(table: Guarded) -> tuple[CleanResult, ...]:
    """Finish every pending clean by its own plan, ours or another writer's, the oldest first. Raises as `run`.

    One of a whole partition is left to its writer for a day. That one may still delete, whatever we do, and pipelines
    look for rows that it took when the clean is complete, and never again.
    """
    left_from = format_time(table.clock() - KEPT_FOR)
    pending = [instant.request_time for instant in Timeline.load(table.storage).pending if instant.action == CLEAN]
    due = [clean for clean in pending if clean < left_from or not _plan(table, clean).partitions]
    for clean in sorted(set(pending) - set(due)):
        log.info("a clean of a whole partition is left to its writer", extra={"clean": clean})
    return tuple(run(table, clean) for clean in due)


def request(table: Guarded, plan: CleanPlan) -> str:
    """Put the plan onto the timeline; its request time. From then on Hudi's next clean would carry it out unchecked.

    Raises `CleanRefused` if its files may be needed since it was made, `InstantExists` if other writers take every
    time, and what `table.check` raises.
    """
    content = plan.encode(table.storage.absolute)
    guard = Guard(table.storage, plan, "a new clean")
    with table.lock():
        table.check()
        guard.check()
        for _ in range(_REQUEST_ATTEMPTS_MAX):
            clean = _next_time(table, Timeline.load(table.storage))
            try:
                create_requested(table.storage, clean, CLEAN, content)
            except InstantExists:
                continue
            return clean
    raise InstantExists(
        f"{table.storage.url}: no free time for a clean in {_REQUEST_ATTEMPTS_MAX} attempts: other writers write "
        "without the table's lock; stop them"
    )


def run(table: Guarded, clean: str) -> CleanResult:
    """Carry out the clean of this request time, or what is left of it, and complete it.

    Raises `CleanRefused` if a file of its plan may be needed, `InvalidTable` if it has no readable plan, and what
    `table.check` raises.
    """
    decisions = CleanDecisions(table.storage)
    found = Timeline.load(table.storage).find(clean, CLEAN)
    if found is None or found.is_completed:
        return _ended(decisions, clean, None if found is None else found.completion_time)
    plan = _plan(table, clean)
    started = table.clock()
    if decisions.decision(int(clean)) is None:
        if found.state is State.REQUESTED:
            create_inflight(table.storage, clean, CLEAN)
        _delete(table, clean, plan)
    with table.lock():
        table.check()
        timeline = Timeline.load(table.storage)
        found = timeline.find(clean, CLEAN)
        if found is None or found.is_completed:  # another process was faster
            return _ended(decisions, clean, None if found is None else found.completion_time)
        taken_ms = max(0, (table.clock() - started) // timedelta(milliseconds=1))
        content = CleanMetadata.of(plan, clean, taken_ms).encode()
        wanted = CommitDecision(_next_time(table, timeline), content)
        decision = decisions.decide(int(clean), wanted)
        assert isinstance(decision, CommitDecision), "a clean is never aborted: what it deleted stays deleted"
        complete(table.storage, clean, decision.completion_time, decision.content, CLEAN)
    decisions.mark_done(int(clean), End.COMPLETED)
    take_back_doubles(table)
    return CleanResult(clean, decision.completion_time, sum(map(len, plan.files.values())))


def _ended(decisions: CleanDecisions, clean: str, completion_time: str | None) -> CleanResult:
    decisions.mark_done(int(clean), End.COMPLETED)
    return CleanResult(clean, completion_time, 0)


def _plan(table: Guarded, clean: str) -> CleanPlan:
    plan = read_clean_plan(table.storage, clean)
    if plan is None:
        raise InvalidTable(f"{table.storage.url}: clean {clean} is pending without a plan: remove its inflight file")
    if plan.external_files:
        raise CleanRefused(
            f"{table.storage.url}: clean {clean} deletes files of a bootstrap, which are outside the table: let the "
            "writer that planned it finish it"
        )
    return plan


def _delete(table: Guarded, clean: str, plan: CleanPlan) -> None:
    guard = Guard(table.storage, plan, f"clean {clean}")
    for batch in _batches(list(plan.paths)):
        table.check()
        guard.check()
        table.storage.delete_many(batch)


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + BATCH] for start in range(0, len(paths), BATCH))


def _next_time(table: Guarded, timeline: Timeline) -> str:
    known = (*timeline.times, *archived_times(table.storage))
    return next_instant_time(table.clock(), known)
