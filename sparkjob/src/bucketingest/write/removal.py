"""Taking instants of ours back, and cleaning up behind those that were, since late tasks still write files of them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bucketingest.hudi.history import archived_times
from bucketingest.hudi.instant import Instant
from bucketingest.hudi.rollback import RollbackOptions, pending_rollback, roll_back, sweep
from bucketingest.hudi.timeline import Timeline
from bucketingest.storage import Storage
from bucketingest.write.commit_content import is_of_pipeline
from bucketingest.write.coordination import AbortDecision, CommitDecision, Coordination
from bucketingest.write.dead_letters import discard, staged_instants
from bucketingest.write.errors import WriteError
from bucketingest.write.writer_identity import MAX_AHEAD, WriterIdentity

log = logging.getLogger(__name__)


class InstantRemoval:
    """Takes back the instants of one pipeline. Every act may be repeated after a failure."""

    def __init__(
        self,
        storage: Storage,
        coordination: Coordination,
        identity: WriterIdentity,
        rolled_back: Callable[[str], None],
    ) -> None:
        """`rolled_back` is told the time of each rollback of ours."""
        self._storage = storage
        self._coordination = coordination
        self._identity = identity
        self._rolled_back = rolled_back

    def abort(self, instant: str, reason: str) -> None:
        """Decide that the instant never completes, and roll it back as Hudi does. Raises FencedOut."""
        self._coordination.check_epoch(self._identity.epoch)
        decision = self._coordination.decide(instant, AbortDecision(reason))
        if isinstance(decision, CommitDecision):
            raise WriteError(f"instant {instant} is decided to commit and cannot be aborted ({reason})")
        self.undo(instant, reason)

    def undo(self, instant: str, reason: str) -> None:
        """Take what the instant wrote out of the table, as Hudi does it. Its rows belong into another instant."""
        if not self._is_ours(Timeline.load(self._storage).find(instant)):
            self._coordination.mark_done(instant)
            return
        known_times = tuple(archived_times(self._storage))
        result = roll_back(
            self._storage,
            instant,
            RollbackOptions(
                known_times=known_times, max_ahead=MAX_AHEAD, lock=self._identity.lock, clock=self._identity.clock
            ),
        )
        if result.rollback_time is not None:
            self._rolled_back(result.rollback_time)
        if self._identity.dead_letters is not None:
            discard(self._identity.dead_letters, self._identity.pipeline, instant)
        self._coordination.mark_done(instant, aborted=True)
        log.warning("rolled back", extra={"instant": instant, "reason": reason, "deleted_files": len(result.deleted)})

    def sweep(self, instant: str) -> None:
        """Delete what a cut-off task or driver wrote after its instant was aborted, before archival would show it."""
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if not self._is_ours(found):
            return
        pending = found is not None and not found.is_completed  # a driver that slept put it there again
        if pending or (found is None and pending_rollback(self._storage, timeline, instant) is not None):
            self.undo(
                instant, "it was aborted before, and is on the timeline again or has a rollback that is not finished"
            )
            return
        late = sweep(self._storage, instant, superseded=True)
        if self._identity.dead_letters is not None:
            discard(self._identity.dead_letters, self._identity.pipeline, instant)
        if late:
            log.warning("swept late files", extra={"instant": instant, "files": late})

    def _is_ours(self, found: Instant | None) -> bool:
        return found is None or is_of_pipeline(self._storage, found, self._identity.pipeline)

    def discard_staged(self) -> None:
        """Delete dead letters that late tasks staged for instants that are done."""
        letters = self._identity.dead_letters
        if letters is None:
            return
        for instant in staged_instants(letters, self._identity.pipeline):
            if self._coordination.is_done(instant) or instant not in self._coordination.instants():
                discard(letters, self._identity.pipeline, instant)

    def forget_old(self) -> None:
        """Delete the coordination objects that no attempt can need any more; aborted instants are swept once more."""
        old = self._coordination.forgettable(self._identity.clock())
        for instant in old:
            if self._coordination.is_aborted(instant):
                self.sweep(instant)
        self._coordination.forget(old)
