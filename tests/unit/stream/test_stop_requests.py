"""Stopping an idle query while its next micro-batch is just about to start."""

import threading
from typing import Any, cast

import pytest

from bucketingest.stream.foreach_batch import MicroBatchFunction, StopRequested

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
