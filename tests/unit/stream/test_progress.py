"""Progress as counted from outcomes, and the lag as Spark's own progress tells it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bucketingest.stream import progress
from bucketingest.stream.progress import ProgressBoard, kafka_lag
from bucketingest.write.outcome import Outcome


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Seconds that pass only when a test says so."""
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def outcome(instant: str | None, rows: int, **counts: int) -> Outcome:
    return Outcome(instant, rows=rows, **counts)


def test_a_new_board_shows_nothing_done(clock: SimpleNamespace) -> None:
    board = ProgressBoard()
    clock.seconds += 3

    now = board.snapshot()

    assert (now.running_for, now.batches, now.rows, now.rows_per_second) == (3, 0, 0, 0)
    unknown = (now.last, now.last_commit_age, now.inflight_instant, now.inflight_age, now.lag_offsets)
    assert unknown == (None,) * 5


def test_an_instant_is_inflight_from_its_start_to_its_commit(clock: SimpleNamespace) -> None:
    board = ProgressBoard()
    board.batch_started("20260101000000000")
    clock.seconds += 2
    assert (board.snapshot().inflight_instant, board.snapshot().inflight_age) == ("20260101000000000", 2)

    board.batch_ended(outcome("20260101000000000", 10))
    clock.seconds += 5

    now = board.snapshot()
    assert (now.inflight_instant, now.inflight_age, now.last_commit_age) == (None, None, 5)


def test_counts_add_up_over_micro_batches(clock: SimpleNamespace) -> None:
    board = ProgressBoard()
    second = outcome("2", 5, deletes=2, rejected=1, size_bytes=50)
    for each in (outcome("1", 10, deletes=1, size_bytes=100), second):
        board.batch_started(str(each.instant_time))
        board.batch_ended(each)

    now = board.snapshot()
    assert (now.batches, now.rows, now.deletes, now.rejected, now.size_bytes) == (2, 15, 3, 1, 150)
    assert now.last == second


def test_a_skipped_micro_batch_is_no_commit(clock: SimpleNamespace) -> None:
    board = ProgressBoard()
    first = outcome("1", 10)
    board.batch_started("1")
    board.batch_ended(first)
    clock.seconds += 7
    board.batch_ended(Outcome(None))

    now = board.snapshot()
    assert (now.batches, now.rows, now.last, now.last_commit_age) == (2, 10, first, 7)


def test_the_rate_is_over_the_last_micro_batches_only(clock: SimpleNamespace) -> None:
    board = ProgressBoard()
    for number in range(40):
        board.batch_started(str(number))
        clock.seconds += 1
        board.batch_ended(outcome(str(number), 1_000_000 if number < 20 else 500))

    assert board.snapshot().rows_per_second == 500


def spark_progress(*sources: tuple[str | None, str | None]) -> Any:
    return SimpleNamespace(sources=[SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources])


@pytest.mark.parametrize(
    ("last", "lag"),
    [
        (None, None),
        (spark_progress(), None),
        (spark_progress(('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}')), 4),
        (spark_progress(('{"t":{"0":5}}', '{"t":{"0":5,"1":3},"u":{"0":2}}')), 5),  # partitions not read yet
        (spark_progress(('{"t":{"0":9}}', '{"t":{"0":5}}')), 0),  # the topic was made anew
        (spark_progress(('{"logOffset":3}', "null")), None),  # files
        (spark_progress(("17", None)), None),  # generated rows
        (spark_progress((None, None)), None),
        (spark_progress(("no json", "no json")), None),
    ],
)
def test_the_lag_is_the_sum_over_all_partitions_where_the_source_tells_it(last: Any, lag: int | None) -> None:
    assert kafka_lag(last) == lag
