"""The acts on one instant of ours: begin it, decide it, complete it, abort it. When to do which is the coordinator's
business.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from bucketingest.hudi import heartbeat
from bucketingest.hudi.errors import InstantExists, UnsupportedTable
from bucketingest.hudi.history import archived_times
from bucketingest.hudi.instant import Instant, State, next_instant_time
from bucketingest.hudi.markers import delete_markers
from bucketingest.hudi.naming import join
from bucketingest.hudi.rollback import (
    pending_rollback,
    rollbacks_of,
)
from bucketingest.hudi.table import load_table
from bucketingest.hudi.table_checks import metadata_table_refusals
from bucketingest.hudi.timeline import Timeline, complete, create_inflight, create_requested
from bucketingest.index.bucket import BucketIndex, FileIds
from bucketingest.index.errors import DuplicateFileGroup
from bucketingest.index.routing import PartitionNumbers
from bucketingest.write.commit_content import commit_metadata, inflight_metadata, is_of_pipeline
from bucketingest.write.coordination import (
    AbortDecision,
    CommitDecision,
    Coordination,
    Decision,
    Intent,
    LedgerEntry,
)
from bucketingest.write.dead_letters import discard, publish
from bucketingest.write.errors import FencedOut, InstantAborted, PositionLost, WriteError
from bucketingest.write.opening import OpenTable
from bucketingest.write.removal import InstantRemoval
from bucketingest.write.shared_table import SharedTable
from bucketingest.write.source_range import SourceRange
from bucketingest.write.writer_identity import MAX_AHEAD, WriterIdentity

log = logging.getLogger(__name__)

_REQUEST_ATTEMPTS: Final = 10


class InstantWriter:
    """Acts on the instants of one attempt. Every act may be repeated after a failure."""

    def __init__(self, opened: OpenTable, coordination: Coordination, identity: WriterIdentity) -> None:
        self._opened = opened
        self._storage = opened.storage
        self._coordination = coordination
        self._identity = identity
        self._shared = SharedTable(opened)
        self.removal = InstantRemoval(opened.storage, coordination, identity, self._shared.rolled_back)
        """Takes instants back."""

    @property
    def index(self) -> BucketIndex:
        """Every file group that a completed instant wrote."""
        return self._shared.index

    def look(self) -> Timeline:
        """The timeline; what other writers have done up to now counts as known afterwards."""
        return self._shared.look()

    @property
    def file_ids(self) -> FileIds:
        """What write tasks need of the index."""
        return self._shared.index.file_ids

    @property
    def partitions(self) -> PartitionNumbers:
        """The partitions that have their metadata."""
        return PartitionNumbers.of(sorted(self._shared.partitions))

    def begin(self, source_range: SourceRange) -> str:
        """Put a new instant on the timeline, intent and heartbeat first, so that it is never there without them.

        Returns its request time, greater than every time known. Raises FencedOut, and what the lease's check does: one
        who has slept must not leave an instant that nobody goes on with.
        """
        self._identity.check_lease()
        self._coordination.check_epoch(self._identity.epoch)
        for _ in range(_REQUEST_ATTEMPTS):
            with self._identity.lock():
                timeline = Timeline.load(self._storage)
                self._shared.check_taken_back(timeline)
                self._shared.fold_in(timeline)
                instant = self._next_time(timeline.times | set(self._coordination.instants()))
                if not self._coordination.claim(instant, self._intent(source_range)):
                    continue
                heartbeat.beat(self._storage, instant)
                try:
                    create_requested(self._storage, instant)
                except InstantExists:
                    # Whoever has it on the timeline may be an attempt that needs the intent; a start forgets ours.
                    continue
                self._create_inflight(instant)
            self._check_not_aborted(instant)
            return instant
        raise WriteError(
            f"{self._storage.url}: no free instant time in {_REQUEST_ATTEMPTS} attempts: other writers are at work "
            "without the table's lock; stop them"
        )

    def _check_not_aborted(self, instant: str) -> None:
        """A newer attempt may have aborted the instant while this one was putting it on the timeline."""
        if isinstance(decision := self._coordination.decision(instant), AbortDecision):
            self.removal.undo(instant, decision.reason)
            self._coordination.check_epoch(self._identity.epoch)
            raise InstantAborted(f"instant {instant} was aborted as it began: {decision.reason}")

    def begin_next(self, instant: str, sequence: int, source_range: SourceRange) -> bool:
        """Put a further micro-batch into an open instant, or the same one again; False if the instant is not open any
        more, or the micro-batch was begun with other rows or other file names.
        """
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is None or found.is_completed or pending_rollback(self._storage, timeline, instant) is not None:
            return False
        if not is_of_pipeline(self._storage, found, self._identity.pipeline):
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

    def complete(self, instant: str, entries: Sequence[LedgerEntry]) -> Decision:
        """Decide the instant unless it is decided, and carry the decision out.

        Raises InstantAborted if it was rolled back, here or by another writer: its rows must be written again. Raises
        as the checks before the decision do.
        """
        with self._identity.lock():
            decision = self._coordination.decision(instant)
            if decision is None:
                decision, entries = self._decide(instant, entries)
            else:  # perhaps by an attempt that had more of its micro-batches
                entries = self._coordination.ledgers(instant)
            gone = False
            if isinstance(decision, CommitDecision):
                gone = self._is_gone(instant, decision)
                if not gone:
                    complete(self._storage, instant, decision.completion_time, decision.content)
        if isinstance(decision, AbortDecision):
            self.removal.abort(instant, decision.reason)
            raise InstantAborted(f"instant {instant} was aborted: {decision.reason}; its rows are written again")
        if gone:
            self.removal.undo(instant, "it was decided to commit, but another writer rolled it back")
            raise InstantAborted(f"another writer rolled instant {instant} back; its rows are written again")
        self._completed(instant, entries)
        return decision

    def _decide(self, instant: str, entries: Sequence[LedgerEntry]) -> tuple[Decision, Sequence[LedgerEntry]]:
        """Make all checks that can still stop the commit, then decide. Returns what was decided, and over what.

        Raises FencedOut, PositionLost, UnsupportedTable (the metadata table was switched on), DuplicateFileGroup (among
        other writers' commits; where a file group of ours would be the second one, it is decided to abort).
        """
        self._coordination.check_epoch(self._identity.epoch)
        if reasons := metadata_table_refusals(load_table(self._storage).properties):
            raise UnsupportedTable(self._storage.url, reasons)
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is not None and found.is_completed:
            raise self._completed_by_another(found)
        if found is None or pending_rollback(self._storage, timeline, instant) is not None:
            return self._coordination.decide(instant, AbortDecision("another writer rolled it back")), entries
        self._shared.check_taken_back(timeline)
        self._shared.fold_in(timeline)
        written = {
            (status.partition_path, status.file_id) for entry in entries for status in entry.statuses if status.file_id
        }
        try:
            self._shared.index.with_commit(written)
        except DuplicateFileGroup as error:
            place = f"bucket {error.bucket} of partition {error.partition_path!r}"
            why = f"another writer gave {place} file group {error.file_ids[0]} meanwhile"
            return self._coordination.decide(instant, AbortDecision(why)), entries
        if not self._coordination.close(instant, len(entries) + 1):
            raise PositionLost(f"another attempt began micro-batch {len(entries) + 1} of instant {instant} meanwhile")
        content = commit_metadata(self._opened, self._identity.pipeline, self._identity.epoch, entries).encode()
        completion_time = self._next_time(timeline.times)
        self._identity.check_lease()  # last: nothing that takes long lies between it and the decision
        wanted = CommitDecision(completion_time, content)
        decision = self._coordination.decide(instant, wanted)
        return decision, entries if decision is wanted else self._coordination.ledgers(instant)

    def _is_gone(self, instant: str, decision: CommitDecision) -> bool:
        """Whether a decided instant was rolled back by another writer before it was completed.

        Raises FencedOut if it is complete with another time: this attempt slept until the decision was forgotten.
        """
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is None or not found.is_completed:
            return found is None or bool(rollbacks_of(self._storage, timeline, instant))
        if found.completion_time != decision.completion_time:
            raise self._completed_by_another(found)
        return False

    def _completed_by_another(self, found: Instant) -> FencedOut:
        return FencedOut(
            f"{self._storage.url}: instant {found.request_time} was completed at {found.completion_time} by another "
            "attempt: this one stops and commits nothing"
        )

    def _completed(self, instant: str, entries: Sequence[LedgerEntry]) -> None:
        heartbeat.stop(self._storage, instant)
        statuses = [status for entry in entries for status in entry.statuses]
        delete_markers(self._storage, instant, [join(s.partition_path, s.file_name) for s in statuses if s.file_id])
        if self._identity.dead_letters is not None:
            letters = [status.file_name for status in statuses if status.rejected]
            publish(self._identity.dead_letters, self._identity.pipeline, instant, letters)
            if letters:  # what other attempts and twins staged of the same rows
                discard(self._identity.dead_letters, self._identity.pipeline, instant)
        written = {(status.partition_path, status.file_id) for status in statuses if status.file_id}
        self._shared.wrote(instant, written)
        self._coordination.mark_done(instant)

    def _intent(self, source_range: SourceRange) -> Intent:
        return Intent(source_range, self._shared.index.file_ids.fingerprint)

    def _create_inflight(self, instant: str) -> None:
        content = inflight_metadata(self._opened, self._identity.pipeline, self._identity.epoch)
        create_inflight(self._storage, instant, content=content)

    def _next_time(self, known: frozenset[str] | set[str]) -> str:
        return next_instant_time(self._identity.clock(), known | archived_times(self._storage), MAX_AHEAD)
