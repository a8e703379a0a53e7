from __future__ import annotations

import pytest

from bench.cases.comparison import WrongResult
from bench.cases.steady.job import Visible, latencies
from bench.cases.steady.producer import Tick


def test_a_message_is_visible_with_the_first_commit_that_reaches_beyond_it() -> None:
    commits = [Visible({0: 10, 1: 5}, at=102.0), Visible({0: 20, 1: 5}, at=104.0), Visible({0: 20, 1: 9}, at=109.0)]
    ticks = [Tick(0, 10, at=100.0), Tick(0, 11, at=101.0), Tick(1, 6, at=101.5)]
    assert latencies(ticks, commits) == [2.0, 3.0, 7.5]


def test_commits_may_be_listed_in_any_order_and_without_partitions_that_had_nothing() -> None:
    commits = [Visible({1: 3}, at=103.0), Visible({0: 10}, at=102.0)]
    assert latencies([Tick(0, 4, at=100.0), Tick(1, 3, at=100.0)], commits) == [2.0, 3.0]


def test_a_message_that_is_in_no_commit_is_a_wrong_result() -> None:
    with pytest.raises(WrongResult, match="offset 12 of partition 0"):
        latencies([Tick(0, 12, at=100.0)], [Visible({0: 11}, at=101.0)])
