"""What the board shows of what it was told: totals, ages, phases, lag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from bucketingest.stream.report import board as board_module
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import Phase
from bucketingest.write.coordinator_api import Commit, MicroBatchOutcome
from bucketingest.write.instants.source_range import SourceRange
from bucketingest.write.rows.write_status import WriteStatus

BEGIN = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
FIRST, SECOND, THIRD = "20261121120000000", "20261121120010000", "20261121120020000"


class Clock:
    """Seconds that pass only when a test says so, on both clocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: 1000.0 + clock.seconds))
    return clock


@pytest.fixture
def board(clock: Clock) -> ProgressBoard:
    return ProgressBoard(clock=clock.now)


def commit(instant: str, rows: int = 10, open_seconds: float = 2.0) -> Commit:
    return Commit(instant, instant, 1, rows, 1, 100, open_seconds, commit_seconds=0.5)


def outcome(instant: str, rows: int = 10, *, committed: bool = True) -> MicroBatchOutcome:
    return MicroBatchOutcome(instant, rows=rows, commit=commit(instant, rows) if committed else None)


def kafka(start: int | None, end: int, batch_id: int = 0) -> SourceRange:
    return SourceRange(
        "kafka", None if start is None else f'{{"t":{{"0":{start}}}}}', f'{{"t":{{"0":{end}}}}}', "q", batch_id
    )


def report(end: int, latest: int, timestamp: str = "1") -> Any:
    source = SimpleNamespace(endOffset=f'{{"t":{{"0":{end}}}}}', latestOffset=f'{{"t":{{"0":{latest}}}}}')
    return SimpleNamespace(timestamp=timestamp, sources=[source])


WAITS = {"message": "Waiting for data to arrive", "isDataAvailable": False, "isTriggerActive": False}
WORKS = {"message": "Processing new data", "isDataAvailable": True, "isTriggerActive": True}


def test_a_new_board_makes_nothing_up(board: ProgressBoard, clock: Clock) -> None:
    clock.seconds += 3
    now = board.snapshot()
    assert (now.running_for, now.batches, now.rows, now.rows_per_second) == (3, 0, 0, 0)
    assert now.phase is Phase.STARTING
    assert (now.last, now.last_commit_age, now.inflight_instant, now.inflight_age) == (None,) * 4
    assert (now.lag_offsets, now.lag_seconds, now.epoch, now.verdict, now.skew) == (None,) * 5


def test_the_start_tells_epoch_and_verdict(board: ProgressBoard) -> None:
    board.started(None, 7, verdict=("new", "because"))
    now = board.snapshot()
    assert (now.epoch, now.verdict, now.verdict_reason, now.phase) == (7, "new", "because", Phase.RUNNING)


def test_an_instant_is_inflight_from_its_request_to_its_commit(board: ProgressBoard, clock: Clock) -> None:
    board.batch_started(FIRST)
    clock.seconds += 2
    assert (board.snapshot().inflight_instant, board.snapshot().inflight_age) == (FIRST, 2)
    board.batch_ended(outcome(FIRST))
    clock.seconds += 5
    now = board.snapshot()
    assert (now.inflight_instant, now.inflight_age, now.last_commit_age) == (None, None, 5)
    assert now.last_commit_at == BEGIN + timedelta(seconds=2)


def test_an_instant_that_spans_micro_batches_stays_inflight_and_ages(board: ProgressBoard, clock: Clock) -> None:
    for _ in range(3):
        board.batch_started(FIRST)
        clock.seconds += 1
        board.batch_ended(outcome(FIRST, committed=False))
    now = board.snapshot()
    assert (now.inflight_instant, now.inflight_age, now.commits, now.batches, now.rows) == (FIRST, 3, 0, 3, 30)
    board.committing()
    assert board.snapshot().phase is Phase.COMMITTING
    board.committed(commit(FIRST, rows=30))
    now = board.snapshot()
    assert (now.inflight_instant, now.commits, now.phase) == (None, 1, Phase.RUNNING)


def test_an_instant_of_an_earlier_attempt_has_its_age(board: ProgressBoard, clock: Clock) -> None:
    clock.seconds = 60
    board.started(None, 2, inflight=FIRST)
    assert board.snapshot().inflight_age == 60


def test_a_commit_that_is_told_twice_counts_once(board: ProgressBoard) -> None:
    board.batch_started(FIRST)
    board.batch_ended(outcome(FIRST))
    board.committed(commit(FIRST))
    board.committed(None)
    assert board.snapshot().commits == 1


def test_counts_add_up_over_micro_batches(board: ProgressBoard) -> None:
    first = replace(outcome(FIRST), deletes=1, size_bytes=100)
    second = replace(outcome(SECOND), deletes=2, rejected=1, size_bytes=50)
    for each in (first, second):
        board.batch_started(str(each.instant_time))
        board.batch_ended(each)
    now = board.snapshot()
    assert (now.batches, now.commits, now.rows, now.deletes, now.rejected, now.size_bytes) == (2, 2, 20, 3, 1, 150)
    assert now.last == commit(SECOND)


