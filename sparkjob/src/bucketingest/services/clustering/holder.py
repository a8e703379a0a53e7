"""The steps of a clustering that only the holder of the table's lease takes: plan it, commit it, end what an
earlier process left.

Nothing of a clustering is on the timeline until its files are made. It is then put there as requested, inflight and
completed at once, between two instants of the job and under Hudi's lock, if its file groups are as they were.
"""

from __future__ import annotations

import logging
from typing import Final

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import InstantExists
from bucketingest.hudi.history.archived import is_archived
from bucketingest.hudi.naming import split
from bucketingest.hudi.rollback.markers import create_marker, delete_markers
from bucketingest.hudi.rollback.rollback import rollbacks_of
from bucketingest.hudi.table.file_view import Group
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import REPLACE_COMMIT, Instant, State
from bucketingest.hudi.timeline.timeline import Timeline, complete, completed_files, create_inflight, path_of
from bucketingest.lease.record import LeaseError
from bucketingest.services.clustering.commit import (
    closed_commit,
    clustering_commit,
    decided_groups,
    decided_stats,
    hindrance,
    is_cleaned,
    missing_file,
    written_since,
)
from bucketingest.services.clustering.decide import Choice, Facts, Step, decide
from bucketingest.services.clustering.propose import newest_clustering
from bucketingest.services.clustering.records import RESULT, ClusteringEnded, ClusteringJournal, ClusteringPlan
from bucketingest.services.errors import ClusteringInDoubt
from bucketingest.services.protocol.holder import ServiceHolder
from bucketingest.services.protocol.records import HEARTBEAT, End, Result
from bucketingest.storage import created, get_if_there
from bucketingest.write.errors import FencedOut
from bucketingest.write.instants.records import AbortDecision, CommitDecision

log = logging.getLogger(__name__)

_STEPS_MAX: Final = 6


