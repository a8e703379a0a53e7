"""What storage shows of one instant that a process left, read in the same way for every use: the start of an attempt,
the rollback command, and the inspection report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from bucketingest.hudi.history.archived import archived_times, is_archived
from bucketingest.hudi.rollback.pending import PendingRollback, pending_rollbacks
from bucketingest.hudi.rollback.rollback import rollback_targets
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, WRITE_ACTIONS, Instant, State
from bucketingest.hudi.timeline.overtaking import overtaken_by
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import NotFound, Storage
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import CommitDecision, Decision, Intent, LedgerEntry
from bucketingest.write.pipeline_names import PIPELINE


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found of one instant."""

    request_time: str
    action: str | None = None
    """Its action if it is on the active timeline; else the action in a pending rollback's plan, if there is one."""
    state: State | None = None
    """None: it is not on the active timeline."""
    shares_time: bool = False
    """Whether it is on the active timeline beside a compaction of the same time, which would make its files visible."""
    archived: bool = False
    """Whether it is off the timeline and so old that readers treat it as committed; a pipeline's is in the history."""
    behind_archive: bool = False
    """Whether it is pending, undecided, and older than an archived instant: readers treat all instants archived after
    the oldest instant of the timeline as uncommitted.
    """
    pipeline: str | None = None
    """The pipeline that started it; None: another writer."""
    decision: Decision | None = None
    done: bool = False
    """Whether the decision has been carried out completely."""
    overtaken_by: str | None = None
    """What came after its decision to commit, in words: it must no longer complete."""
    ledgers: tuple[LedgerEntry, ...] = ()
    """Micro-batches whose rows are all in storage, in order."""
    started: Intent | None = None
    """The micro-batch after them, if it was started."""
    rollbacks: tuple[str, ...] = ()
    """Request times of pending rollbacks that name it."""
    rolled_back: bool = False
    """Whether a completed rollback names it."""
    held_by: str | None = None
    """The holder of the table's lease, if the instant is a pipeline's and the lease is held."""
    quiet: timedelta | None = None
    """Time since its last sign of life: heartbeat or change of its files on the timeline. None: there is none, or it
    does not count, because the table's lease is free.
    """
    rollback_quiet: timedelta | None = None
    """The same for the pending rollbacks."""
    files: tuple[str, ...] = ()
    """Data files with its time in their names."""
    traces: bool = False
    """Whether it has a heartbeat or markers."""


class FactReader:
    """Reads facts about a table's instants from one timeline."""

    def __init__(self, storage: Storage, timeline: Timeline) -> None:
        self._storage = storage
        self._timeline = timeline
        self.rollbacks: tuple[PendingRollback, ...] = pending_rollbacks(storage, timeline)
        self._rolled_back: frozenset[str] | None = None

    def facts(self, request_time: str, owner: str | None) -> Facts:
        """`owner`: the pipeline with journal objects of this time, if there is one."""
        timeline = self._timeline
        instant = self._on_timeline(request_time)
        if owner is not None and instant is not None and instant.action not in WRITE_ACTIONS:
            instant = None  # a time that a pipeline claimed and did not use is free, for example for a rollback
        pipeline = self._pipeline_of(instant, owner)
        naming = [rollback for rollback in self.rollbacks if rollback.target == request_time]
        planned = next((rollback.plan.action for rollback in naming if rollback.plan is not None), None)
        found = Facts(
            request_time,
            action=planned if instant is None else instant.action,
            state=None if instant is None else instant.state,
            shares_time=instant is not None and instant.action == DELTA_COMMIT and request_time in timeline.compactions,
            archived=instant is None and timeline.is_archived(request_time),
            pipeline=pipeline,
            rollbacks=tuple(rollback.rollback_time for rollback in naming),
            rolled_back=self._is_rolled_back(request_time, instant, pipeline),
        )
        if pipeline is None:
            return found
        journal = Journal(self._storage, pipeline)
        decision, ledgers = journal.decision(request_time), journal.ledgers(request_time)
        return replace(
            found,
            archived=instant is None and is_archived(self._storage, request_time),
            behind_archive=instant is not None
            and decision is None
            and request_time < max(archived_times(self._storage), default=""),
            decision=decision,
            done=journal.is_done(request_time),
            overtaken_by=overtaken_by(timeline, request_time, decision.completion_time)
            if isinstance(decision, CommitDecision)
            else None,
            ledgers=ledgers,
            started=journal.intent(request_time, len(ledgers) + 1),
        )

    def _on_timeline(self, time: str) -> Instant | None:
        """The instant of this time. Of several: the delta commit, though a compaction came late; else what wrote data,
        as a commit beside its savepoint.
        """
        own = self._timeline.find(time)
        if own is not None:
            return own
        found = [instant for instant in self._timeline.instants if instant.request_time == time]
        writes = [instant for instant in found if instant.action in WRITE_ACTIONS]
        return next(iter(writes or found), None)

    def _pipeline_of(self, instant: Instant | None, owner: str | None) -> str | None:
        """The instant's pipeline, by its file on the timeline: a time that a pipeline claimed but never put onto the
        timeline is free for other writers. Without such a file, the pipeline with journal objects of it.
        """
        if instant is None or instant.action != DELTA_COMMIT:
            return owner if instant is None else None
        path = path_of(instant)
        try:
            return CommitMetadata.decode_extra(self._storage.get(path), path).get(PIPELINE)
        except NotFound:  # completed or rolled back since the listing
            return owner

    def _is_rolled_back(self, time: str, instant: Instant | None, pipeline: str | None) -> bool:
        """Opens completed rollbacks only if one may name it: never for a pending instant of another writer."""
        if instant is not None and pipeline is None:
            return False
        if self._rolled_back is None:
            pending = frozenset(rollback.rollback_time for rollback in self.rollbacks)
            self._rolled_back = rollback_targets(self._storage, self._timeline, pending)
        return time in self._rolled_back
