"""Carries out decisions about instants of one pipeline. Every operation may be repeated after a failure."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from bucketingest.hudi.errors import RollbackError
from bucketingest.hudi.history.archived import archived_times, is_archived, is_settled, stay_behind_savepoint
from bucketingest.hudi.naming import join
from bucketingest.hudi.rollback.late_files import sweep_late_files
from bucketingest.hudi.rollback.markers import delete_markers
from bucketingest.hudi.rollback.rollback import (
    RollbackOptions,
    RollbackResult,
    pending_rollback,
    roll_back,
    rollbacks_of,
)
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, PENDING_STATES, Instant
from bucketingest.hudi.timeline.overtaking import came_too_late, overtaken_by
from bucketingest.hudi.timeline.timeline import Timeline, complete, completed_files, path_of
from bucketingest.storage import Storage
from bucketingest.write.dead_letters.instant_letters import InstantLetters
from bucketingest.write.errors import FencedOut, InstantAborted, PositionLost, WriteError
from bucketingest.write.instant_look import fresh_look
from bucketingest.write.instants.commit_content import is_of_pipeline
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision, CommitDecision, LedgerEntry
from bucketingest.write.instants.writer_identity import WriterIdentity
from bucketingest.write.recovery.decide import Choice, Step
from bucketingest.write.recovery.facts import Facts

log = logging.getLogger(__name__)


class InstantExecutor:
    """Completes instants of one pipeline and rolls them back."""

    def __init__(self, storage: Storage, journal: Journal, identity: WriterIdentity, *, settles: bool = True) -> None:
        """`settles`: dead letters are handled too, and the instant is marked as done; else the pipeline's next start,
        which has the credentials, does that.
        """
        self._storage = storage
        self._journal = journal
        self._identity = identity
        self._settles = settles
        self.letters = InstantLetters(journal, identity)
        self.rollback_times: set[str] = set()
        """Request times of the rollbacks that this executor made or finished."""

    def try_complete(self, instant: str, decision: CommitDecision) -> str | None:
        """Complete an instant that was decided before, by this attempt or another one. Returns the reason if it is too
        late: then it must be rolled back. Raises FencedOut, and as `fresh_look` and `check_not_overtaken` do.
        """
        with self._identity.lock():
            checks = partial(self._to_complete, instant, decision)
            (is_open, why), _ = fresh_look(self._storage.url, self._identity.forward, checks)
            if is_open and why is None:
                complete(self._storage, instant, decision.completion_time, decision.content)
        if why is None:
            self.check_not_overtaken(instant)
        return why

    def _to_complete(self, instant: str, decision: CommitDecision) -> tuple[bool, str | None]:
        """Whether a decided instant is not complete yet, and why it must not be completed any more."""
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is None and is_archived(self._storage, instant):
            return False, None
        if found is None or not found.is_completed:
            return True, self._refusal(timeline, instant, decision)
        if found.completion_time != decision.completion_time:  # this process was paused until the decision was deleted
            raise completed_by_another(self._storage, found)
        return False, None

    def complete(self, instant: str, decision: CommitDecision, entries: Sequence[LedgerEntry]) -> None:
        """Complete it as `try_complete` does, then close it. Raises InstantAborted if it was rolled back instead."""
        why = self.try_complete(instant, decision)
        if why is not None:
            self.undo(instant, why)
            raise InstantAborted(f"{why}: its rows are written again")
        self.close(instant, entries)

    def carry_out(self, choice: Choice) -> None:
        """Carry out the choice for an instant that is not resumed. Raises as the single operations do."""
        found, decision = choice.found, choice.found.decision
        if choice.step is Step.COMPLETE and isinstance(decision, CommitDecision):
            self.complete(found.request_time, decision, found.ledgers)
        elif choice.step is Step.CLOSE:
            if found.rolled_back or found.rollbacks:
                self._journal.mark_overtaken(found.request_time, choice.reason)
            self.check_not_overtaken(found.request_time)
            self.close(found.request_time, found.ledgers)
        elif isinstance(decision, CommitDecision):
            if found.overtaken_by is not None:  # first: a process that still tries to complete it reads this
                self._journal.mark_overtaken(found.request_time, found.overtaken_by)
            self.undo(found.request_time, choice.reason)
        else:
            self.abort(found.request_time, choice.reason)

    def after_loss(self, found: Facts, reason: str) -> None:
        """Earlier rows must be ingested again: abort the instant if it is undecided, close it if it is decided or
        complete, though its decision may be forgotten.

        Raises FencedOut: a newer attempt may have decided it, and not completed it.
        """
        instant = Timeline.load(self._storage).find(found.request_time)
        completed = instant is not None and instant.is_completed
        if completed or isinstance(self._journal.decision(found.request_time), CommitDecision):
            self._journal.check_epoch(self._identity.epoch)
            self.close(found.request_time, found.ledgers)
        else:
            self.abort(found.request_time, reason)

    def _refusal(self, timeline: Timeline, instant: str, decision: CommitDecision) -> str | None:
        """Why a decided instant that is not complete must no longer be completed; None if it may."""
        if timeline.find(instant) is None or rollbacks_of(self._storage, timeline, instant):
            return f"another writer rolled instant {instant} back"
        by = overtaken_by(timeline, instant, decision.completion_time)
        if by is not None:
            why = f"{by} came before instant {instant} completed, which was decided for {decision.completion_time}"
            self._journal.mark_overtaken(instant, why)
            return why
        return f"instant {instant} was overtaken before" if self._journal.is_overtaken(instant) else None

    def check_not_overtaken(self, instant: str) -> None:
        """Check whether an instant that has just been completed came too late: no earlier check can exclude it.

        Raises PositionLost if its rows must be ingested again.
        """
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is None or not found.is_completed:
            return  # already rolled back or archived: the next `refresh` finds it
        by = came_too_late(self._storage, timeline, found)
        if by is not None:
            self._journal.mark_overtaken(instant, by)
            raise PositionLost(f"{self._storage.url}: {by} leaves out instant {instant}: its rows are ingested again")

    def abort(self, instant: str, reason: str) -> RollbackResult | None:
        """Decide that the instant never completes, and roll it back as Hudi does. Raises as `undo`."""
        self._journal.check_epoch(self._identity.epoch)
        if isinstance(self._journal.decide(instant, AbortDecision(reason)), CommitDecision):
            raise WriteError(f"instant {instant} has the decision to commit and cannot be aborted ({reason})")
        return self.undo(instant, reason)

    def undo(self, instant: str, reason: str) -> RollbackResult | None:
        """Roll the instant back, as Hudi does it. Its rows must be written again in another instant.

        Raises FencedOut, and PositionLost if another attempt completed it meanwhile, as decided.
        """
        if isinstance(self._journal.decision(instant), CommitDecision):
            self._journal.check_epoch(self._identity.epoch)  # a process that was paused may know less than newer ones
        if not self._is_own(Timeline.load(self._storage).find(instant)):
            self._journal.mark_done(instant)
            return None
        result = self._roll_back(instant)
        if self._settles:
            self.letters.discard(instant)
            if isinstance(self._journal.decision(instant), CommitDecision):  # it may have been complete for some time
                self.letters.withdraw([instant])
            self._journal.mark_done(instant, aborted=True)
        log.warning("rolled back", extra={"instant": instant, "reason": reason, "deleted_files": len(result.deleted)})
        return result

    def _roll_back(self, instant: str) -> RollbackResult:
        known, clock = tuple(archived_times(self._storage)), self._identity.clock
        options = RollbackOptions(known_times=known, lock=self._identity.lock, clock=clock)
        try:
            result = roll_back(self._storage, instant, options)
        except RollbackError as error:
            timeline = Timeline.load(self._storage)
            found = timeline.find(instant)
            if found is None or not found.is_completed:
                raise
            self._journal.mark_overtaken(instant, str(error))
            if self._settles and pending_rollback(self._storage, timeline, instant) is not None:
                return self._finish_rollback(found, options)
            raise PositionLost(
                f"{self._storage.url}: another attempt completed instant {instant} while it was rolled back: its rows "
                "are ingested again"
            ) from error
        return self._note(result)

    def _finish_rollback(self, completed: Instant, options: RollbackOptions) -> RollbackResult:
        """Finish a rollback although the instant completed during it: some of its files are deleted, its rows come
        again, and a rollback that stays pending makes every write of Hudi's single writer fail.
        """
        self._journal.check_epoch(self._identity.epoch)
        self._storage.delete(path_of(completed))
        return self._note(roll_back(self._storage, completed.request_time, options))

    def _note(self, result: RollbackResult) -> RollbackResult:
        if result.rollback_time is not None:
            self.rollback_times.add(result.rollback_time)
        return result

    def close(self, instant: str, entries: Sequence[LedgerEntry]) -> None:
        """The instant is complete: delete its heartbeat and markers, publish its dead letters."""
        heartbeat.stop(self._storage, instant)
        statuses = [status for entry in entries for status in entry.statuses]
        delete_markers(self._storage, instant)
        if not self._settles:
            return
        if any(status.rejected for status in statuses) and not self.letters.publish(instant, entries):
            log.error("dead letters wait for a start with errors.mode deadLetter", extra={"instant": instant})
            return
        self._journal.mark_done(instant)

    def delete_late_files(self, aborted: Sequence[str], remembered: Sequence[str] = ()) -> None:
        """Delete what cut-off tasks and drivers wrote after these instants were aborted: archival would make it
        visible. Lists the table once. `remembered`: those whose other objects are gone.
        """
        timeline = Timeline.load(self._storage)
        there = {instant.request_time for instant in timeline.instants}
        own = {t for t in (*aborted, *remembered) if t not in there or self._is_own(timeline.find(t))}
        for instant in sorted(own):
            found = timeline.find(instant) if instant in there else None
            if found is not None and found.is_completed:  # by an attempt that was paused between its checks and this
                again = completed_files(self._storage, found.action, instant)
                self._storage.delete_many([path_of(each) for each in again])
                found = Timeline.load(self._storage).find(instant)
            is_named = instant not in timeline.compactions and pending_rollback(self._storage, timeline, instant)
            if found is not None or is_named:  # beside a compaction a rollback is the compaction's
                self.undo(instant, "it was aborted before, and is on the timeline again or has a rollback to finish")
        sweep_late_files(self._storage, timeline, own)
        for instant in own.intersection(aborted):
            self.letters.discard(instant)

    def remove_reappeared(self) -> None:
        """Remove from the timeline what a paused process has put back: the pipeline's instants that are archived or
        forgotten. Readers would treat one as the oldest instant, and everything archived since as uncommitted.
        """
        for instant in Timeline.load(self._storage).pending:
            time = instant.request_time
            if instant.action != DELTA_COMMIT or not self._is_own(instant):
                continue
            if self._journal.is_forgotten(time) and not is_archived(self._storage, time):
                self.abort(time, "it was put onto the timeline after it was forgotten")
            elif self._journal.is_overtaken(time) and self._journal.is_done(time):
                # An attempt marked it as done while another process finished its rollback.
                self.undo(time, "it was complete, but its rollback is not finished")
        if not is_settled(self._storage):
            return
        newest_archived, timeline = max(archived_times(self._storage), default=""), Timeline.load(self._storage)
        saved = stay_behind_savepoint(self._storage, timeline)
        for instant in timeline.writes:  # from the oldest: none may be removed before an older one
            time = instant.request_time
            if time > (saved or newest_archived) or instant.action != DELTA_COMMIT or not self._is_own(instant):
                return
            if not is_archived(self._storage, time) and not self._has_lost_its_files(instant):
                return
            log.warning("removed from the timeline: newer instants are archived", extra={"instant": time})
            self._storage.delete_many([path_of(Instant(time, DELTA_COMMIT, state)) for state in PENDING_STATES])
            self._storage.delete(path_of(instant))

    def _has_lost_its_files(self, instant: Instant) -> bool:
        """Whether it was rolled back, and completed by an attempt that was paused until its objects were forgotten."""
        if not instant.is_completed:
            return False
        path = path_of(instant)
        files = CommitMetadata.decode_files(self._storage.get(path), path)
        return bool(files) and not any(self._storage.exists(join(each.partition_path, each.name)) for each in files)

    def forget_old(self) -> None:
        """Delete the journal objects that no attempt needs any more; aborted instants are swept once more."""
        forgettable = self._journal.forgettable(self._identity.clock())
        if aborted := [instant for instant, objects in forgettable.items() if "aborted" in objects]:
            self.delete_late_files(aborted)
        for instant, objects in forgettable.items():
            # The rows of one that was overtaken count as not in the table as long as it is there.
            overtaken = "overtaken" in objects and "aborted" not in objects
            if not overtaken or Timeline.load(self._storage).find(instant) is None:
                self._journal.forget([instant])

    def _is_own(self, found: Instant | None) -> bool:
        return found is None or is_of_pipeline(self._storage, found, self._identity.pipeline)


def completed_by_another(storage: Storage, found: Instant) -> FencedOut:
    """The error of an attempt that finds its instant completed with another time."""
    return FencedOut(
        f"{storage.url}: instant {found.request_time} was completed at {found.completion_time} by another attempt: "
        "this one stops and commits nothing"
    )
