"""The loop that runs micro-batches of files: its end, its errors, and a stop."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

import pytest

from bucketingest.stream.files.log import FileBatch
from bucketingest.stream.files.planner import FilesPlanner
from bucketingest.stream.own_query import OwnQuery, OwnQueryFailed, interval

WAIT = 10.0


class Planned:
    """Some micro-batches, then nothing; or an error."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self._left = [FileBatch(number, "/in", ()) for number in range(count)]
        self._error = error
        self.asked_in_vain = threading.Event()

    def next(self) -> FileBatch | None:
        if self._left:
            return self._left.pop(0)
        if self._error is not None:
            raise self._error
        self.asked_in_vain.set()
        return None


class Stopped(Exception):
    pass


def query(planned: Planned, write: Any, trigger: timedelta | None = None) -> OwnQuery[FileBatch]:
    return OwnQuery(cast("FilesPlanner", planned), write, trigger=trigger, stopped=(Stopped,))


def test_without_a_trigger_it_ends_with_its_input() -> None:
    written: list[int] = []
    running = query(Planned(3), lambda batch: written.append(batch.number))
    assert running.awaitTermination(WAIT)
    assert written == [0, 1, 2]
    assert not running.isActive


def test_with_a_trigger_it_waits_for_more_until_it_is_stopped() -> None:
    for count in (0, 1):
        running = query(Planned(count), lambda batch: None, timedelta(hours=1))
        while not running.status["message"].startswith("Waiting"):
            assert not running.awaitTermination(0.01)
        assert running.status["isDataAvailable"] == bool(count), "a micro-batch may have left input behind"
        running.stop()
        assert running.awaitTermination(WAIT)


def test_without_time_between_triggers_it_looks_again_and_again() -> None:
    planned = Planned(0)
    running = query(planned, lambda batch: None, timedelta(0))
    for _ in range(2):
        assert planned.asked_in_vain.wait(WAIT)
        planned.asked_in_vain.clear()
    running.stop()


def test_an_error_ends_it_and_is_the_cause_of_what_is_raised() -> None:
    error = ValueError("as the test says")
    running = query(Planned(1, error), lambda batch: None)
    with pytest.raises(OwnQueryFailed, match="as the test says") as caught:
        running.awaitTermination(WAIT)
    assert caught.value.__cause__ is error


def test_a_stop_between_micro_batches_is_no_error() -> None:
    def write(batch: FileBatch) -> None:
        if batch.number == 1:
            raise Stopped

    assert query(Planned(3), write).awaitTermination(WAIT)


def test_looks_that_find_nothing_take_a_tenth_of_the_time() -> None:
    assert [interval(0, None), interval(30, None)] == [0, 30]
    assert [interval(0, 0.001), interval(0, 12), interval(30, 0.001), interval(30, 12)] == [0.1, 120, 30, 120]
