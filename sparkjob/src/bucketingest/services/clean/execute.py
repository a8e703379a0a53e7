"""Carries out a clean in Hudi's steps: plan, inflight, deletions, completed file. Any step may be repeated, and any
writer may finish what another one began.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from bucketingest.hudi.damage.look import look_for_damage
from bucketingest.hudi.errors import InstantExists, InvalidTable
from bucketingest.hudi.history.archived import archived_times
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.plans.clean_plan import CleanMetadata, CleanPlan, read_clean_plan
from bucketingest.hudi.rollback.rollback import Lock
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
from bucketingest.services.protocol.journal import KEPT_FOR, Decisions
from bucketingest.services.protocol.records import End
from bucketingest.storage.interface import Storage
from bucketingest.write.instants.records import CommitDecision

log = logging.getLogger(__name__)

BATCH: Final = 1000
"""Files deleted between two checks; the most that S3 deletes by one request."""
_REQUEST_ATTEMPTS_MAX: Final = 8


class CleanDecisions(Decisions):
    """How two executors of one clean agree about its completed file: both may find the clean pending, and the name of
    the file has its completion time. The number of a clean is its request time.
    """

    SERVICE = "clean"


def _nothing() -> None:
    """The check of an executor that has no rival."""


@dataclass(frozen=True, slots=True)
class CleanOptions:
    """How a clean is run.

    `lock`: Hudi's lock of the table. `check`: called before each batch of deletions and before the completed file;
    raises if this process may no longer act. `decisions`: None for objects in the table.
    """

    lock: Lock = nullcontext
    check: Callable[[], None] = _nothing
    decisions: CleanDecisions | None = None
    clock: Callable[[], datetime] = utc_now


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


_DEFAULT_OPTIONS = CleanOptions()


def clean_table(storage: Storage, retention: Retention, options: CleanOptions = _DEFAULT_OPTIONS) -> Cleaned:
    """Finish every pending clean, then make and carry out a new one if there is something to delete.

    Raises `CleanRefused` if a pending clean must not go on now, what `options.check` raises, `InvalidTable`,
    `InstantExists`. It may be called again after any failure.
    """
    take_back_doubles(storage, options)
    finished = finish_pending(storage, options)
    choice = choose_now(storage, retention, options)
    if choice.plan is None:
        return Cleaned(finished, choice)
    clean = request(storage, choice.plan, options)
    return Cleaned((*finished, run(storage, clean, options)), choice)


def take_back_doubles(storage: Storage, options: CleanOptions = _DEFAULT_OPTIONS) -> None:
    """Delete our completed file of each clean that another writer completed as well: without a common lock nothing
    prevents two. Both have deleted the same files. Raises what `options.check` raises.
    """
    found: defaultdict[str, list[Instant]] = defaultdict(list)
    for instant in completed_files(storage, CLEAN):
        found[instant.request_time].append(instant)
    decisions = options.decisions or CleanDecisions(storage)
    for clean in (clean for clean, files in found.items() if len(files) > 1):
        decision = decisions.decision(int(clean))
        with options.lock():
            options.check()
            files = completed_files(storage, CLEAN, clean)
            time = decision.completion_time if isinstance(decision, CommitDecision) else None
            ours = [each for each in files if each.completion_time == time]
            if ours and len(files) > 1:
                log.warning("clean was completed twice: ours is withdrawn", extra={"clean": clean})
                storage.delete(path_of(ours[0]))


def choose_now(storage: Storage, retention: Retention, options: CleanOptions = _DEFAULT_OPTIONS) -> Choice:
    """What a new clean would delete. Changes nothing; lists the whole table, and opens the commits that say whether
    the file groups concerned are whole. Raises `InvalidTable`.
    """
    timeline, facts = load_clean_facts(storage)
    view, now = load_file_view(storage, timeline), options.clock()
    choice = choose(view, timeline, facts, retention, now)
    if choice.plan is None:
        return choice
    damage = look_for_damage(storage, timeline, view, facts.replaced, only=choice.plan.groups)
    return choose(view, timeline, replace(facts, damaged=damage.groups), retention, now) if damage.groups else choice


def finish_pending(storage: Storage, options: CleanOptions = _DEFAULT_OPTIONS) -> tuple[CleanResult, ...]:
    """Finish every pending clean by its own plan, ours or another writer's, the oldest first. Raises as `run`.

    One of a whole partition is left to its writer for a day. That one may still delete, whatever we do, and pipelines
    look for rows that it took when the clean is complete, and never again.
    """
    left_from = format_time(options.clock() - KEPT_FOR)
    pending = [instant.request_time for instant in Timeline.load(storage).pending if instant.action == CLEAN]
    due = [clean for clean in pending if clean < left_from or not _plan(storage, clean).partitions]
    for clean in sorted(set(pending) - set(due)):
        log.info("a clean of a whole partition is left to its writer", extra={"clean": clean})
    return tuple(run(storage, clean, options) for clean in due)


def request(storage: Storage, plan: CleanPlan, options: CleanOptions = _DEFAULT_OPTIONS) -> str:
    """Put the plan onto the timeline; its request time. From then on Hudi's next clean would carry it out unchecked.

    Raises `CleanRefused` if its files may be needed since it was made, `InstantExists` if other writers take every
    time, and what `options.check` raises.
    """
    content = plan.encode(storage.absolute)
    guard = Guard(storage, plan, "a new clean")
    with options.lock():
        options.check()
        guard.check()
        for _ in range(_REQUEST_ATTEMPTS_MAX):
            clean = _next_time(storage, Timeline.load(storage), options)
            try:
                create_requested(storage, clean, CLEAN, content)
            except InstantExists:
                continue
            return clean
    raise InstantExists(
        f"{storage.url}: no free time for a clean in {_REQUEST_ATTEMPTS_MAX} attempts: other writers write without the "
        "table's lock; stop them"
    )


def run(storage: Storage, clean: str, options: CleanOptions = _DEFAULT_OPTIONS) -> CleanResult:
    """Carry out the clean of this request time, or what is left of it, and complete it.

    Raises `CleanRefused` if a file of its plan may be needed, `InvalidTable` if it has no readable plan, and what
    `options.check` raises.
    """
    decisions = options.decisions or CleanDecisions(storage)
    found = Timeline.load(storage).find(clean, CLEAN)
    if found is None or found.is_completed:
        return _ended(decisions, clean, None if found is None else found.completion_time)
    plan = _plan(storage, clean)
    started = options.clock()
    if decisions.decision(int(clean)) is None:
        if found.state is State.REQUESTED:
            create_inflight(storage, clean, CLEAN)
        _delete(storage, clean, plan, options)
    with options.lock():
        options.check()
        timeline = Timeline.load(storage)
        found = timeline.find(clean, CLEAN)
        if found is None or found.is_completed:  # another process was faster
            return _ended(decisions, clean, None if found is None else found.completion_time)
        taken_ms = max(0, (options.clock() - started) // timedelta(milliseconds=1))
        content = CleanMetadata.of(plan, clean, taken_ms).encode()
        wanted = CommitDecision(_next_time(storage, timeline, options), content)
        decision = decisions.decide(int(clean), wanted)
        assert isinstance(decision, CommitDecision), "a clean is never aborted: what it deleted stays deleted"
        complete(storage, clean, decision.completion_time, decision.content, CLEAN)
    decisions.mark_done(int(clean), End.COMPLETED)
    take_back_doubles(storage, options)
    return CleanResult(clean, decision.completion_time, sum(map(len, plan.files.values())))


def _ended(decisions: CleanDecisions, clean: str, completion_time: str | None) -> CleanResult:
    decisions.mark_done(int(clean), End.COMPLETED)
    return CleanResult(clean, completion_time, 0)


def _plan(storage: Storage, clean: str) -> CleanPlan:
    plan = read_clean_plan(storage, clean)
    if plan is None:
        raise InvalidTable(f"{storage.url}: clean {clean} is pending without a plan: remove its inflight file")
    if plan.external_files:
        raise CleanRefused(
            f"{storage.url}: clean {clean} deletes files of a bootstrap, which are outside the table: let the writer "
            "that planned it finish it"
        )
    return plan


def _delete(storage: Storage, clean: str, plan: CleanPlan, options: CleanOptions) -> None:
    guard = Guard(storage, plan, f"clean {clean}")
    for batch in _batches(list(plan.paths)):
        options.check()
        guard.check()
        storage.delete_many(batch)


def _batches(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    return (paths[start : start + BATCH] for start in range(0, len(paths), BATCH))


def _next_time(storage: Storage, timeline: Timeline, options: CleanOptions) -> str:
    known = (*timeline.times, *archived_times(storage))
    return next_instant_time(options.clock(), known)
