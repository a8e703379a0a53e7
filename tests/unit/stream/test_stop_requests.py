"""Stopping a query, and what else its other thread does, while no micro-batch is written."""

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bucketingest.stream.foreach_batch import MicroBatchFunction, StopRequested
from bucketingest.stream.pacing import Pace
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.write.coordinator_api import MicroBatchOutcome
from bucketingest.write.instants.source_range import SourceRange

UNUSED = cast(Any, None)


def test_a_micro_batch_gives_way_to_the_thread_that_stops_the_query() -> None:
    function = MicroBatchFunction(UNUSED, UNUSED, UNUSED, UNUSED, UNUSED, tasks=1)
    function.stop_requested.set()
    ended = threading.Event()

    def begin() -> None:
        with pytest.raises(StopRequested):
            function(UNUSED, 1)
        ended.set()

    # As the stopping thread does: it holds the lock until Spark's stop returns, which waits for the call above.
    with function.busy:
        threading.Thread(target=begin, daemon=True).start()
        assert ended.wait(10)
    assert not function.busy.locked()


def test_in_a_pause_the_other_thread_may_commit_and_the_stop_ends_it() -> None:
    outcome = MicroBatchOutcome("20261121090000000")
    coordinator = cast(Any, SimpleNamespace(run=lambda *_: outcome, inflight=outcome.instant_time))
    held: list[bool] = []

    class Pausing(Pace):
        def pause(self, _: SourceRange, *, gives_way: Callable[[], bool], waits: Callable[[], None]) -> None:
            held.append(caller.busy.locked())
            waits()
            held.append(gives_way())
            caller.stop_requested.set()
            held.append(gives_way())

    pace = Pausing(UNUSED, UNUSED)
    caller = MicroBatchFunction(UNUSED, UNUSED, UNUSED, coordinator, ProgressBoard(), tasks=1, pace=pace)
    source_range = SourceRange("kafka", None, "{}", "query", 1)
    caller.begin(cast(Any, SimpleNamespace(range_of=lambda _: source_range)), lambda: None)

    caller(UNUSED, 1)

    assert held == [False, False, True]
