"""A start takes the newest schema that the table takes; a running job goes on with the columns of before."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError

from bucketingest.hudi.errors import UnsupportedTable
from bucketingest.stream import growth
from bucketingest.stream.errors import InvalidTransform
from bucketingest.stream.growth import AGAIN_SECONDS, WAIT_SECONDS, Growth, first_taken
from bucketingest.stream.source.columns_schema import ColumnsSchema, SchemaGrown
from bucketingest.write.errors import LogFilesLeft

REFUSED = UnsupportedTable("/t", ["schema: column 'n' is int in the table but string in the input; cast it"])
LEFT = LogFilesLeft("/t", ["s.y"])


def without_jvm() -> InvalidTransform:
    error = InvalidTransform("spec.transform.sql: no answer")
    error.__cause__ = Py4JNetworkError("no answer")
    return error


def fails(*errors: Exception, then: str = "taken") -> Callable[[Any], str]:
    left = list(errors)

    def take(given: Any) -> str:
        if left:
            raise left.pop(0)
        return f"{then} {given}"

    return take


@pytest.mark.parametrize("error", [REFUSED, LEFT, InvalidTransform("spec.transform.sql: no column n")])
def test_a_start_takes_the_newest_schema_that_the_table_takes(error: Exception) -> None:
    inputs = [lambda: 3, lambda: 2, lambda: 1]
    assert first_taken(inputs, fails(error)) == "taken 2"
    with pytest.raises(type(error), match=re.escape(str(error))):
        first_taken(inputs[:2], fails(error, REFUSED))


def test_what_was_said_of_the_newest_is_raised() -> None:
    with pytest.raises(InvalidTransform, match="newest"):
        first_taken([lambda: 2, lambda: 1], fails(InvalidTransform("newest"), InvalidTransform("older")))


class Clock:
    """Goes on by a pause each time that somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stop(threading.Event):
    """Nobody stops the job, but time goes on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.now += timeout or 0.0
        return self.is_set()


def grown(*errors: Exception, stopped: bool = False) -> tuple[Any, ColumnsSchema, Clock]:
    clock = Clock()
    columns = ColumnsSchema(clock=clock)
    columns.text = "old"
    stop = Stop(clock)
    if stopped:
        stop.set()
    grows = Growth(columns, lambda text: text, cast(Any, fails(*errors, then="started with")), clock)
    return grows.starter(SchemaGrown("new", {7: ("s.y",)}), stop), columns, clock


def test_columns_are_taken_after_another_writers_compaction_has_ended() -> None:
    started, columns, clock = grown(LEFT, LEFT)
    assert (started, columns.text, columns.refused) == ("started with new", "new", {})
    assert clock.now == 2 * growth._PAUSE_SECONDS


@pytest.mark.parametrize("stopped", [False, True])
def test_the_job_goes_on_without_columns_that_must_wait_for_long_and_asks_again(stopped: bool) -> None:
    waits = 1 if stopped else int(WAIT_SECONDS / growth._PAUSE_SECONDS) + 1
    started, columns, clock = grown(*[LEFT] * waits, stopped=stopped)
    assert (started, columns.text) == ("started with old", "old")
    assert columns.refused[7].startswith("has s.y, which the table cannot take: not yet: s.y of /t")
    columns.cover({}, lambda writer: writer.text)
    assert 7 in columns.refused
    clock.now += AGAIN_SECONDS
    columns.cover({}, lambda writer: writer.text)
    assert columns.refused == {}


def test_columns_that_the_table_cannot_take_are_refused_for_good() -> None:
    started, columns, clock = grown(REFUSED)
    assert started == "started with old"
    clock.now += 2 * AGAIN_SECONDS
    columns.cover({}, lambda writer: writer.text)
    assert "cast it" in columns.refused[7]


def test_a_jvm_that_is_gone_is_no_word_about_the_columns() -> None:
    for tries in (lambda: grown(without_jvm()), lambda: first_taken([lambda: 1, lambda: 2], fails(without_jvm()))):
        with pytest.raises(InvalidTransform, match="no answer"):
            tries()
