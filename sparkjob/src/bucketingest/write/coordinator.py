"""Starts instants, collects what the write tasks report, commits, and takes up again what an earlier attempt left open.

One coordinator per attempt, on the driver. It knows nothing of the engine: `run` is given a source range and a function
that writes its rows.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import stamina

from bucketingest.hudi.history import archived_instants
from bucketingest.hudi.rollback import rollbacks_of
from bucketingest.hudi.timeline import Timeline
from bucketingest.index.bucket import FileIds
from bucketingest.index.routing import PartitionNumbers
from bucketingest.storage import Storage, StorageUnavailable
from bucketingest.write.beating import beating
from bucketingest.write.commit_content import position_of
from bucketingest.write.coordination import KEPT_INSTANTS, AbortDecision, Coordination, LedgerEntry
from bucketingest.write.errors import ConflictingAttempt, InstantAborted, RowsRejected
from bucketingest.write.instant_writer import SEQUENCE, InstantWriter, WriterIdentity, utc_now
from bucketingest.write.opening import OpenTable
from bucketingest.write.recovery import FoundInstant, Verdict, verdict
from bucketingest.write.source_range import Relation, SourceRange, relate
from bucketingest.write.write_status import WriteStatus, check_complete

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the tasks of one micro-batch are told."""

    instant_time: str
    sequence: int
    file_ids: FileIds
    partitions: PartitionNumbers


WriteRows: TypeAlias = Callable[[Assignment], Sequence[WriteStatus]]
"""Runs the write tasks and returns all their statuses. Raises ConflictingAttempt if a task found other rows under its
names.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a micro-batch. Times in seconds, size in bytes, the rest in rows or files."""

    instant_time: str | None
    """None: its rows were in the table already."""
    rows: int = 0
    upserts: int = 0
    deletes: int = 0
    rejected: int = 0
    files: int = 0
    size_bytes: int = 0
    write_seconds: float = 0.0
    commit_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CoordinatorSettings:
    """How the coordinator commits."""

    pipeline: str
    tasks: int
    """Number of write tasks, each of which must report."""
    max_retries: int
    """How often a commit is tried again after a storage error."""
    dead_letters: Storage | None
    """Where rejected rows go; None: a rejected row fails the micro-batch."""
    clock: Callable[[], datetime] = utc_now


