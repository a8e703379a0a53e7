"""The steps of a merge of file groups that only the holder of the table's lease takes: plan it, commit it, end what an
earlier process left.

Nothing of a merge is on the timeline until its files are made. It is then put there as requested, inflight and
completed at once, between two instants of the job and under Hudi's lock, if its file groups are as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import InstantExists
from bucketingest.hudi.history.archived import is_archived
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.naming import split
from bucketingest.hudi.rollback.markers import create_marker, delete_markers
from bucketingest.hudi.rollback.rollback import Lock, rollbacks_of
from bucketingest.hudi.table.checks import refuse_changed_table
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, complete, completed_files, create_inflight, path_of
from bucketingest.lease.record import LeaseError
from bucketingest.services.compaction.facts import HEARTBEAT
from bucketingest.services.compaction.holder import KEPT, KEPT_FOR
from bucketingest.services.compaction.records import Decided
from bucketingest.services.errors import MergeInDoubt, PlanOutdated
from bucketingest.services.regroup.commit import (
    closed_commit,
    decided_groups,
    decided_stats,
    hindrance,
    is_cleaned,
    merge_commit,
    missing_file,
    written_since,
)
from bucketingest.services.regroup.decide import Choice, Facts, Step, decide
from bucketingest.services.regroup.journal import MergeJournal
from bucketingest.services.regroup.propose import newest_merge
from bucketingest.services.regroup.records import MergeEnd, MergeEnded, MergePlan, NewGroupResult
from bucketingest.storage import NotFound, Storage, created
from bucketingest.write.errors import FencedOut

log = logging.getLogger(__name__)

_STEPS_MAX: Final = 6
_CLOSED: Final = Decided(None)


class MergeHolder:
    """Takes the holder's steps on one table. One at a time; each may be repeated after a failure."""

    def __init__(
        self,
        storage: Storage,
        lock: Lock,
        check_lease: Callable[[], None],
        *,
        check_unchanged: Callable[[Storage], None] = refuse_changed_table,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """`lock`: makes a context that holds Hudi's lock of the table. `check_lease`: raises if the lease was lost."""
        self._storage = storage
        self._lock = lock
        self._check_lease = check_lease
        self._check_unchanged = check_unchanged
        self._clock = clock
        self._journal = MergeJournal(storage)

    def begin(self, plan: MergePlan) -> int:
        """Record the plan; returns its number. Nothing of it is on the timeline.

        Raises PlanOutdated if something came between, and as the lease's check does.
        """
        numbers = self._journal.numbers()
        if numbers and self._journal.done(numbers[-1]) is None:
            raise PlanOutdated(f"{self._storage.url}: file groups not merged: the merge before has not ended")
        if plan.instant <= (newest_merge(self._storage) or ""):
            raise PlanOutdated(f"{self._storage.url}: file groups not merged: a later merge was planned")
        if plan.instant in Timeline.load(self._storage).times:
            raise PlanOutdated(f"{self._storage.url}: file groups not merged: time {plan.instant} is taken")
        number = max(numbers, default=0) + 1
        self._check_lease()
        if not self._journal.put_plan(number, plan):
            raise PlanOutdated(f"{self._storage.url}: file groups not merged: another process is planning")
        return number

    def commit(self, number: int) -> MergeEnded:
        """Commit what was made, as far as its file groups are as they were.

        Raises MergeInDoubt if it was decided and may not be complete: before this job writes again, it must start
        anew, which ends the merge. Raises as the lease's check does.
        """
        plan, results = self._journal.plan(number), self._journal.results(number)
        if plan is None or results is None:
            return self._void(number, plan, "its base files were not made")
        with self._lock():
            self._check_unchanged(self._storage)
            timeline = Timeline.load(self._storage)
            why = hindrance(self._storage, timeline, plan)
            if why is not None:
                return self._void(number, plan, why)
            wanted, why = self._wanted(timeline, plan, results)
            if wanted is None:
                return self._void(number, plan, why)
            self._check_lease()  # last: nothing slow happens between this and the decision
            decided = self._journal.decide(number, wanted)
            if decided.completion_time is None:
                return self._ended(number, plan, decide(Facts(decided=decided)))
            self._take(Choice(Step.COMPLETE, "its base files are made"), number, plan)
        self._check_unchanged(self._storage)
        ended = self._settle(number, plan)
        if ended is None:
            raise MergeInDoubt(f"{self._storage.url}: merge {plan.instant} of file groups was ended by another process")
        return ended

    def settle(self, *, maker_has_ended: bool = False) -> MergeEnded | None:
        """End the merge that this process or an earlier one left. None: there is none. `maker_has_ended`: whoever made
        its base files is gone, and puts none late. Raises NewerFormat, MergeInDoubt, and as the lease's check does.
        """
        numbers = self._journal.numbers()
        if not numbers or self._journal.done(numbers[-1]) is not None:
            return None
        if maker_has_ended:
            self._journal.put_results(numbers[-1], ())
        return self._settle(numbers[-1], self._journal.plan(numbers[-1]))

    def start(self) -> MergeEnded | None:
        """At each start, before anything is written: end what an earlier process left, and delete what it put late.
        Other writers' archives do not keep the time of a merge that is void: its files would become visible. Raises as
        `settle`.
        """
        ended = self.settle()
        for number, created_at in self._journal.objects().items():
            plan = None if "result" in created_at or "done" not in created_at else self._journal.plan(number)
            if plan is not None:
                self._delete_late(plan)
        return ended

    def sweep(self) -> None:
        """Now and then: delete what a paused process made late, and objects that nobody needs any more."""
        now, objects = self._clock(), self._journal.objects()
        old = set(list(objects)[:-KEPT])
        for number, created_at in objects.items():
            if "done" not in created_at:
                continue
            self._check_lease()
            plan = None if "result" in created_at else self._journal.plan(number)
            if plan is not None:
                self._delete_late(plan)
            if number in old and now - created_at["done"] > KEPT_FOR:
                self._journal.forget(number)

    def _settle(self, number: int, plan: MergePlan | None) -> MergeEnded | None:
        if plan is None:  # a plan is the first object; without it, it was being deleted
            return self._void(number, None, "it has no plan")
        for _ in range(_STEPS_MAX):
            self._check_lease()
            with self._lock():
                choice = decide(self._facts(number, plan))
                if choice.step is Step.NOTHING:
                    return None
                if choice.step is not Step.END:
                    self._take(choice, number, plan)
            if choice.step is Step.END:
                return self._ended(number, plan, choice)
        log.error("merge of file groups does not finish", extra={"instant": plan.instant})
        return None

    def _take(self, choice: Choice, number: int, plan: MergePlan) -> None:
        """Take a step. A change of the timeline that fails may come late: then this job must not write any more."""
        log.info("merge of file groups", extra={"instant": plan.instant, "step": choice.step, "why": choice.reason})
        decided = self._journal.decide(number, _CLOSED) if choice.step is Step.VOID else self._journal.decision(number)
        if choice.step is Step.VOID or decided is None:
            return
        if choice.step is Step.COMPLETE:
            self._check_unchanged(self._storage)
        content = decided.content if choice.step is Step.COMPLETE else closed_commit(plan)
        try:
            if choice.step is Step.UNDO:
                log.error("merge of file groups withdrawn", extra={"instant": plan.instant, "why": choice.reason})
                self._check_lease()
                self._storage.put(_completed_path(plan, decided), content)
            else:
                self._complete(plan, decided, content)
        except InstantExists:  # another process was faster: look again
            return
        except (LeaseError, FencedOut):
            raise
        except BucketIngestError as error:
            raise MergeInDoubt(
                f"{self._storage.url}: merge {plan.instant} of file groups was decided, and it is not known whether "
                f"it is complete ({error}): the next start ends it"
            ) from error

    def _wanted(
        self, timeline: Timeline, plan: MergePlan, results: tuple[NewGroupResult, ...]
    ) -> tuple[Decided | None, str]:
        """The commit of the new groups that may take the place of their old ones."""
        written = written_since(self._storage, timeline, plan)
        made = [(each, result.stat) for each, result in zip(plan.new_groups, results, strict=True)]
        chosen = [(each, stat) for each, stat in made if stat is not None and written.isdisjoint(each.replaced)]
        if not chosen:
            return None, "its file groups were written to meanwhile, or cannot be merged"
        stats = [stat for _, stat in chosen]
        if (missing := missing_file(self._storage, stats)) is not None:
            return None, f"{missing} is missing"
        replaced = frozenset().union(*(each.replaced for each, _ in chosen))
        return Decided(plan.completion_time, merge_commit(plan, stats, replaced)), ""

    def _complete(self, plan: MergePlan, decided: Decided, content: bytes) -> None:
        """Requested, inflight and completed: of the two possible contents the first one stays."""
        assert decided.completion_time is not None, "only a commit is completed"
        heartbeat.beat(self._storage, plan.instant, HEARTBEAT)
        for stat in decided_stats(decided):
            create_marker(self._storage, plan.instant, *split(stat.path or ""))
        created(self._storage, path_of(Instant(plan.instant, REPLACE_COMMIT, State.REQUESTED)), b"")
        create_inflight(self._storage, plan.instant, REPLACE_COMMIT)
        self._check_lease()
        complete(self._storage, plan.instant, decided.completion_time, content, REPLACE_COMMIT)

    def _facts(self, number: int, plan: MergePlan) -> Facts:
        decided = self._journal.decision(number)
        if decided is None or decided.completion_time is None:
            return Facts(self._journal.done(number), decided)
        timeline = Timeline.load(self._storage)
        completed = self._completed(plan, decided)
        old, new = decided_groups(plan, decided)
        written = written_since(self._storage, timeline, plan)
        changed = hindrance(self._storage, timeline, plan) if completed is None else None
        if (both := written & old) and changed is None:
            changed = f"file group {min(both)[1]} of partition {min(both)[0]!r} was written to meanwhile"
        for rollback in rollbacks_of(self._storage, timeline, plan.instant):
            changed = f"another writer rolled it back: {rollback.request_time}"
        if (missing := missing_file(self._storage, decided_stats(decided))) is not None:
            changed = f"{missing} is missing"
        return Facts(
            self._journal.done(number),
            decided,
            completed,
            completed is None and timeline.is_archived(plan.instant) and is_archived(self._storage, plan.instant),
            changed,
            bool(written & new),
            completed is not None and changed is not None and is_cleaned(self._storage, timeline, plan, old),
        )

    def _completed(self, plan: MergePlan, decided: Decided) -> bytes | None:
        try:
            return self._storage.get(_completed_path(plan, decided))
        except NotFound:
            return None

    def _void(self, number: int, plan: MergePlan | None, why: str) -> MergeEnded:
        decided = self._journal.decide(number, _CLOSED)
        if decided.completion_time is not None and plan is not None:  # decided before: the next look ends it
            raise MergeInDoubt(
                f"{self._storage.url}: merge {plan.instant} of file groups was decided by another process"
            )
        return self._ended(number, plan, Choice(Step.END, why, MergeEnd.VOID))

    def _ended(self, number: int, plan: MergePlan | None, choice: Choice) -> MergeEnded:
        end = choice.end or MergeEnd.VOID
        if plan is None:
            self._journal.mark_done(number, end)
            return MergeEnded("", end, choice.reason)
        self._delete_late(plan)
        delete_markers(self._storage, plan.instant)
        heartbeat.stop(self._storage, plan.instant)
        decided = self._journal.decision(number)
        replaced, new = frozenset[Group](), frozenset[Group]()
        if end is MergeEnd.COMPLETED and decided is not None:
            replaced, new = decided_groups(plan, decided)
        self._journal.mark_done(number, end)
        ended = MergeEnded(plan.instant, end, choice.reason, len(new), replaced, plan.replaced - replaced)
        extra = {"instant": plan.instant, "end": end, "why": choice.reason, "file_groups": len(replaced)}
        log.info("merge of file groups ended", extra={**extra, "new_file_groups": len(new)})
        return ended

    def _delete_late(self, plan: MergePlan) -> None:
        """Delete the base files that no completed file of the merge names; none if the history has it."""
        if is_archived(self._storage, plan.instant):
            return
        kept: set[str] = set()
        for instant in completed_files(self._storage, REPLACE_COMMIT, plan.instant):
            path = path_of(instant)
            kept |= set(CommitMetadata.decode(self._storage.get(path), path).files)
        self._storage.delete_many([path for path in plan.paths if path not in kept])


def _completed_path(plan: MergePlan, decided: Decided) -> str:
    return path_of(Instant(plan.instant, REPLACE_COMMIT, State.COMPLETED, decided.completion_time))
