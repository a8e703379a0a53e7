"""What the board shows of what was recorded: totals, ages, phases, lag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from bucketingest.index.state.summary import StateSummary
from bucketingest.services.compaction.propose import LogBacklog
from bucketingest.services.state import ServicesState
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import Phase
from bucketingest.write.coordinator_api import MicroBatchOutcome
from bucketingest.write.rows.write_status import WriteStatus
from support.jobs.boards import BEGIN, FIRST, SECOND, THIRD, Clock, commit, outcome


def test_a_new_board_makes_nothing_up(board: ProgressBoard, clock: Clock) -> None:
    clock.seconds += 3
    now = board.snapshot()
    assert (now.running_for, now.batches, now.rows, now.rows_per_second) == (3, 0, 0, 0)
    assert now.phase is Phase.STARTING
    assert (now.last, now.last_commit_age, now.inflight_instant, now.inflight_age) == (None,) * 4
    assert (now.lag_offsets, now.lag_seconds, now.epoch, now.verdict, now.skew) == (None,) * 5


def test_the_start_sets_epoch_and_verdict(board: ProgressBoard) -> None:
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


def test_a_commit_that_is_reported_twice_counts_once(board: ProgressBoard) -> None:
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


def test_the_state_is_the_last_one_and_its_new_keys_add_up(board: ProgressBoard) -> None:
    assert board.snapshot().state is None
    state = StateSummary(keys=9, runs=2)
    board.batch_ended(replace(outcome(FIRST), inserts=9, state=StateSummary(keys=5)))
    board.batch_ended(replace(outcome(SECOND), inserts=1, dropped=2, state=state))
    board.batch_ended(MicroBatchOutcome(None))
    now = board.snapshot()
    assert (now.state, now.inserts, now.dropped) == (state, 10, 2)


def test_a_skipped_micro_batch_is_not_a_commit(board: ProgressBoard, clock: Clock) -> None:
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


def test_a_rolled_back_instant_is_counted(board: ProgressBoard) -> None:
    board.batch_started(FIRST)
    board.rolled_back()
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


def test_observers_get_each_duration_once(clock: Clock) -> None:
    durations = Durations()
    board = ProgressBoard([durations], clock.now, clock.forward)
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


def test_rows_without_a_bucket_are_not_a_bucket(board: ProgressBoard) -> None:
    board.written([WriteStatus(-1, file_name="letters.parquet", rows_received=4, rejected=4)])
    assert (board.snapshot().busiest, board.snapshot().bucket_rows) == ((), 0)


def test_waits_for_others_add_up(board: ProgressBoard) -> None:
    for seconds in (0.5, 1.0):
        board.waited_for_lock(seconds)
    board.waited_for_lease(2.0)
    assert (board.snapshot().lock_wait, board.snapshot().lease_wait) == (1.5, 2.0)


def test_how_long_a_commit_has_lasted_is_counted_until_it_ends_in_whatever_way(
    board: ProgressBoard, clock: Clock
) -> None:
    ends: list[Callable[[], None]] = [
        lambda: board.committed(None),
        lambda: board.committed(commit(FIRST)),
        lambda: board.batch_ended(outcome(FIRST)),
        board.rolled_back,
        board.position_lost,
    ]
    for end in ends:
        board.committing()
        clock.seconds += 240
        assert board.snapshot().committing_for == 240
        end()
        assert board.snapshot().committing_for is None


def test_services_are_shown_with_ages_up_to_now() -> None:
    forward, wall = [100.0], [datetime(2026, 11, 21, 12, tzinfo=UTC)]
    board = ProgressBoard(clock=lambda: wall[0], forward=lambda: forward[0])
    assert board.snapshot().oldest_log_age is None
    board.services(ServicesState(LogBacklog(3, 900, wall[0] - timedelta(seconds=30)), "20261121115900000"))
    forward[0] += 5
    wall[0] += timedelta(seconds=5)
    now = board.snapshot()
    assert (now.oldest_log_age, now.compacting_for) == (35.0, 65.0)
    board.services(ServicesState(LogBacklog()))
    assert (board.snapshot().oldest_log_age, board.snapshot().compacting_for) == (None, None)
