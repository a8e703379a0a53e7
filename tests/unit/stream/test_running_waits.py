"""A running query whose Kafka goes away: the job waits in the same process, and the query starts again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from bucketingest.spec.job_report import SourceReport
from bucketingest.stream import running as module
from bucketingest.stream.errors import QueryFailed, SourceDataLost, SourceUnreachable
from bucketingest.stream.foreach_batch import MicroBatchFunction
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import Phase
from bucketingest.stream.running import RunningIngest
from bucketingest.stream.topics.watch import unanswered

UNUSED = cast(Any, None)
AWAY = SourceUnreachable("Kafka at kafka:9092 does not answer within 10 s")


class Coordinator:
    """Has an open instant, which is committed when its time has come."""

    inflight: str | None = "20261121090000000"
    position = None

    def __init__(self) -> None:
        self.commits = 0
        self.starts = 0

    def start(self) -> None:
        self.starts += 1

    def commit_if_due(self) -> None:
        self.commits += 1

    commit_open = commit_if_due


class Topics:
    """Kafka, which answers from the n-th question on."""

    def __init__(self, failure: Exception = AWAY) -> None:
        self.failure = failure
        self.questions = 0
        self.answers_after = 2
        self.watch = self

    def judged(self, failed: QueryFailed, _: object) -> Exception:
        return self.failure

    def close(self) -> None:
        """Nothing is open."""

    def has_answered_since(self, _: float) -> bool:
        self.questions += 1
        return self.questions > self.answers_after


class Query:
    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - as Spark names it
        if self.fails:
            raise StreamingQueryException("Timed out waiting for a node assignment. Call: listNodes")
        return True


def running(
    topics: Topics, *starts: Query | Exception, once: bool = False, board: ProgressBoard | None = None
) -> tuple[RunningIngest, Coordinator]:
    coordinator = Coordinator()
    board = board or ProgressBoard()
    function = MicroBatchFunction(UNUSED, UNUSED, UNUSED, cast(Any, coordinator), board, tasks=1)
    queue = iter(starts)

    def start() -> Query:
        each = next(queue)
        if isinstance(each, Exception):
            raise each
        return each

    pipeline = SimpleNamespace(checkpoint_directory=lambda: "/c")
    starter = SimpleNamespace(
        function=function,
        start=start,
        once=once,
        topics=topics,
        whole=None,
        coordinator=coordinator,
        pipeline=pipeline,
    )
    return RunningIngest(
        cast(Any, starter), cast(Any, SimpleNamespace(release=lambda: None, refuse_taken=lambda: None))
    ), coordinator


def test_a_query_that_ended_because_kafka_is_away_starts_again_when_it_answers() -> None:
    topics = Topics()
    job, coordinator = running(topics, Query(fails=True), Query())
    assert job.wait(60)
    assert topics.questions == topics.answers_after + 1
    assert coordinator.starts == 1, "else nothing could be committed meanwhile"
    assert coordinator.commits > topics.answers_after


def test_a_micro_batch_that_failed_is_not_being_written_while_the_job_waits() -> None:
    board, topics = ProgressBoard(), Topics()
    topics.answers_after = 1000
    board.batch_started("20261121080000000")
    board.source(unanswered("kafka:9092", str(AWAY), 0.0))
    job, coordinator = running(topics, Query(fails=True), board=board)
    while job.query is not None:
        job.wait(0.1)
    now = board.snapshot()
    assert (now.phase, now.inflight_instant) == (Phase.WAITING, coordinator.inflight)


def test_until_the_next_query_has_looked_nobody_knows_the_lag() -> None:
    board, topics = ProgressBoard(), Topics()
    topics.answers_after = 1000
    board.started(None, 1)
    board.idle()
    assert (board.snapshot().idle, board.snapshot().lag_seconds) == (True, 0)
    board.source(unanswered("kafka:9092", str(AWAY), 0.0))
    job, _ = running(topics, Query(fails=True), board=board)
    while job.query is not None:
        job.wait(0.1)
    board.source(SourceReport(bootstrap_servers="kafka:9092"))
    now = board.snapshot()
    assert (now.phase, now.idle, now.lag_offsets, now.lag_seconds) == (Phase.STARTING, False, None, None)


def test_a_start_waits_too_and_as_often_as_needed() -> None:
    job, _ = running(Topics(), AWAY, AWAY, AWAY, Query())
    assert job.query is None
    assert job.wait(60)


def test_a_stop_ends_the_wait() -> None:
    job, coordinator = running(Topics(), AWAY)
    job.request_stop()
    assert job.wait(60)
    assert coordinator.commits == 1


def test_a_run_that_ends_with_its_input_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ONCE_WAITS_SECONDS", 0.0)
    topics = Topics()
    topics.answers_after = 1000
    job, _ = running(topics, AWAY, AWAY, once=True)
    with pytest.raises(SourceUnreachable):
        job.wait(60)


def test_what_time_does_not_mend_ends_the_job() -> None:
    lost = SourceDataLost("offsets 100 to 149 are gone")
    job, _ = running(Topics(lost), Query(fails=True))
    with pytest.raises(SourceDataLost):
        job.wait(60)
