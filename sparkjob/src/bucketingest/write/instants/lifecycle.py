"""The operations on an attempt's instant up to its commit: begin it, put micro-batches into it, decide it. The
coordinator chooses when.

An instant is two things on storage: Hudi's files on the timeline, which other writers read, and objects of the journal,
which only we read. Each operation writes them in an order in which a crash between any two leaves something that the
next start understands:

* begin: the intent and a heartbeat, then requested, then inflight on the timeline. What is on the timeline always has
  an intent, so nobody takes it for another writer's.
* begin_next: a further micro-batch, or the same one again. It goes on only with the same rows, names and work.
* commit: what others did meanwhile is looked at first: rollbacks, replaced file groups, another attempt. Then the
  number of micro-batches is closed, and the decision, commit or abort, is created if absent. It is never changed.
* Last, the commit's file on the timeline, under the table's lock if it has one. Its name has the completion time that
  the decision fixed: whoever repeats it makes the same file.

What must be true of other writers for this is in docs/exactly-once.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from bucketingest.hudi.errors import InstantExists
from bucketingest.hudi.history.archived import archived_times
from bucketingest.hudi.naming import join, version_of
from bucketingest.hudi.rollback.markers import marked_files, start_marker_lists
from bucketingest.hudi.rollback.rollback import pending_rollback, rollbacks_of
from bucketingest.hudi.table.partition import ensure_partition_metadata
from bucketingest.hudi.timeline import heartbeat
from bucketingest.hudi.timeline.instant import DELTA_COMMIT, Instant, State
from bucketingest.hudi.timeline.instant_time import next_instant_time
from bucketingest.hudi.timeline.timeline import Timeline, complete, create_inflight, create_requested, path_of
from bucketingest.index.assignment.planned_file_ids import PlannedFileIds
from bucketingest.index.bucket_index import FileIds
from bucketingest.index.task_routing import PartitionNumbers
from bucketingest.write.errors import ConflictingAttempt, InstantAborted, PositionLost, WriteError
from bucketingest.write.instant_look import fresh_look
from bucketingest.write.instants.bucket_groups import BucketGroups
from bucketingest.write.instants.commit_content import commit_metadata, is_of_pipeline, pending_metadata
from bucketingest.write.instants.journal import Journal
from bucketingest.write.instants.records import AbortDecision, CommitDecision, Decision, Intent, LedgerEntry
from bucketingest.write.instants.shared_table import SharedTable
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.instants.state_groups import StateGroups
from bucketingest.write.instants.writer_identity import WriterIdentity
from bucketingest.write.open_table import OpenTable
from bucketingest.write.recovery.execute import InstantExecutor, completed_by_another
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest.write.table_groups import TableGroups

_REQUEST_ATTEMPTS: Final = 10


class InstantWriter:
    """Operates on the instants of one attempt. Every operation may be repeated after a failure."""

    def __init__(self, opened: OpenTable, journal: Journal, identity: WriterIdentity, work: str, *, tasks: int) -> None:
        """`work`: fingerprint of everything that decides which rows the tasks write, and how, except the file ids.
        `tasks`: how many of them there are.
        """
        self._opened = opened
        self._storage = opened.storage
        self._journal = journal
        self._identity = identity
        self._work = work
        self.after = ""
        """A time at or before which no new instant may be, in addition to those on the timeline and in the journal."""
        self._marked = ""
        """The instant whose markers are known to be in lists."""
        self._begun = ""
        """The instant that this attempt began last."""
        self.executor = InstantExecutor(opened.storage, journal, identity)
        state = opened.definition.state
        self.groups: TableGroups = (
            BucketGroups(opened) if state is None else StateGroups(opened, journal, state, tasks, identity.clock)
        )
        self._shared = SharedTable(opened, journal, self.groups, self.executor.rollback_times)

    def refresh(self) -> Timeline:
        """Load the timeline. Other writers' changes up to now count as known afterwards."""
        return self._shared.refresh()

    @property
    def file_ids(self) -> FileIds | PlannedFileIds:
        """The part of the index that write tasks need."""
        return self.groups.file_ids

    @property
    def is_global(self) -> bool:
        """Whether a key is in one partition only."""
        state = self._opened.definition.state
        return state is not None and state.is_global

    @property
    def bucket_rules(self) -> str:
        """Instant of the bucket rules in it; "" without rules."""
        return self.groups.rules

    @property
    def partitions(self) -> PartitionNumbers:
        """The partitions that have their metadata."""
        return PartitionNumbers.of(sorted(self._shared.partitions))

    def begin(self, source_range: SourceRange) -> str:
        """Put a new instant on the timeline, intent and heartbeat first, so that it is never there without them.

        Returns its request time, greater than every known time. Raises FencedOut, and as the lease's check does: a
        process that was paused must not leave an instant that no attempt resumes.
        """
        self._identity.check_lease()
        self._journal.check_epoch(self._identity.epoch)
        content = pending_metadata(self._opened, self._identity.pipeline, self._identity.epoch)
        self.groups.prepare()
        for _ in range(_REQUEST_ATTEMPTS):
            with self._identity.lock():
                timeline = Timeline.load(self._storage)
                self._shared.check(timeline)
                self._shared.fold_in(timeline)
                instant = self._next_time(timeline.times | {self.after, *self._journal.instants()[-1:]})
                if not self._journal.claim(instant, self._intent(source_range, self.groups.plan(instant, 1))):
                    continue
                heartbeat.beat(self._storage, instant)
                try:
                    create_requested(self._storage, instant, content=content)
                except InstantExists:  # another writer's of the same millisecond, or our own, whose answer was lost
                    if self._storage.get(path_of(Instant(instant, DELTA_COMMIT, State.REQUESTED))) != content:
                        continue  # the next start deletes our claim
                if self._is_in_the_way(instant):
                    self._storage.delete(path_of(Instant(instant, DELTA_COMMIT, State.REQUESTED)))
                    heartbeat.stop(self._storage, instant)
                    continue
                self._start_markers(instant)  # not before: until here another writer's instant could have this time
                create_inflight(self._storage, instant, content=content)
            self._check_not_aborted(instant)
            self._begun = instant
            return instant
        raise WriteError(
            f"{self._storage.url}: no free instant time in {_REQUEST_ATTEMPTS} attempts: other writers write "
            "without the table's lock; stop them"
        )

    def _is_in_the_way(self, instant: str) -> bool:
        """Whether the instant, which was requested late because this process was paused, must go at once.

        Another action may have its time: readers know a file's instant by its time alone and would show our files. A
        newer compaction was planned without it: incremental readers that end with it would miss its rows. Or newer
        instants were archived meanwhile: readers, and another writer's compaction, would leave out their rows.
        """
        timeline = Timeline.load(self._storage)
        shared = any(each.request_time == instant and each.action != DELTA_COMMIT for each in timeline.instants)
        is_planned_without = instant < max(timeline.compactions, default="")
        is_oldest = instant == timeline.first_active
        return shared or is_planned_without or (is_oldest and instant < max(archived_times(self._storage), default=""))

    def _check_not_aborted(self, instant: str) -> None:
        """A newer attempt may have aborted the instant while this attempt put it on the timeline."""
        if isinstance(decision := self._journal.decision(instant), AbortDecision):
            self.executor.undo(instant, decision.reason)
            self._journal.check_epoch(self._identity.epoch)
            raise InstantAborted(f"instant {instant} was aborted while it started: {decision.reason}")

    def begin_next(self, instant: str, sequence: int, source_range: SourceRange) -> bool:
        """Put a further micro-batch into an open instant, or the same one again; False if the instant is no longer
        open, or the micro-batch was started with other rows, other file names or other work.
        """
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is None or found.is_completed or pending_rollback(self._storage, timeline, instant) is not None:
            return False
        if not is_of_pipeline(self._storage, found, self._identity.pipeline):
            return False
        wanted = self._intent(source_range)
        started = self._journal.intent(instant, sequence)
        if started is not None and not (started.same_files_as(wanted) and self.groups.resume(instant, started)):
            return False
        if started is None and not self.groups.goes_on(instant, sequence):
            return False
        heartbeat.beat(self._storage, instant)
        self._start_markers(instant)
        if started is None:
            planned = self._intent(source_range, self.groups.plan(instant, sequence))
            self._journal.put_intent(instant, sequence, planned)
        if found.state is State.REQUESTED:
            content = pending_metadata(self._opened, self._identity.pipeline, self._identity.epoch)
            create_inflight(self._storage, instant, content=content)
        return True

    def _start_markers(self, instant: str) -> None:
        if instant != self._marked:
            start_marker_lists(self._storage, instant)
            self._marked = instant

    def check_files(self, instant: str, sequence: int, statuses: Sequence[WriteStatus]) -> None:
        """Raise ConflictingAttempt if a micro-batch that ran more than once has files that its last run did not write:
        each has a marker, and each would be visible by its name alone, now or when a late request takes effect.
        """
        written = {join(status.partition_path, status.file_name) for status in statuses if status.file_id}
        marked = {path for path in marked_files(self._storage, instant) if version_of(path) in (sequence, None)}
        if left := sorted(marked - written):
            raise ConflictingAttempt(
                f"an earlier run of micro-batch {sequence} of instant {instant} wrote {left[0]}, this one does not: "
                "the input is not the same when it is read again (a function such as rand() in transform.sql)"
            )

    def keep_alive(self, instant: str, last: datetime | None) -> datetime:
        """Renew the heartbeat of an instant that waits for input if half its interval has passed since `last`. Returns
        the time of the last beat.
        """
        now = self._identity.clock()
        if last is not None and timedelta() <= now - last < heartbeat.INTERVAL / 2:
            return last
        heartbeat.beat(self._storage, instant)
        return now

    def commit(self, instant: str, entries: Sequence[LedgerEntry]) -> CommitDecision:
        """Decide the instant unless it is decided, and carry out the decision.

        Raises InstantAborted if it was rolled back, here or by another writer: its rows must be written again. Raises
        PositionLost if it is complete but its rows must still be ingested again, and as the checks before the decision
        do.
        """
        decision, completed = self._journal.decision(instant), False
        if decision is None:
            with self._identity.lock():
                checks = partial(self._wanted, instant, entries)
                wanted, look = fresh_look(self._storage.url, self._identity.forward, checks)
                decision = self._journal.decide(instant, wanted)
                # After a pause the decision of a newer attempt may have been forgotten: then look again, as a start.
                if decision is wanted and isinstance(decision, CommitDecision) and look.is_fresh:
                    complete(self._storage, instant, decision.completion_time, decision.content)
                    completed = True
        if isinstance(decision, AbortDecision):
            self.executor.abort(instant, decision.reason)
            raise InstantAborted(f"instant {instant} was aborted: {decision.reason}; its rows are written again")
        if completed:
            self.executor.check_not_overtaken(instant)
            self.executor.close(instant, entries)
        else:  # it was decided before, perhaps by an attempt that had more of its micro-batches
            entries = self._journal.ledgers(instant)
            self.executor.complete(instant, decision, entries)
        self._shared.wrote(instant, _file_groups(entries), is_own=instant == self._begun)
        self._identity.check_unchanged(self._storage)  # a metadata table that came since hides this commit from readers
        return decision

    def _wanted(self, instant: str, entries: Sequence[LedgerEntry]) -> Decision:
        """Make all checks that can still stop the commit; returns the decision to make.

        Raises FencedOut, PositionLost, UnsupportedTable (another writer upgraded the table, switched the metadata table
        on, or changed a column), DuplicateFileGroup (among other writers' commits; if this instant's file group would
        be the second one, the instant is aborted).
        """
        self._journal.check_epoch(self._identity.epoch)
        self._identity.check_unchanged(self._storage)
        timeline = Timeline.load(self._storage)
        found = timeline.find(instant)
        if found is not None and found.is_completed:
            raise completed_by_another(self._storage, found)
        if found is None or rollbacks_of(self._storage, timeline, instant):
            return AbortDecision("another writer rolled it back")
        if instant == timeline.first_active and instant < max(archived_times(self._storage), default=""):
            return AbortDecision("newer instants were archived before it was on the timeline")  # it would hide them
        self._shared.check(timeline)
        self._shared.fold_in(timeline)
        written = _file_groups(entries)
        if gone := sorted(written & self._shared.replaced):
            place = f"{gone[0][1]} of partition {gone[0][0]!r}"
            return AbortDecision(f"another writer replaced file group {place} meanwhile")
        if (why := self.groups.refusal(timeline, instant, entries)) is not None:
            return AbortDecision(why)
        schema = self._shared.schema if instant == self._begun else self._shared.with_columns_of(found)
        if schema is None:
            return AbortDecision("its columns cannot be joined with the table's")
        for partition_path in {path for path, _ in written} - self._shared.partitions:
            ensure_partition_metadata(self._storage, partition_path, instant)
        if not self._journal.close(instant, len(entries) + 1):
            raise PositionLost(f"another attempt started micro-batch {len(entries) + 1} of instant {instant} meanwhile")
        pipeline, epoch = self._identity.pipeline, self._identity.epoch
        metadata = commit_metadata(self._opened, pipeline, epoch, entries, schema)
        completion_time = self._next_time(timeline.times)
        self._identity.check_lease()  # last: nothing slow happens between this and the decision
        return CommitDecision(completion_time, metadata.encode())

    def _intent(self, source_range: SourceRange, plan: str | None = None) -> Intent:
        letters = self._identity.dead_letters
        letters_url = None if letters is None else letters.url
        hashed = f"{self._work}\n{letters_url}\n{self.groups.fingerprint}"
        return Intent(source_range, hashlib.sha256(hashed.encode()).hexdigest(), letters_url, plan)

    def _next_time(self, known: frozenset[str] | set[str]) -> str:
        return next_instant_time(self._identity.clock(), known | archived_times(self._storage))


def _file_groups(entries: Sequence[LedgerEntry]) -> set[tuple[str, str]]:
    """(partition path, file id) of everything that the micro-batches wrote."""
    return {(status.partition_path, status.file_id) for entry in entries for status in entry.statuses if status.file_id}