def test_a_skipped_micro_batch_is_no_commit(board: ProgressBoard, clock: Clock) -> None:
    board.batch_started(FIRST)
    board.batch_ended(outcome(FIRST))
    clock.seconds += 7
    board.batch_ended(MicroBatchOutcome(None))
    now = board.snapshot()
    assert (now.batches, now.rows, now.commits, now.last_commit_age) == (2, 10, 1, 7)


def test_the_rate_is_over_the_last_micro_batches_only(board: ProgressBoard, clock: Clock) -> None:
    for number in range(40):
        board.batch_started(FIRST)
        clock.seconds += 1
        board.batch_ended(outcome(FIRST, 1_000_000 if number < 20 else 500, committed=False))
    assert board.snapshot().rows_per_second == 500


def test_the_skew_compares_the_busiest_task_with_the_mean(board: ProgressBoard) -> None:
    received = [(0, 10), (0, 20), (1, 10), (2, 0)]
    board.written([WriteStatus(task, rows_received=rows) for task, rows in received])
    assert board.snapshot().skew == pytest.approx(30 / (40 / 3))
    board.written([WriteStatus(0), WriteStatus(1)])
    assert board.snapshot().skew is None


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


def test_a_query_that_gets_on_is_told_from_one_that_hangs(board: ProgressBoard, clock: Clock) -> None:
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


def test_a_table_that_went_back_is_counted_and_the_lag_starts_anew(board: ProgressBoard) -> None:
    board.started(kafka(None, 100), 1)
    board.batch_started(FIRST, kafka(100, 120, 1))
    board.position_lost()
    now = board.snapshot()
    assert (now.position_losses, now.inflight_instant, now.phase) == (1, None, Phase.STARTING)
    board.started(kafka(None, 80), 2)
    board.batch_started(SECOND, kafka(80, 120, 1))
    assert board.snapshot().lag_offsets == 40


def test_an_instant_taken_back_is_counted(board: ProgressBoard) -> None:
    board.batch_started(FIRST)
    board.taken_back()
    board.batch_started(SECOND)
    now = board.snapshot()
    assert (now.rollbacks, now.inflight_instant) == (1, SECOND)


class Durations:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.batches: list[float] = []
        self.commits: list[tuple[float, float]] = []

    def batch_took(self, seconds: float) -> None:
        self.batches.append(seconds)

    def commit_took(self, latency_seconds: float, commit_seconds: float) -> None:
        self.commits.append((latency_seconds, commit_seconds))


def test_observers_are_told_each_duration_once(clock: Clock) -> None:
    durations = Durations()
    board = ProgressBoard([durations], clock.now)
    for instant in (FIRST, SECOND, THIRD):
        board.batch_started(instant)
        clock.seconds += 2
        board.batch_ended(outcome(instant, committed=instant != SECOND))
    board.batch_ended(MicroBatchOutcome(None))
    assert durations.batches == [2, 2, 2]
    assert durations.commits == [(2.5, 0.5), (2.5, 0.5)]


def test_buckets_add_up_over_micro_batches_and_the_busiest_comes_first(board: ProgressBoard) -> None:
    few = WriteStatus(0, "eu", bucket=1, file_id="a", rows_received=10, buffer_bytes=300)
    many = WriteStatus(1, "eu", bucket=2, file_id="b", rows_received=30, buffer_bytes=100)
    board.written([few, many, WriteStatus(2)])
    board.written([replace(few, partition_path="us")])
    now = board.snapshot()
    assert now.busiest == ((2, 30), (1, 20))
    assert (now.bucket_rows, now.buffer_bytes) == (50, 300)


def test_rows_without_a_bucket_are_no_buckets(board: ProgressBoard) -> None:
    board.written([WriteStatus(-1, file_name="letters.parquet", rows_received=4, rejected=4)])
    assert (board.snapshot().busiest, board.snapshot().bucket_rows) == ((), 0)


def test_waits_for_others_add_up(board: ProgressBoard) -> None:
    for seconds in (0.5, 1.0):
        board.waited_for_lock(seconds)
    board.waited_for_lease(2.0)
    assert (board.snapshot().lock_wait, board.snapshot().lease_wait) == (1.5, 2.0)


def test_offsets_are_known_by_partition_once_spark_has_looked(board: ProgressBoard) -> None:
    assert board.offsets() == {}
    board.started(kafka(None, 5), 1)
    board.polled(report(end=5, latest=9), WORKS)
    assert board.offsets() == {("t", 0): (5, 9)}


def test_how_long_a_commit_has_lasted_is_counted_until_it_ends_in_whatever_way(
    board: ProgressBoard, clock: Clock
) -> None:
    ends: list[Callable[[], None]] = [
        lambda: board.committed(None),
        lambda: board.committed(commit(FIRST)),
        lambda: board.batch_ended(outcome(FIRST)),
        board.taken_back,
        board.position_lost,
    ]
    for end in ends:
        board.committing()
        clock.seconds += 240
        assert board.snapshot().committing_for == 240
        end()
        assert board.snapshot().committing_for is None
