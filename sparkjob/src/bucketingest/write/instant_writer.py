"""The acts on one instant of ours: begin it, decide it, complete it, abort it. When to do which is the coordinator's
business.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from bucketingest.hudi import heartbeat
from bucketingest.hudi.errors import InstantExists, UnsupportedTable
from bucketingest.hudi.history import archived_times
from bucketingest.hudi.instant import ROLLBACK, State, next_instant_time
from bucketingest.hudi.markers import delete_markers
from bucketingest.hudi.naming import join
from bucketingest.hudi.replaced import replaced_file_groups
from bucketingest.hudi.rollback import (
    Lock,
    RollbackOptions,
    pending_rollback,
    roll_back,
    rollback_targets,
    rollbacks_of,
    sweep,
)
from bucketingest.hudi.table import load_table
from bucketingest.hudi.table_checks import metadata_table_refusals
from bucketingest.hudi.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.index.bucket import BucketIndex, FileIds
from bucketingest.index.errors import DuplicateFileGroup
from bucketingest.index.routing import PartitionNumbers
from bucketingest.storage import Storage
from bucketingest.write.commit_content import commit_metadata, inflight_metadata, written_file_groups
from bucketingest.write.coordination import (
    AbortDecision,
    CommitDecision,
    Coordination,
    Decision,
    Intent,
    LedgerEntry,
)
from bucketingest.write.dead_letters import discard, publish
from bucketingest.write.errors import InstantAborted, PositionLost, WriteError
from bucketingest.write.opening import OpenTable
from bucketingest.write.source_range import SourceRange

log = logging.getLogger(__name__)

MAX_AHEAD: Final = timedelta(minutes=5)
"""How far the table's newest instant may be ahead of this machine's clock."""
_REQUEST_ATTEMPTS: Final = 10


def utc_now() -> datetime:
    """The time by the clock of this machine."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """Whose instants these are."""

    pipeline: str
    epoch: int
    dead_letters: Storage | None
    lock: Lock = nullcontext
    check_lease: Callable[[], None] = lambda: None
    clock: Callable[[], datetime] = utc_now


class InstantWriter:
    """Acts on the instants of one attempt. Every act may be repeated after a failure."""

    def __init__(self, opened: OpenTable, coordination: Coordination, identity: WriterIdentity) -> None:
        self._opened = opened
        self._storage = opened.storage
        self._coordination = coordination
        self._identity = identity
        self._index = opened.index
        self._partitions = set(opened.partitions)
        self._seen = opened.commits
        self._known = opened.commits
        self._rollbacks: frozenset[str] = frozenset()

    @property
    def index(self) -> BucketIndex:
        """Every file group that a completed instant wrote."""
        return self._index

    @property
    def file_ids(self) -> FileIds:
        """What write tasks need of the index."""
        return self._index.file_ids

    @property
    def partitions(self) -> PartitionNumbers:
        """The partitions that have their metadata."""
        return PartitionNumbers.of(sorted(self._partitions))

    def begin(self, source_range: SourceRange) -> str:
        """Put a new instant on the timeline, intent and heartbeat first, so that it is never there without them.

        Returns its request time, greater than every time known.
        """
        for _ in range(_REQUEST_ATTEMPTS):
            with self._identity.lock():
                timeline = Timeline.load(self._storage)
                self._check_taken_back(timeline)
                self._fold_in(timeline)
                instant = self._next_time(timeline.times | set(self._coordination.instants()))
                self._coordination.put_intent(instant, 1, self._intent(source_range))
                heartbeat.beat(self._storage, instant)
                try:
                    create_requested(self._storage, instant)
                except InstantExists:
                    self._coordination.forget([instant])
                    continue
                self._create_inflight(instant)
                return instant
        raise WriteError(
            f"{self._storage.url}: no free instant time in {_REQUEST_ATTEMPTS} attempts: other writers are at work "
            "without the table's lock; stop them"
        )

    def begin_next(self, instant: str, sequence: int, source_range: SourceRange) -> bool:
        """Put a further micro-batch into an open instant, or the same one again; False if the instant is not open any
        more, or the micro-batch was begun with other rows or other file names.
        """
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is None or found.is_completed or pending_rollback(self._storage, timeline, instant) is not None:
            return False
        wanted = self._intent(source_range)
        begun = self._coordination.intent(instant, sequence)
        if begun is not None and not begun.same_files_as(wanted):
            return False
        heartbeat.beat(self._storage, instant)
        if begun is None:
            self._coordination.put_intent(instant, sequence, wanted)
        if found.state is State.REQUESTED:
            self._create_inflight(instant)
        return True

    def keep_alive(self, instant: str, last: datetime | None) -> datetime:
        """Renew the heartbeat of an instant that waits for input if half its interval has passed since `last`. Returns
        the time of the last beat.
        """
        now = self._identity.clock()
        if last is not None and now - last < heartbeat.INTERVAL / 2:
            return last
        heartbeat.beat(self._storage, instant)
        return now

    def look(self) -> Timeline:
        """The timeline; what other writers have done up to now counts as known afterwards."""
        timeline = Timeline.load(self._storage)
        self._rollbacks = _rollback_times(timeline)
        self._known = frozenset(instant.request_time for instant in timeline.completed_commits)
        return timeline

    def complete(self, instant: str, entries: Sequence[LedgerEntry]) -> Decision:
        """Decide the instant unless it is decided, and carry the decision out.

        Raises InstantAborted if it was rolled back, here or by another writer: its rows must be written again. Raises
        as the checks before the decision do.
        """
        with self._identity.lock():
            decision = self._coordination.decision(instant) or self._decide(instant, entries)
            gone = False
            if isinstance(decision, CommitDecision):
                gone = self._is_gone(instant)
                if not gone:
                    complete(self._storage, instant, decision.completion_time, decision.content)
        if isinstance(decision, AbortDecision):
            self.abort(instant, decision.reason)
            raise InstantAborted(f"instant {instant} was aborted: {decision.reason}; its rows are written again")
        if gone:
            self.undo(instant, "it was decided to commit, but another writer rolled it back")
            raise InstantAborted(f"another writer rolled instant {instant} back; its rows are written again")
        self._completed(instant, entries)
        return decision

    def _decide(self, instant: str, entries: Sequence[LedgerEntry]) -> Decision:
        """Make all checks that can still stop the commit, then decide.

        Raises FencedOut, PositionLost, UnsupportedTable (the metadata table was switched on), DuplicateFileGroup (among
        other writers' commits; where a file group of ours would be the second one, it is decided to abort).
        """
        self._coordination.check_epoch(self._identity.epoch)
        if reasons := metadata_table_refusals(load_table(self._storage).properties):
            raise UnsupportedTable(self._storage.url, reasons)
        timeline = Timeline.load(self._storage)
        if timeline.find(instant) is None or pending_rollback(self._storage, timeline, instant) is not None:
            return self._coordination.decide(instant, AbortDecision("another writer rolled it back"))
        self._check_taken_back(timeline)
        self._fold_in(timeline)
        written = {
            (status.partition_path, status.file_id) for entry in entries for status in entry.statuses if status.file_id
        }
        try:
            self._index.with_commit(written)
        except DuplicateFileGroup as error:
            place = f"bucket {error.bucket} of partition {error.partition_path!r}"
            why = f"another writer gave {place} file group {error.file_ids[0]} meanwhile"
            return self._coordination.decide(instant, AbortDecision(why))
        content = commit_metadata(self._opened, self._identity.pipeline, self._identity.epoch, entries).encode()
        completion_time = self._next_time(timeline.times)
        self._identity.check_lease()  # last: nothing that takes long lies between it and the decision
        return self._coordination.decide(instant, CommitDecision(completion_time, content))

    def _is_gone(self, instant: str) -> bool:
        """Whether a decided instant was rolled back by another writer before it was completed."""
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is not None and found.is_completed:
            return False
        return found is None or bool(rollbacks_of(self._storage, timeline, instant))

    def _completed(self, instant: str, entries: Sequence[LedgerEntry]) -> None:
        heartbeat.stop(self._storage, instant)
        statuses = [status for entry in entries for status in entry.statuses]
        delete_markers(self._storage, instant, [join(s.partition_path, s.file_name) for s in statuses if s.file_id])
        if self._identity.dead_letters is not None:
            letters = [status.file_name for status in statuses if status.rejected]
            publish(self._identity.dead_letters, self._identity.pipeline, instant, letters)
        written = {(status.partition_path, status.file_id) for status in statuses if status.file_id}
        self._index = self._index.with_commit(written)
        self._partitions.update(partition_path for partition_path, _ in written)
        self._seen |= {instant}
        self._known |= {instant}
        self._coordination.mark_done(instant)

    def abort(self, instant: str, reason: str) -> None:
        """Decide that the instant never completes, and roll it back as Hudi does. Raises FencedOut."""
        self._coordination.check_epoch(self._identity.epoch)
        decision = self._coordination.decide(instant, AbortDecision(reason))
        if isinstance(decision, CommitDecision):
            raise WriteError(f"instant {instant} is decided to commit and cannot be aborted ({reason})")
        self.undo(instant, reason)

    def undo(self, instant: str, reason: str) -> None:
        """Take what the instant wrote out of the table, as Hudi does it. Its rows belong into another instant."""
        known_times = tuple(archived_times(self._storage))
        result = roll_back(
            self._storage,
            instant,
            RollbackOptions(
                known_times=known_times, max_ahead=MAX_AHEAD, lock=self._identity.lock, clock=self._identity.clock
            ),
        )
        if result.rollback_time is not None:
            self._rollbacks |= {result.rollback_time}
        if self._identity.dead_letters is not None:
            discard(self._identity.dead_letters, self._identity.pipeline, instant)
        self._coordination.mark_done(instant)
        log.warning("rolled back", extra={"instant": instant, "reason": reason, "deleted_files": len(result.deleted)})

    def sweep(self, instant: str) -> None:
        """Delete what a cut-off task wrote after its instant was rolled back, before archival would show it."""
        late = sweep(self._storage, instant)
        if self._identity.dead_letters is not None:
            discard(self._identity.dead_letters, self._identity.pipeline, instant)
        if late:
            log.warning("swept late files", extra={"instant": instant, "files": late})

    def _intent(self, source_range: SourceRange) -> Intent:
        return Intent(source_range, self._index.file_ids.fingerprint)

    def _create_inflight(self, instant: str) -> None:
        content = inflight_metadata(self._opened, self._identity.pipeline, self._identity.epoch)
        create_inflight(self._storage, instant, content=content)

    def _check_taken_back(self, timeline: Timeline) -> None:
        """Raise PositionLost if another writer took completed instants back since the last `look`."""
        completed = frozenset(instant.request_time for instant in timeline.completed_commits)
        gone = {time for time in self._known - completed if not timeline.is_archived(time)}
        if _rollback_times(timeline) - self._rollbacks:
            gone |= rollback_targets(self._storage, timeline, self._rollbacks) & self._known
        if gone:
            raise PositionLost(
                f"{self._storage.url}: another writer took instants back that were completed: "
                f"{', '.join(sorted(gone))}; their rows are ingested again"
            )
        self._known = completed
        self._rollbacks = _rollback_times(timeline)

    def _fold_in(self, timeline: Timeline) -> None:
        """Learn the file groups that other writers' instants made since the last look."""
        written = written_file_groups(self._storage, timeline, self._seen)
        replaced = replaced_file_groups(self._storage, timeline)
        self._index = self._index.without(replaced).with_commit(group for group in written if group not in replaced)
        self._index.check_replaced(replaced)
        self._seen = frozenset(instant.request_time for instant in timeline.completed_commits)

    def _next_time(self, known: frozenset[str] | set[str]) -> str:
        return next_instant_time(self._identity.clock(), known | archived_times(self._storage), MAX_AHEAD)


def _rollback_times(timeline: Timeline) -> frozenset[str]:
    return frozenset(instant.request_time for instant in timeline.instants if instant.action == ROLLBACK)
