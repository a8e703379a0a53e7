"""The lag and the phase that the board shows."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from bucketingest.spec.job_report import SourceReport
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import Phase
from bucketingest.write.instants.source_range import SourceRange
from support.jobs.boards import BEGIN, FIRST, SECOND, Clock, commit, outcome


def kafka(start: int | None, end: int, batch_id: int = 0) -> SourceRange:
    return SourceRange(
        "kafka", None if start is None else f'{{"t":{{"0":{start}}}}}', f'{{"t":{{"0":{end}}}}}', "q", batch_id
    )


def report(end: int, latest: int, timestamp: str = "1") -> Any:
    source = SimpleNamespace(endOffset=f'{{"t":{{"0":{end}}}}}', latestOffset=f'{{"t":{{"0":{latest}}}}}')
    return SimpleNamespace(timestamp=timestamp, sources=[source])


WAITS = {"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}
WORKS = {"message": "Processing new data", "isDataAvailable": True, "isTriggerActive": True}


def test_phases_follow_the_query(board: ProgressBoard) -> None:
    board.started(None, 1)
    board.polled(None, WAITS)
    assert (board.snapshot().phase, board.snapshot().idle) == (Phase.IDLE, True)
    board.batch_started(FIRST)
    assert (board.snapshot().phase, board.snapshot().idle) == (Phase.RUNNING, False)
    board.written([])
    assert board.snapshot().phase is Phase.COMMITTING
    board.batch_ended(outcome(FIRST))
    assert board.snapshot().phase is Phase.RUNNING
    board.stopping()
    assert board.snapshot().phase is Phase.STOPPING
    board.ended(Phase.FAILED)
    board.stopping()
    assert board.snapshot().phase is Phase.FAILED


def test_a_query_that_initialises_is_not_idle(board: ProgressBoard) -> None:
    board.polled(None, {**WAITS, "message": "Initializing sources"})
    assert not board.snapshot().idle


def test_a_micro_batch_that_runs_is_not_idle_whatever_spark_said_before(board: ProgressBoard) -> None:
    board.batch_started(FIRST)
    board.polled(None, WAITS)
    assert not board.snapshot().idle


def test_the_lag_of_kafka_is_what_is_not_committed(board: ProgressBoard, clock: Clock) -> None:
    board.started(kafka(None, 100), 1)
    board.polled(report(100, 130), WORKS)
    clock.seconds += 4
    board.batch_started(FIRST, kafka(100, 120, 1))
    clock.seconds += 1
    assert (board.snapshot().lag_offsets, board.snapshot().lag_seconds) == (30, 5)
    board.batch_ended(outcome(FIRST, committed=False))
    assert board.snapshot().lag_offsets == 30, "written is not committed"
    board.committed(commit(FIRST))
    assert (board.snapshot().lag_offsets, board.snapshot().lag_seconds, board.snapshot().batch) == (10, 5, 1)


def test_the_first_micro_batch_of_a_new_table_says_where_the_source_begins(board: ProgressBoard) -> None:
    board.started(None, 1)
    board.batch_started(FIRST, kafka(1000, 1007))
    assert board.snapshot().lag_offsets == 7


def test_without_offsets_the_lag_is_the_age_of_the_oldest_uncommitted_micro_batch(
    board: ProgressBoard, clock: Clock
) -> None:
    files = SourceRange("checkpoint", None, '{"logOffset":0}', "q", 0)
    board.started(None, 1)
    assert board.snapshot().lag_seconds is None
    for _ in range(2):
        board.batch_started(FIRST, files)
        clock.seconds += 3
        board.batch_ended(outcome(FIRST, committed=False))
    assert (board.snapshot().lag_offsets, board.snapshot().lag_seconds) == (None, 6)
    board.committed(commit(FIRST))
    clock.seconds += 100
    assert board.snapshot().lag_seconds == 0


def test_an_idle_query_without_open_instant_has_no_lag(board: ProgressBoard, clock: Clock) -> None:
    board.started(None, 1)
    board.polled(None, WAITS)
    clock.seconds += 50
    assert board.snapshot().lag_seconds == 0


def test_a_query_that_makes_progress_is_distinguished_from_one_that_hangs(board: ProgressBoard, clock: Clock) -> None:
    board.started(None, 1)
    board.polled(report(0, 5), WORKS)
    clock.seconds += 30
    board.polled(report(0, 5), WORKS)
    assert board.snapshot().last_report_age == 30
    board.polled(report(0, 5), {**WORKS, "message": "Getting offsets"})
    assert board.snapshot().last_report_age == 0
    clock.seconds += 30
    board.polled(report(0, 5), WAITS)
    assert (board.snapshot().last_report_age, board.snapshot().last_report_at) == (0, BEGIN + timedelta(seconds=60))


def test_a_table_that_was_rolled_back_is_counted_and_the_lag_starts_again(board: ProgressBoard) -> None:
    board.started(kafka(None, 100), 1)
    board.batch_started(FIRST, kafka(100, 120, 1))
    board.position_lost()
    now = board.snapshot()
    assert (now.position_losses, now.inflight_instant, now.phase) == (1, None, Phase.STARTING)
    board.started(kafka(None, 80), 2)
    board.batch_started(SECOND, kafka(80, 120, 1))
    assert board.snapshot().lag_offsets == 40


def test_offsets_are_known_by_partition_once_spark_has_looked(board: ProgressBoard) -> None:
    assert board.offsets() == {}
    board.started(kafka(None, 5), 1)
    board.polled(report(end=5, latest=9), WORKS)
    assert board.offsets() == {("t", 0): (5, 9)}


def test_a_lag_is_not_known_before_the_source_s_end_was_seen(board: ProgressBoard) -> None:
    board.started(kafka(None, 100), 1)
    assert (board.snapshot().lag_offsets, board.snapshot().lag_seconds) == (None, None)


def test_while_kafka_does_not_answer_nobody_knows_the_lag_and_the_job_waits(board: ProgressBoard, clock: Clock) -> None:
    board.started(kafka(None, 100), 1)
    board.polled(report(100, 100), WAITS)
    assert (board.snapshot().lag_offsets, board.snapshot().lag_seconds, board.snapshot().idle) == (0, 0.0, True)
    clock.seconds += 5
    board.source(
        SourceReport(
            bootstrap_servers="kafka:9092",
            answers=False,
            problem="Kafka at kafka:9092 does not answer",
            unanswered_seconds=5.0,
        )
    )
    clock.seconds += 5
    board.source(
        SourceReport(
            bootstrap_servers="kafka:9092",
            answers=False,
            problem="Kafka at kafka:9092 does not answer",
            unanswered_seconds=10.0,
        )
    )
    now = board.snapshot()
    assert (now.lag_offsets, now.lag_seconds, now.idle, now.phase) == (None, None, False, Phase.WAITING)
    assert now.last_report_age == 0.0, "to wait is not to be stuck"
    board.batch_started(FIRST, kafka(100, 110))
    assert board.snapshot().phase is Phase.RUNNING, "its messages may be there already"
    board.source(SourceReport(bootstrap_servers="kafka:9092"))
    assert board.snapshot().lag_offsets == 10