class InstantCoordinator:
    """Drives the instants of one pipeline on one table. Not shared between threads."""

    def __init__(self, opened: OpenTable, settings: CoordinatorSettings) -> None:
        self._opened = opened
        self._storage = opened.storage
        self._settings = settings
        self._coordination = Coordination(self._storage, settings.pipeline)
        self._position: SourceRange | None = None
        self._open: str | None = None
        self._settled = False
        claimant = f"{socket.gethostname()} (process {os.getpid()})"
        self.epoch = self._coordination.claim_epoch(claimant)
        identity = WriterIdentity(settings.pipeline, self.epoch, settings.dead_letters, settings.clock)
        self._writer = InstantWriter(opened, self._coordination, identity)

    @property
    def position(self) -> SourceRange | None:
        """The last source range that the table has; None before the pipeline's first commit."""
        return self._position

    @property
    def inflight(self) -> str | None:
        """Request time of the open instant."""
        return self._open

    def start(self) -> SourceRange | None:
        """Finish what earlier attempts left open, and return the position to continue from."""
        self._open = None
        for instant in self._coordination.instants():
            self._recover(instant)
        timeline = Timeline.load(self._storage)
        self._position = position_of(self._storage, timeline, self._settings.pipeline) or self._archived_position()
        position = None if self._position is None else self._position.end
        self._settled = True
        log.info("started", extra={"epoch": self.epoch, "position": position, "resumes_instant": self._open})
        return self._position

    def run(self, source_range: SourceRange, write_rows: WriteRows) -> Outcome:
        """Write the rows of a micro-batch and commit them; nothing if the table has them already.

        Raises RangeConflict, RowsRejected, FencedOut, InstantAborted, ConflictingAttempt, IncompleteReport, and what
        storage and tasks raise. An instant whose tasks failed stays open: the same range, here or in the next attempt,
        resumes it.
        """
        if not self._settled:  # a run failed midway: what it left is known to the storage only
            self.start()
        if relate(source_range, self._position) is Relation.DONE:
            log.info(
                "skipped, the table has this range", extra={"batch": source_range.batch_id, "end": source_range.end}
            )
            return Outcome(None)
        self._settled = False
        started = time.monotonic()
        instant = self._instant_for(source_range)
        assignment = Assignment(instant, SEQUENCE, self._writer.file_ids, self._writer.partitions)
        try:
            with beating(self._storage, instant):
                statuses = write_rows(assignment)
            check_complete(statuses, self._settings.tasks)
            self._check_rejected(statuses)
        except (ConflictingAttempt, RowsRejected) as error:
            self._abort(instant, str(error))
            raise
        written = time.monotonic()
        self._commit(instant, LedgerEntry(source_range, tuple(statuses)))
        self._settled = True
        return _outcome(instant, statuses, written - started, time.monotonic() - written)

    def _instant_for(self, source_range: SourceRange) -> str:
        """The open instant if it was begun with this range, else a new one."""
        if self._open is not None:
            if self._writer.resume(self._open, source_range):
                return self._open
            self._abort(self._open, "its micro-batch was begun with another source range or other file groups")
        self._open = self._writer.begin(source_range)
        return self._open

    def _check_rejected(self, statuses: Sequence[WriteStatus]) -> None:
        rejected = [status for status in statuses if status.rejected]
        if rejected and self._settings.dead_letters is None:
            count = sum(status.rejected for status in rejected)
            raise RowsRejected(
                f"{count} rows cannot be written and spec.errors.mode is fail. The first: {rejected[0].sample}. "
                "Mend the source, or set spec.errors.mode to deadLetter"
            )

    def _commit(self, instant: str, entry: LedgerEntry) -> None:
        """Put the micro-batch into the ledger, decide the instant and complete it; repeated after storage errors."""
        attempts = self._settings.max_retries + 1
        for attempt in stamina.retry_context(on=StorageUnavailable, attempts=attempts, timeout=None):
            with attempt:
                # Before the ledger: an entry for an instant that is long forgotten would look like open work.
                self._coordination.check_epoch(self.epoch)
                self._coordination.put_ledger(instant, SEQUENCE, entry)
                decision = self._coordination.decision(instant) or self._writer.decide_commit(instant, entry)
                self._open = None
                self._writer.carry_out(instant, decision, [entry])
        self._position = entry.source_range
        self._coordination.forget(self._coordination.instants()[:-KEPT_INSTANTS])

    def _abort(self, instant: str, reason: str) -> None:
        self._open = None
        self._writer.abort(instant, reason)

    def _recover(self, instant: str) -> None:
        """Do what must be done with an instant of an earlier attempt."""
        if self._coordination.is_done(instant):
            if isinstance(self._coordination.decision(instant), AbortDecision):
                self._writer.sweep(instant)
            return
        found = self._find(instant)
        step, why = verdict(found)
        log.info("recovering", extra={"instant": instant, "verdict": step.value, "reason": why})
        match step:
            case Verdict.COMMIT:
                assert found.ledger is not None, "the ledger is written before the decision"
                with suppress(InstantAborted):  # then its rows come again
                    self._commit(instant, found.ledger)
            case Verdict.RESUME if self._open is None:
                self._open = instant
            case Verdict.UNDO:
                self._writer.undo(instant, why)
            case Verdict.FORGET:
                self._coordination.mark_done(instant)
            case _:
                self._abort(instant, why)

    def _archived_position(self) -> SourceRange | None:
        """The range of our newest instant that other writers' archival took off the timeline while we were idle."""
        for instant in reversed(self._coordination.instants()):
            entry = self._coordination.ledger(instant, SEQUENCE)
            if entry is not None and archived_instants(self._storage, instant):
                return entry.source_range
        return None

    def _find(self, instant: str) -> FoundInstant:
        timeline = Timeline.load(self._storage)
        on_timeline = timeline.find(instant)
        return FoundInstant(
            request_time=instant,
            on_timeline=on_timeline is not None,
            completed=on_timeline is not None and on_timeline.is_completed,
            archived=on_timeline is None and timeline.is_archived(instant),
            rolled_back=bool(rollbacks_of(self._storage, timeline, instant)),
            decision=self._coordination.decision(instant),
            intent=self._coordination.intent(instant, SEQUENCE),
            ledger=self._coordination.ledger(instant, SEQUENCE),
        )


def _outcome(instant: str, statuses: Sequence[WriteStatus], write_seconds: float, commit_seconds: float) -> Outcome:
    return Outcome(
        instant_time=instant,
        rows=sum(status.rows_received for status in statuses),
        upserts=sum(status.upserts for status in statuses),
        deletes=sum(status.deletes for status in statuses),
        rejected=sum(status.rejected for status in statuses),
        files=sum(1 for status in statuses if status.file_id),
        size_bytes=sum(status.size_bytes for status in statuses),
        write_seconds=write_seconds,
        commit_seconds=commit_seconds,
    )