class ClusteringHolder(ServiceHolder[ClusteringPlan]):
    """The steps of clusterings. One at a time; each may be repeated after a failure."""

    JOURNAL = ClusteringJournal

    def begin(self, plan: ClusteringPlan) -> int:
        """Record the plan; returns its number. Nothing of it is on the timeline.

        Raises PlanOutdated if something came between, and as the lease's check does.
        """
        refusal = None
        if plan.instant <= (newest_clustering(self._storage) or ""):
            refusal = "a later one was planned"
        elif plan.instant in Timeline.load(self._storage).times:
            refusal = f"time {plan.instant} is taken"
        return self._record(plan, refusal)

    def commit(self, number: int) -> ClusteringEnded:
        """Commit what was made, as far as its file groups are as they were.

        Raises ClusteringInDoubt if it was decided and may not be complete: before this job writes again, it must start
        anew, which ends the clustering. Raises as the lease's check does.
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
            if isinstance(decided, AbortDecision):
                return self._ended(number, plan, decide(Facts(decided=decided)))
            self._take(Choice(Step.COMPLETE, "its base files are made"), number, plan)
        self._check_unchanged(self._storage)
        ended = self._settle(number, plan)
        if ended is None:
            raise ClusteringInDoubt(f"{self._storage.url}: clustering {plan.instant} was ended by another process")
        return ended

    def settle(self, *, maker_has_ended: bool = False) -> ClusteringEnded | None:
        """End the one that a process left. None: there is none. `maker_has_ended`: whoever made its base files is gone,
        and puts none late. Raises NewerFormat, ClusteringInDoubt, and as the lease's check does.
        """
        number = self._open_number()
        if number is None:
            return None
        if maker_has_ended:
            self._journal.put_results(number, ())
        return self._settle(number, self._journal.plan(number))

    def start(self) -> ClusteringEnded | None:
        """At each start, before anything is written: end what an earlier process left, and delete what it put late.
        Other writers' archives do not keep the time of a clustering that is void: its files would become visible.
        Raises as `settle`.
        """
        ended = self.settle()
        self._sweep_late()
        return ended

    def sweep(self) -> None:
        """Now and then: delete what a paused process made late, and objects that nobody needs any more."""
        self._sweep_late()
        for number in self._journal.expired(self._clock()):
            self._check_lease()
            self._journal.forget(number)

    def _sweep_late(self) -> None:
        for number, objects in self._journal.objects().items():
            plan = self._journal.plan(number) if "done" in objects and RESULT not in objects else None
            if plan is not None:
                self._check_lease()
                self._delete_late(plan)

    def _settle(self, number: int, plan: ClusteringPlan | None) -> ClusteringEnded | None:
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
        log.error("clustering does not finish", extra={"instant": plan.instant})
        return None

    def _take(self, choice: Choice, number: int, plan: ClusteringPlan) -> None:
        """Take a step. A change of the timeline that fails may come late: then this job must not write any more."""
        log.info("clustering", extra={"instant": plan.instant, "step": choice.step, "why": choice.reason})
        if choice.step is Step.VOID:
            self._journal.decide(number, AbortDecision(choice.reason))
            return
        decided = self._journal.decision(number)
        assert isinstance(decided, CommitDecision), "only a commit is completed"
        if choice.step is Step.COMPLETE:
            self._check_unchanged(self._storage)
        content = decided.content if choice.step is Step.COMPLETE else closed_commit(plan)
        try:
            if choice.step is Step.UNDO:
                log.error("clustering withdrawn", extra={"instant": plan.instant, "why": choice.reason})
                self._check_lease()
                self._storage.put(_completed_path(plan, decided), content)
            else:
                self._complete(plan, decided, content)
        except InstantExists:  # another process was faster: look again
            return
        except (LeaseError, FencedOut):
            raise
        except BucketIngestError as error:
            raise ClusteringInDoubt(
                f"{self._storage.url}: clustering {plan.instant} was decided, and it is not known whether "
                f"it is complete ({error}): the next start ends it"
            ) from error

    def _wanted(
        self, timeline: Timeline, plan: ClusteringPlan, results: tuple[Result, ...]
    ) -> tuple[CommitDecision | None, str]:
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
        content = clustering_commit(plan, stats, replaced)
        return CommitDecision(plan.completion_time, content), ""

    def _complete(self, plan: ClusteringPlan, decided: CommitDecision, content: bytes) -> None:
        """Requested, inflight and completed: of the two possible contents the first one stays."""
        heartbeat.beat(self._storage, plan.instant, HEARTBEAT)
        for stat in decided_stats(decided):
            create_marker(self._storage, plan.instant, *split(stat.path or ""))
        created(self._storage, path_of(Instant(plan.instant, REPLACE_COMMIT, State.REQUESTED)), b"")
        create_inflight(self._storage, plan.instant, REPLACE_COMMIT)
        self._check_lease()
        complete(self._storage, plan.instant, decided.completion_time, content, REPLACE_COMMIT)

    def _facts(self, number: int, plan: ClusteringPlan) -> Facts:
        decided = self._journal.decision(number)
        if not isinstance(decided, CommitDecision):
            return Facts(self._journal.done(number), decided)
        timeline = Timeline.load(self._storage)
        completed = get_if_there(self._storage, _completed_path(plan, decided))
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
            completed is None
            and timeline.is_archived(plan.instant)
            and is_archived(self._storage, plan.instant, REPLACE_COMMIT),
            changed,
            bool(written & new),
            completed is not None and changed is not None and is_cleaned(self._storage, timeline, plan, old),
        )

    def _void(self, number: int, plan: ClusteringPlan | None, why: str) -> ClusteringEnded:
        decided = self._journal.decide(number, AbortDecision(why))
        if isinstance(decided, CommitDecision) and plan is not None:  # decided before: the next look ends it
            raise ClusteringInDoubt(f"{self._storage.url}: clustering {plan.instant} was decided by another process")
        return self._ended(number, plan, Choice(Step.END, why, End.VOID))

    def _ended(self, number: int, plan: ClusteringPlan | None, choice: Choice) -> ClusteringEnded:
        end = choice.end or End.VOID
        if plan is None:
            self._journal.mark_done(number, end)
            return ClusteringEnded("", end, choice.reason)
        self._delete_late(plan)
        delete_markers(self._storage, plan.instant)
        heartbeat.stop(self._storage, plan.instant)
        decided = self._journal.decision(number)
        replaced, new = frozenset[Group](), frozenset[Group]()
        if end is End.COMPLETED and isinstance(decided, CommitDecision):
            replaced, new = decided_groups(plan, decided)
        self._journal.mark_done(number, end)
        ended = ClusteringEnded(plan.instant, end, choice.reason, len(new), replaced, plan.replaced - replaced)
        extra = {"instant": plan.instant, "end": end, "why": choice.reason, "file_groups": len(replaced)}
        log.info("clustering ended", extra={**extra, "new_file_groups": len(new)})
        return ended

    def _delete_late(self, plan: ClusteringPlan) -> None:
        """Delete the base files that no completed file of the clustering names; none if the history has it."""
        if is_archived(self._storage, plan.instant, REPLACE_COMMIT):
            return
        kept: set[str] = set()
        for instant in completed_files(self._storage, REPLACE_COMMIT, plan.instant):
            path = path_of(instant)
            kept |= set(CommitMetadata.decode(self._storage.get(path), path).files)
        self._storage.delete_many([path for path in plan.paths if path not in kept])


def _completed_path(plan: ClusteringPlan, decided: CommitDecision) -> str:
    return path_of(Instant(plan.instant, REPLACE_COMMIT, State.COMPLETED, decided.completion_time))
