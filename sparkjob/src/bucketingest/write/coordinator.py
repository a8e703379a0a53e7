"""Starts instants, collects the write tasks' reports, commits, and resumes what an earlier attempt left open.

One coordinator per attempt, on the driver. It knows nothing of the engine: `run` gets a source range and a function
that writes its rows. What a micro-batch goes through:

1. The range is related to the table's position. Rows that the table has are skipped; a range that neither follows the
   position nor repeats it is a RangeConflict.
2. It goes into the open instant, or a new one begins: an intent in the journal says what is about to be written, then
   the instant is on the timeline. The same range after a crash gets the same instant and the same file names.
3. The write tasks put their files and report them. Readers see none of these yet.
4. The reports become a ledger entry. From here the micro-batch needs not be written again, whatever dies.
5. If the instant is due, a decision is made: one object that is created if absent, so that exactly one process decides.
   Then the commit appears on the timeline, and readers see all its rows at once.

Before the first micro-batch, and after one that failed midway, `start` settles what is open: a decided instant is
completed, a resumable one is taken over, every other is rolled back. Only the storage is asked, never this process.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import stamina

from bucketingest.hudi.timeline.heartbeat import beating
from bucketingest.index.errors import PartitionsNotLoaded
from bucketingest.storage import StorageUnavailable
from bucketingest.write.coordinator_api import (
    Assignment,
    Commit,
    CoordinatorSettings,
    MicroBatchOutcome,
    Start,
    WriteRows,
    outcome_of,
)
from bucketingest.write.errors import (
    ConflictingAttempt,
    InstantAborted,
    PositionLost,
    RangeConflict,
    RowsRejected,
)
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.lifecycle import InstantWriter
from bucketingest.write.instants.open_instant import OpenInstant, resumed_at
from bucketingest.write.instants.records import LedgerEntry
from bucketingest.write.instants.source_range import Relation, SourceRange, relate, same_end
from bucketingest.write.instants.writer_identity import WriterIdentity
from bucketingest.write.open_table import OpenTable
from bucketingest.write.recovery.facts import Facts
from bucketingest.write.recovery.start import settle, settle_others
from bucketingest.write.rows.write_status import WriteStatus, check_complete

log = logging.getLogger(__name__)


class InstantCoordinator:
    """Drives the instants of one pipeline on one table. Not shared between threads without a lock around each call."""

    def __init__(self, opened: OpenTable, settings: CoordinatorSettings) -> None:
        self._storage = opened.storage
        state = opened.definition.state
        if state is not None and state.inserts == "base":  # a further micro-batch would put further keys into its files
            settings = replace(settings, commit_interval=None)
        self._settings = settings
        self._journal = Journal(self._storage, settings.pipeline)
        self._position: SourceRange | None = None
        self._base: SourceRange | None = None  # the position that a micro-batch continues, whatever happens in it
        self._open: OpenInstant | None = None
        self._settled = False
        self._beaten: datetime | None = None
        self._claimant = f"{socket.gethostname()} (process {os.getpid()})"
        self.epoch = self._journal.claim_epoch(self._claimant)
        self._identity = WriterIdentity(
            settings.pipeline,
            self.epoch,
            settings.dead_letters,
            settings.lock,
            settings.check_lease,
            settings.clock,
            settings.forward,
            settings.open_letters,
            settings.check_unchanged,
        )
        attempt = "" if settings.repeatable else self.epoch
        work = f"{settings.work}\n{settings.tasks}\n{opened.block_schema_json}\n{opened.row_schema}\n{attempt}"
        self._writer = InstantWriter(opened, self._journal, self._identity, work, tasks=settings.tasks)

    @property
    def position(self) -> SourceRange | None:
        """The last source range that the table or the open instant has; None before the pipeline's first one."""
        return self._position

    @property
    def inflight(self) -> str | None:
        """Request time of the open instant."""
        return None if self._open is None else self._open.request_time

    @property
    def due(self) -> float | None:
        """When the open instant is to be committed, by the settings' `forward` clock; None if none is open, or each
        micro-batch is an instant.
        """
        instant, interval = self._open, self._settings.commit_interval
        return None if instant is None or interval is None else instant.opened + interval.total_seconds()

    def start(self) -> Start:
        """Finish what earlier attempts left open, and return where reading the source continues."""
        if (letters := self._identity.dead_letters) is not None:
            self._journal.keep_letters_place(letters.url)
        has_state = self._writer.groups.state is not None
        self._writer.after = settle_others(self._storage, self._identity, self._claimant, has_state=has_state)
        start = self._recover()
        self._base = start.position
        log.info(
            "started",
            extra={
                "epoch": self.epoch,
                "verdict": start.verdict.value,
                "reason": start.reason,
                "position": None if start.position is None else start.position.end,
                "resumes_instant": self.inflight,
            },
        )
        return start

    def run(self, source_range: SourceRange, write_rows: WriteRows) -> MicroBatchOutcome:
        """Write the rows of a micro-batch, and commit the instant if it is due; do nothing if the table has the rows,
        unless they are written `again`.

        Raises RangeConflict, RowsRejected, FencedOut, InstantAborted, PositionLost, ConflictingAttempt,
        IncompleteReport, and what lease, storage and tasks raise. An instant whose tasks failed stays open: the same
        range, here or in the next attempt, resumes it.
        """
        if not self._settled:  # a run failed midway: only the storage knows what it left
            self._recover()
        if self._relate(source_range) is Relation.DONE and source_range.again is None:
            log.info(
                "skipped, the table has this range", extra={"batch": source_range.batch_id, "end": source_range.end}
            )
            return MicroBatchOutcome(None)
        self._settled = False
        started = self._settings.forward()
        instant, again = self._instant_for(source_range)
        age = timedelta(seconds=self._settings.forward() - started)
        assignment = Assignment(
            instant.request_time,
            instant.sequence,
            self._writer.file_ids,
            self._writer.partitions,
            self._settings.clock() - age,
        )
        try:
            with beating(self._storage, instant.request_time):
                statuses = write_rows(assignment)
            check_complete(statuses, self._settings.tasks)
            self._check_rejected(statuses)
            # Where a key moves from and to depends on rows that another writer may roll back meanwhile.
            if again or not self._settings.repeatable or self._writer.is_global:
                self._writer.check_files(instant.request_time, instant.sequence, statuses)
        except PartitionsNotLoaded as error:
            # Those of an instant that goes on are read again: that must not happen for one partition after the other.
            self._writer.groups.load(error.partition_paths, everything=bool(instant.entries))
            self._abort(instant, str(error))
            raise InstantAborted(str(error)) from error
        except (ConflictingAttempt, RowsRejected) as error:
            self._abort(instant, str(error))
            raise
        written = self._settings.forward()
        self._keep(instant, LedgerEntry(source_range, tuple(statuses), self._writer.bucket_rules))
        commit = self._commit_if_due(instant)
        self._settled, self._base = True, self._position
        outcome = outcome_of(instant.request_time, statuses, written - started, commit)
        return replace(outcome, state=self._writer.groups.state)

    def commit_if_due(self) -> Commit | None:
        """Commit the open instant if its interval has passed, else renew its heartbeat.

        For times without input, when nothing calls `run`. Raises PositionLost if the instant was rolled back.
        """
        if not self._settled or self._open is None:
            return None
        commit = self.commit_open() if self._is_due(self._open) else None
        if self._open is not None:  # also one that is due, and waits for its micro-batch to be written again
            self._beaten = self._writer.keep_alive(self._open.request_time, self._beaten)
        return commit

    def commit_open(self) -> Commit | None:
        """Commit the open instant now, however young; None if there is none, or its last micro-batch is incomplete."""
        instant = self._open
        if not self._settled or instant is None or not instant.entries or instant.started is not None:
            return None
        self._settled = False
        try:
            commit = self._commit(instant)
        except InstantAborted as error:
            raise PositionLost(str(error)) from error
        self._settled = True
        return commit

    def give_up(self, reason: str) -> None:
        """Roll back the open instant, if there is one: no attempt will write its last micro-batch as this one would.
        The next attempt writes its rows again. Raises what a start and a rollback raise.
        """
        if not self._settled:
            self._recover()
        if self._open is not None:
            self._settled = False
            self._abort(self._open, reason)

    def _relate(self, source_range: SourceRange) -> Relation:
        """Raises PositionLost if the table is behind what this attempt wrote: the next micro-batch would skip rows."""
        moved = not same_end(self._position, self._base)
        try:
            relation = relate(source_range, self._position)
        except RangeConflict as error:
            self._journal.check_epoch(self.epoch)  # the table is ahead of an attempt that was replaced
            if moved:
                raise PositionLost(f"the table is behind what this attempt has written: {error}") from error
            raise
        if moved and relation is not Relation.DONE:
            raise PositionLost("the table is behind what this attempt has written")
        self._base = self._position
        return relation

    def _instant_for(self, source_range: SourceRange) -> tuple[OpenInstant, bool]:
        """The open instant if this micro-batch may join it, else a new one; and whether its tasks may have run."""
        instant = self._open
        if instant is not None:
            expected = instant.started is None or instant.started.same_rows_as(source_range)
            if expected and self._writer.begin_next(instant.request_time, instant.sequence, source_range):
                again, instant.started = instant.started is not None, source_range
                return instant, again
            why = (
                "its micro-batch was started with other rows, settings or file groups, or another writer rolled it back"
            )
            self._abort(instant, why)
            if instant.entries:
                raise PositionLost(f"instant {instant.request_time} was aborted: {why}")
        self._open = OpenInstant(self._writer.begin(source_range), self._settings.forward(), started=source_range)
        return self._open, False

    def _check_rejected(self, statuses: Sequence[WriteStatus]) -> None:
        rejected = [status for status in statuses if status.rejected]
        if rejected and self._settings.dead_letters is None:
            count = sum(status.rejected for status in rejected)
            raise RowsRejected(
                f"{count} rows cannot be written. The first: {rejected[0].sample}. Correct the rows, or let a "
                "BucketIngest with spec.errors.mode deadLetter set them aside"
            )

    def _keep(self, instant: OpenInstant, entry: LedgerEntry) -> None:
        """Write the micro-batch's ledger entry: its rows are all in storage."""
        kept = entry
        for attempt in self._attempts():
            with attempt:
                # Before the ledger: an entry for an instant that was forgotten would look like open work.
                self._journal.check_epoch(self.epoch)
                kept = self._journal.put_ledger(instant.request_time, instant.sequence, entry)
        instant.entries.append(kept)
        instant.started = None
        self._position = kept.source_range

    def _is_due(self, instant: OpenInstant) -> bool:
        settings = self._settings
        return instant.is_due(settings.forward(), settings.commit_interval, settings.max_files)

    def _commit_if_due(self, instant: OpenInstant) -> Commit | None:
        if not self._is_due(instant):
            return None
        try:
            return self._commit(instant)
        except InstantAborted as error:
            if len(instant.entries) > 1:
                raise PositionLost(str(error)) from error
            raise  # the micro-batch is written again, in a new instant

    def _commit(self, instant: OpenInstant) -> Commit:
        """Decide and complete the instant; retried after storage errors."""
        started = self._settings.forward()
        age = instant.age(self._settings.forward())
        self._open = None
        for attempt in self._attempts():
            with attempt:
                decision = self._writer.commit(instant.request_time, instant.entries)
        self._position = instant.position
        self._writer.executor.forget_old()
        statuses = [status for entry in instant.entries for status in entry.statuses]
        return Commit(
            instant_time=instant.request_time,
            completion_time=decision.completion_time,
            micro_batches=len(instant.entries),
            rows=sum(status.rows_received for status in statuses),
            files=sum(1 for status in statuses if status.file_id),
            size_bytes=sum(status.size_bytes for status in statuses),
            open_seconds=age.total_seconds(),
            commit_seconds=self._settings.forward() - started,
        )

    def _attempts(self) -> Iterable[stamina.Attempt]:
        return stamina.retry_context(on=StorageUnavailable, attempts=self._settings.max_retries + 1, timeout=None)

    def _abort(self, instant: OpenInstant, reason: str) -> None:
        self._open = None
        self._writer.executor.abort(instant.request_time, reason)

    def _recover(self) -> Start:
        """Settle every instant that earlier attempts left, then read the position."""
        self._open = None
        settled = settle(self._storage, self._journal, self._writer, self._commit, self._resumed)
        self._open, self._position, self._settled = settled.open_instant, settled.start.position, True
        return settled.start

    def _resumed(self, found: Facts) -> OpenInstant:
        """An instant of an earlier attempt, now this attempt's: its interval counts from its request."""
        settings, started = self._settings, None if found.started is None else found.started.source_range
        opened = resumed_at(found.request_time, settings.clock(), settings.forward(), settings.commit_interval)
        return OpenInstant(found.request_time, opened, list(found.ledgers), started)
