"""Where the query's thread records progress and other threads read it, so that reading never delays the query."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final

from bucketingest.catalog.keeper import behind
from bucketingest.hudi.lock.clocks import utc_now
from bucketingest.hudi.timeline.instant_time import parse_time
from bucketingest.services.state import ServicesState
from bucketingest.spec.job_report import CatalogReport, FilesReport, SchemasReport, SourceReport, UnknownColumn
from bucketingest.stream.report.lag import Lag, Rate, source_end
from bucketingest.stream.report.progress import BUSIEST, Phase, Progress, ProgressObserver, latency
from bucketingest.write.coordinator_api import Commit, MicroBatchOutcome
from bucketingest.write.instants.source_range import Offsets, SourceRange, kafka_offsets
from bucketingest.write.rows.write_status import WriteStatus

_BATCHES: Final = ("micro-batches", 0)
NAMED_MAX: Final = 10
"""Columns that are named one by one: the report has a limit."""


class ProgressBoard:
    """One per process, over all its starts. Every method may be called from any thread and returns immediately."""

    def __init__(
        self,
        observers: Sequence[ProgressObserver] = (),
        clock: Callable[[], datetime] = utc_now,
        forward: Callable[[], float] = time.monotonic,
    ) -> None:
        """`forward`: seconds by a clock that is never set back."""
        self._lock = threading.RLock()  # a signal handler reads too, on a thread that may hold it
        self._observers = tuple(observers)
        self._clock = clock
        self._forward = forward
        self._started = forward()
        self._progress = Progress(0.0)
        self._batch_started: float | None = None
        self._is_running = False
        self._committing: float | None = None
        self._end: Phase | None = None
        self._committed_at: float | None = None
        self._opened_at: float | None = None
        self._reported_at: float | None = None
        self._report: object = None
        self._rate = Rate()
        self._lag = Lag()
        self._batches = Lag()
        self._read: dict[tuple[str, int], int] | None = None
        self._buckets: Counter[int] = Counter()

    # -- recorded by the query ------------------------------------------------------------------------------------

    def started(
        self, position: SourceRange | None, epoch: int, inflight: str | None = None, verdict: tuple[str, str] = ("", "")
    ) -> None:
        """The query starts at `position`. `inflight`: request time of the instant that is resumed; `verdict`: how
        table and checkpoint fit together, and why.
        """
        with self._lock:
            self._is_running = True
            self._progress = replace(self._progress, epoch=epoch, verdict=verdict[0], verdict_reason=verdict[1])
            if position is not None and (offsets := kafka_offsets(position.end)) is not None:
                self._lag.committed(offsets)
            self._open(inflight)
            self._made_progress(self._forward())

    def batch_started(self, instant: str, source_range: SourceRange | None = None) -> None:
        """The tasks of a micro-batch start."""
        now = self._forward()
        with self._lock:
            self._is_running = True
            self._batch_started = now
            self._progress = replace(self._progress, idle=False)
            self._open(instant)
            self._batches.begin_at({_BATCHES: self._progress.batches})
            self._batches.seen(now, {_BATCHES: self._progress.batches + 1})
            if source_range is not None:
                self._see_range(now, source_range)
            self._made_progress(now)

    def written(self, statuses: Sequence[WriteStatus]) -> None:
        """All tasks of the micro-batch have reported."""
        rows: Counter[int] = Counter()
        for status in statuses:
            rows[status.task] += status.rows_received
            if status.file_id:
                self._buckets[status.bucket] += status.rows_received
        mean = sum(rows.values()) / len(rows) if rows else 0.0
        with self._lock:
            self._committing = self._forward()
            self._progress = replace(
                self._progress,
                skew=max(rows.values()) / mean if mean else None,
                busiest=tuple(self._buckets.most_common(BUSIEST)),
                bucket_rows=self._buckets.total(),
                buffer_bytes=max((status.buffer_bytes for status in statuses), default=None),
            )

    def batch_ended(self, outcome: MicroBatchOutcome) -> None:
        """A micro-batch is written, or was in the table already. Its commit, if there was one, counts too."""
        now = self._forward()
        with self._lock:
            before = self._progress
            if self._batch_started is not None:
                for observer in self._observers:
                    observer.batch_took(now - self._batch_started)
            self._rate.add(self._batch_started or now, now, outcome.rows)
            self._batch_started = None
            self._committing = None
            self._progress = replace(
                before,
                batches=before.batches + 1,
                rows=before.rows + outcome.rows,
                deletes=before.deletes + outcome.deletes,
                inserts=before.inserts + outcome.inserts,
                dropped=before.dropped + outcome.dropped,
                moved=before.moved + outcome.moved,
                older=before.older + outcome.older,
                rejected=before.rejected + outcome.rejected,
                state=outcome.state or before.state,
                size_bytes=before.size_bytes + outcome.size_bytes,
            )
            if outcome.commit is not None:
                self._commit(now, outcome.commit)
            self._made_progress(now)

    def pausing(self) -> None:
        """The next micro-batch is not due yet."""
        with self._lock:
            self._made_progress(self._forward())

    def committing(self) -> None:
        """A commit starts between micro-batches."""
        with self._lock:
            self._committing = self._forward()

    def committed(self, commit: Commit | None) -> None:
        """An instant was completed between micro-batches; None: there was nothing to commit."""
        now = self._forward()
        with self._lock:
            self._committing = None
            if commit is not None:
                self._commit(now, commit)
                self._made_progress(now)

    def rolled_back(self) -> None:
        """The open instant was rolled back; its micro-batch will be written again."""
        with self._lock:
            self._committing = None
            self._progress = replace(self._progress, rollbacks=self._progress.rollbacks + 1)
            self._open(None)

    def position_lost(self) -> None:
        """The table was rolled back behind the query; a new query will start from the table."""
        with self._lock:
            self._progress = replace(self._progress, position_losses=self._progress.position_losses + 1)
            self._query_ended(None)

    def query_ended(self, inflight: str | None) -> None:
        """The query has ended and will start again. `inflight`: request time of the open instant."""
        with self._lock:
            self._query_ended(inflight)

    # -- recorded by the thread that watches the query ------------------------------------------------------------

    def polled(self, last_progress: Any, status: dict[str, Any]) -> None:
        """What Spark reports about the query: `lastProgress` and `status`."""
        now = self._forward()
        end = source_end(last_progress)
        report = (getattr(last_progress, "timestamp", None), status.get("message"))
        waits = not status.get("isTriggerActive") and not str(status.get("message")).startswith("Initializing")
        with self._lock:
            if end is not None:
                self._lag.seen(now, end)
            if waits or report != self._report:
                self._made_progress(now)
            self._report = report
        if waits and not status.get("isDataAvailable"):
            self.idle()

    def source_ends(self, offsets: Offsets, begins: Offsets | None = None) -> None:
        """Where the source ends now, of a table whose topic the job looks at itself. `begins`: of partitions of which
        the table has nothing yet.
        """
        with self._lock:
            if begins:
                self._lag.begin_at(begins)
            if self._progress.idle and self._lag.ends_at(offsets):
                return  # most of many tables: it is said often
            self._lag.seen(self._forward(), offsets)
        if not self._lag.offsets:
            self.idle()

    def transaction_waits(self, seconds: float) -> None:
        """For how long messages have waited for the end of a transaction, which a commit is to have as a whole."""
        with self._lock:
            self._progress = replace(self._progress, transaction_wait=seconds)

    def idle(self) -> None:
        """Spark has looked and the source has nothing new."""
        with self._lock:
            if self._batch_started is None:
                self._batches.begin_at({_BATCHES: self._progress.batches})
                self._batches.seen(self._forward(), {_BATCHES: self._progress.batches})
                self._progress = replace(self._progress, idle=True)
                self._made_progress(self._forward())

    def source(self, state: SourceReport) -> None:
        """What the last look at the brokers found."""
        with self._lock:
            self._progress = replace(self._progress, source=state)
            if self._phase() is Phase.WAITING:  # to wait is not to be stuck
                self._made_progress(self._forward())

    def files_ignored(self, count: int, first: Sequence[str]) -> None:
        """What the last listing found: files that were changed after they were read and are not read again."""
        self._files_are(changed_files=count, changed=tuple(first))

    def columns_not_read(self, found: Mapping[str, str]) -> None:
        """Columns of files that the schema does not have, each with a file."""
        first = (UnknownColumn(column=column, file=file) for column, file in islice(found.items(), NAMED_MAX))
        self._files_are(unknown_columns=len(found), unknown=tuple(first))

    def schemas(self, report: SchemasReport) -> None:
        """Which schemas of a registry were refused, and which gave the table columns."""
        with self._lock:
            self._progress = replace(self._progress, schemas=report)

    def _files_are(self, **values: Any) -> None:
        with self._lock:
            files = self._progress.files or FilesReport()
            self._progress = replace(self._progress, files=files.model_copy(update=values))

    def waited_for_lock(self, seconds: float) -> None:
        """Add to the wait for the table's lock, which another writer held."""
        with self._lock:
            self._progress = replace(self._progress, lock_wait=self._progress.lock_wait + seconds)

    def waited_for_lease(self, seconds: float) -> None:
        """Add to the wait for the table's lease, which another job held."""
        with self._lock:
            self._progress = replace(self._progress, lease_wait=self._progress.lease_wait + seconds)

    def services(self, report: ServicesState) -> None:
        """What table services see and do now."""
        with self._lock:
            self._progress = replace(self._progress, services=report)

    def catalog(self, state: CatalogReport) -> None:
        """How far one of the catalogs is now."""
        with self._lock:
            others = {each.catalog: each for each in self._progress.catalogs}
            self._progress = replace(self._progress, catalogs=tuple({**others, state.catalog: state}.values()))

    def executors(self, count: int, wanted: int | None = None) -> None:
        """The number of registered executors; `wanted`: of those that the job asks for, if it chooses."""
        with self._lock:
            self._progress = replace(self._progress, executors=count, executors_wanted=wanted)

    def stopping(self) -> None:
        """The job was asked to stop."""
        self._end = self._end or Phase.STOPPING

    def ended(self, phase: Phase) -> None:
        """The job has ended: STOPPED or FAILED."""
        self._end = phase

    # -- read by any thread ---------------------------------------------------------------------------------------

    def snapshot(self) -> Progress:
        """The progress of this moment."""
        now = self._forward()
        with self._lock:
            services = self._progress.services
            lags = (self._lag.seconds(now), self._batches.seconds(now)) if self._source_answers else ()
            known = [each for each in lags if each is not None]
            return replace(
                self._progress,
                phase=self._phase(),
                running_for=now - self._started,
                rows_per_second=self._rate.rows_per_second,
                last_commit_age=None if self._committed_at is None else now - self._committed_at,
                inflight_age=None if self._opened_at is None else now - self._opened_at,
                idle=self._progress.idle and self._source_answers,
                lag_offsets=self._lag.offsets if self._source_answers else None,
                lag_seconds=max(known) if known else None,
                catalog_behind=behind(self._progress.catalogs, self._clock()),
                oldest_log_age=None if services is None else services.oldest_log_age(self._clock()),
                compacting_for=None if services is None else services.compacting_for(self._clock()),
                committing_for=None if self._committing is None else now - self._committing,
                last_report_age=None if self._reported_at is None else now - self._reported_at,
            )

    def offsets(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Kafka: (topic, partition) → (next offset to commit, the partition's end as Spark last saw it)."""
        with self._lock:
            return self._lag.partitions()

    def position(self) -> Offsets:
        """Kafka: the next offset to commit of each partition; empty before it is known."""
        with self._lock:
            return self._lag.position

    def _phase(self) -> Phase:
        if self._end is not None:
            return self._end
        if self._committing is not None:
            return Phase.COMMITTING
        if not self._source_answers and self._batch_started is None:
            return Phase.WAITING
        if not self._is_running:
            return Phase.STARTING
        return Phase.IDLE if self._progress.idle else Phase.RUNNING

    @property
    def _source_answers(self) -> bool:
        return self._progress.source is None or self._progress.source.answers

    # -- with the lock held ---------------------------------------------------------------------------------------

    def _query_ended(self, inflight: str | None) -> None:
        """What it knew of its source is not known any more until the next one has looked."""
        self._batch_started, self._is_running, self._committing = None, False, None
        self._lag, self._batches, self._read = Lag(), Lag(), None
        self._progress = replace(self._progress, idle=False)
        self._open(inflight)

    def _open(self, instant: str | None) -> None:
        if instant == self._progress.inflight_instant:
            return
        self._progress = replace(self._progress, inflight_instant=instant)
        self._opened_at = None
        if instant is not None:
            age = max(self._clock() - parse_time(instant), timedelta())
            self._opened_at = self._forward() - age.total_seconds()

    def _see_range(self, now: float, source_range: SourceRange) -> None:
        self._progress = replace(self._progress, batch=source_range.batch_id)
        end = kafka_offsets(source_range.end) if source_range.kind == "kafka" else None
        if end is not None:
            self._lag.begin_at(kafka_offsets(source_range.start) or dict.fromkeys(end, 0))
            self._lag.seen(now, end)
            self._read = end

    def _commit(self, now: float, commit: Commit) -> None:
        last = self._progress.last
        if last is not None and last.instant_time == commit.instant_time:
            return
        for observer in self._observers:
            observer.commit_took(latency(commit), commit.commit_seconds)
        self._committed_at = now
        self._progress = replace(
            self._progress, commits=self._progress.commits + 1, last=commit, last_commit_at=self._clock()
        )
        self._open(None)
        # A commit covers every micro-batch that ended, and none is written during a commit.
        self._batches.committed({_BATCHES: self._progress.batches})
        if self._read is not None:
            self._lag.committed(self._read)

    def _made_progress(self, now: float) -> None:
        self._reported_at = now
        self._progress = replace(self._progress, last_report_at=self._clock())
