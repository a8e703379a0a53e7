"""A pipeline in a cluster whose time passes at once: the operator's real decisions, the real metrics of both sides.

The cluster, the query and its source are played. What the operator decides, what the job reports of what happened to
it, and the text of both metrics endpoints come from the same code as in production.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from typing_extensions import override

from bucketingest.exit_codes import ExitCode
from bucketingest.spec.job_report import LISTED_MAX, ProgressReport, SourceReport, TableReport, TablesReport
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.job_report import progress_report
from bucketingest.stream.report.metrics import JobMetrics
from bucketingest.stream.report.progress import Progress
from bucketingest.stream.report.targets import Targets
from bucketingest.write.coordinator_api import Commit, MicroBatchOutcome
from bucketingest.write.rows.write_status import WriteStatus
from bucketingest_operator.observation import JobState, PodState
from support.drills.watched import Job, WatchedPipeline, new_cluster
from support.operator.observations import termination
from support.operator.simulated.fake_cluster import FakeCluster

START_SECONDS: Final = 30
"""From the creation of a driver pod to the first answer of its source."""
_SERVERS: Final = "kafka:9092"


class PlayedJob:
    """One driver's process: the real board, report and metrics of a query that is played."""

    def __init__(self, cluster: FakeCluster, verdict: tuple[str, str]) -> None:
        self._cluster = cluster
        wanted = cluster.resource.wanted
        assert wanted is not None
        self._resource = wanted
        self.metrics = JobMetrics(
            namespace="ingest", name="orders", pipeline="ingest/orders", targets=Targets.of(wanted)
        )
        self._began = cluster.now
        self.board = ProgressBoard([self.metrics], clock=lambda: cluster.now, forward=self.seconds)
        self.tables: tuple[TableReport, ...] = ()
        """Those of many, if it has many."""
        self.metrics.watch(self._snapshot, tables=lambda: self.tables)
        self.board.started(None, 1, verdict=verdict)
        self._answers: bool | None = None
        self._since = self._began

    def seconds(self) -> float:
        """Since its start."""
        return (self._cluster.now - self._began).total_seconds()

    def commit(self, rows: int = 100, rejected: int = 0, latency: float = 10.0) -> None:
        """A micro-batch of an instant of its own is written, by one task into one bucket, and committed."""
        instant = f"{self._cluster.now:%Y%m%d%H%M%S}000"
        self.board.batch_started(instant)
        self.board.written([WriteStatus(0, bucket=0, file_id="f", rows_received=rows)])
        commit = Commit(instant, instant, 1, rows, 1, 1000, open_seconds=latency, commit_seconds=0.1)
        self.board.batch_ended(MicroBatchOutcome(instant, rows=rows, rejected=rejected, commit=commit))
        self.board.idle()

    def opens(self) -> None:
        """The tasks of a micro-batch start, and never end."""
        if self.board.snapshot().inflight_instant is None:
            self.board.batch_started(f"{self._cluster.now:%Y%m%d%H%M%S}000")

    def looks(self, *, answers: bool) -> None:
        """A look at the brokers ends."""
        if answers != self._answers:
            self._answers, self._since = answers, self._cluster.now
        seconds = (self._cluster.now - self._since).total_seconds()
        self.board.source(
            SourceReport(bootstrap_servers=_SERVERS, answering_seconds=seconds)
            if answers
            else SourceReport(
                bootstrap_servers=_SERVERS,
                answers=False,
                problem=f"{_SERVERS} does not answer.",
                unanswered_seconds=seconds,
                open_transaction_seconds=None,
            )
        )

    def report(self) -> ProgressReport:
        """The answer of `/progress`."""
        return progress_report(self._resource, self._snapshot())

    def _snapshot(self) -> Progress:
        now = self.board.snapshot()
        if not self.tables:
            return now
        parked = sum(each.state == "parked" for each in self.tables)
        late = sum((each.lag.seconds or 0) > 300 for each in self.tables)
        known = len(self.tables)
        counted = TablesReport(
            known=known, open=known - parked, parked=parked, gone=0, late=late, worst=self.tables[:LISTED_MAX]
        )
        return replace(now, tables=counted)

    def exposition(self) -> bytes:
        """The answer of `/metrics`."""
        return self.metrics.exposition()


class PlayedPipeline(WatchedPipeline):
    """Its nodes, its drivers and its source are played."""

    def __init__(self, **spec: Any) -> None:
        super().__init__(new_cluster(**spec))
        self.job: PlayedJob | None = None
        self.plays: Callable[[PlayedJob], None] = PlayedJob.commit
        """What a driver does every 15 s."""
        self.starts = True
        """Whether nodes start pods."""
        self.source_answers = True
        self.ends_after: tuple[timedelta, ExitCode] | None = None
        """How long each attempt runs, and how it ends; None: for ever."""
        self.verdict = ("in step", "")
        """What each start finds in table and checkpoint."""
        self.rollbacks = JobState.SUCCEEDED
        """How rollback Jobs end."""
        self._created: datetime | None = None

    @override
    def log_of(self, pod: str) -> str:
        return ""

    @override
    def _answers(self) -> Job | None:
        return self.job

    @override
    def _play(self) -> None:
        cluster = self.cluster
        cluster.finish_deletions()
        cluster.finish_jobs(self.rollbacks)
        cluster.end_preflights(passes=lambda _: True)
        pod = cluster.newest()
        if pod is None:
            self.job = self._created = None
            return
        if pod.state is PodState.PENDING:
            if not self.starts:
                return
            cluster.set_pod(state=PodState.RUNNING)
            self.job, self._created = PlayedJob(cluster, self.verdict), cluster.now
        assert self.job is not None
        assert self._created is not None
        age = cluster.now - self._created
        self.job.looks(answers=self.source_answers)
        if self.ends_after is not None and age >= self.ends_after[0]:
            said = termination(self.ends_after[1])
            cluster.set_pod(state=PodState.FAILED, exit_code=said.exit_code, report=said, finished_at=cluster.now)
            self.job = None
        elif age >= timedelta(seconds=START_SECONDS) and self.source_answers:
            self.plays(self.job)


def play(plays: Callable[[PlayedPipeline], None]) -> PlayedPipeline:
    """The pipeline of the situations, after one of them."""
    pipeline = PlayedPipeline(
        source={"kafka": {"bootstrapServers": _SERVERS, "topics": ["orders"]}},
        format={"type": "json", "schema": "id BIGINT, text STRING"},
        slo={"commitLatency": "60s", "freshness": "5m"},
        services={"mode": "inline", "compaction": {"logAge": "10m"}},
        table={"path": "s3://lake/orders", "recordKey": ["id"], "index": {"buckets": 8}},
        checkpoint={"path": "s3://lake/checkpoint"},
        errors={"mode": "deadLetter"},
    )
    plays(pipeline)
    return pipeline
