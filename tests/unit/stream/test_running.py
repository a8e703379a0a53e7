"""A running query that must be ended while Spark has just started its next micro-batch."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JNetworkError

from bucketingest.lease.record import LeaseLost
from bucketingest.stream.errors import InvalidTransform, JvmFailed, SourceUnreachable
from bucketingest.stream.foreach_batch import MicroBatchFunction, StopRequested
from bucketingest.stream.own_query import OwnQuery
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.running import RunningIngest
from bucketingest.stream.source.columns_schema import SchemaGrown
from bucketingest.write.errors import ColumnsChanged, PositionLost

UNUSED = cast(Any, None)
JOINED_WITHIN_SECONDS = 5.0


class Coordinator:
    """Its open instant was rolled back by another writer, which its next commit finds out."""

    inflight: str | None = "20261121090000000"

    def commit_if_due(self) -> None:
        self.inflight = None
        raise PositionLost("rolled back")


class Query:
    """Spark's query as far as its end goes: `stop` returns when the call of the next micro-batch, just started, has."""

    def __init__(self, function: MicroBatchFunction, *, ends: bool) -> None:
        self._function = function
        self._ends = ends
        self.call_ended: bool | None = None

    def awaitTermination(self, seconds: float) -> bool:  # noqa: N802 - as Spark names it
        return self._ends

    def stop(self) -> None:
        call = threading.Thread(target=self._call, daemon=True)
        call.start()
        call.join(JOINED_WITHIN_SECONDS)
        self.call_ended = not call.is_alive()

    def _call(self) -> None:
        with suppress(StopRequested, AttributeError):
            self._function(UNUSED, 1)


def test_a_table_that_was_rolled_back_while_idle_ends_the_micro_batch_that_waits_and_starts_again() -> None:
    function = MicroBatchFunction(UNUSED, UNUSED, UNUSED, cast(Any, Coordinator()), ProgressBoard(), tasks=1)
    queries = [Query(function, ends=False), Query(function, ends=True)]
    starts = iter(queries)

    def start() -> Query:
        function.begin(UNUSED, lambda: None)
        return next(starts)

    starter = cast(Any, SimpleNamespace(function=function, start=start, once=False, topics=None, whole=None))
    running = RunningIngest(starter, cast(Any, SimpleNamespace(release=lambda: None, refuse_taken=lambda: None)))

    assert running.wait(60)
    assert queries[0].call_ended, "stop waits for the call, so the call must not wait for the stopping thread"
    assert running.query is cast(Any, queries[1])
    assert not function.ending.is_set(), "the new query's micro-batches may start"


def test_an_open_instant_is_given_up_before_columns_become_more() -> None:
    """Else the next query finds out with its first micro-batch, and starts once more as if the table was lost."""
    steps = MagicMock()
    steps.before.start.return_value.awaitTermination.side_effect = SchemaGrown("{}", {1: ("note",)})
    steps.before.function.gives_way = False
    steps.grow.return_value.start.return_value.awaitTermination.return_value = True
    steps.grow.return_value.function.finish_services.return_value = True
    running = RunningIngest(steps.before, MagicMock(), reopen=steps.grow)
    assert running.wait(60)
    names = [name for name, _, _ in steps.mock_calls if name in {"before.coordinator.give_up", "grow", "grow().start"}]
    assert names == ["before.coordinator.give_up", "grow", "grow().start"]


def grows(error: Exception) -> RunningIngest:
    """Its columns become more, and that ends with an error."""
    steps = MagicMock()
    steps.before.start.return_value.awaitTermination.side_effect = [SchemaGrown("{}", {1: ("note",)}), True]
    steps.before.function.gives_way = False
    steps.before.function.stop_requested.wait.return_value = False
    steps.before.topics.watch.has_answered_since.return_value = False
    steps.before.once = False
    steps.grow.side_effect = error
    return RunningIngest(steps.before, MagicMock(), reopen=steps.grow)


def without_answer() -> InvalidTransform:
    error = InvalidTransform("spec.transform.sql: no answer")
    error.__cause__ = Py4JNetworkError("no answer")
    return error


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("no answer"), ConnectionRefusedError(111, "refused"), without_answer()]
)
def test_the_jvm_is_gone_while_columns_become_more(error: Exception) -> None:
    with pytest.raises(JvmFailed, match="JVM is gone"):
        grows(error).wait(60)


def test_the_source_does_not_answer_while_columns_become_more() -> None:
    found = grows(SourceUnreachable("Kafka does not answer"))
    assert not found.wait(0.1)
    assert found.query is None, "it is waited for"


def test_the_table_is_opened_again_after_another_writer_changed_its_columns() -> None:
    steps = MagicMock()
    steps.before.start.return_value.awaitTermination.return_value = False
    steps.before.function.busy.acquire.return_value = True
    steps.before.function.stop_requested.is_set.return_value = False
    steps.before.function.commit.side_effect = ColumnsChanged("another writer added note")
    steps.again.return_value.start.return_value.awaitTermination.return_value = True
    steps.again.return_value.function.finish_services.return_value = True
    assert RunningIngest(steps.before, MagicMock(), reopen=steps.again).wait(60)
    assert steps.again.call_args.args == (None, steps.before.function.stop_requested)
    names = [name for name, _, _ in steps.mock_calls]
    ended, given_up = (names.index(f"before.{each}") for each in ("function.board.query_ended", "coordinator.give_up"))
    assert ended < given_up < names.index("again"), "a merge of log files may take as long as a start"


def test_a_query_of_sparks_ends_when_micro_batches_need_none_but_not_a_job_that_is_to_stop() -> None:
    sparks, own = MagicMock(), MagicMock(spec=OwnQuery)
    sparks.awaitTermination.return_value = False
    own.awaitTermination.return_value = True
    starter = MagicMock(once=False)
    starter.start.side_effect = [sparks, own]
    starter.leaves_spark.return_value = True
    starter.function.stop_requested.is_set.side_effect = [False] * 3
    assert RunningIngest(starter, MagicMock()).wait(60)
    assert (sparks.stop.call_count, starter.start.call_count) == (1, 2)

    starter.start.side_effect = [sparks]
    starter.function.stop_requested.is_set.side_effect = None
    starter.function.stop_requested.is_set.return_value = True
    sparks.awaitTermination.side_effect = [False, True]
    assert RunningIngest(starter, MagicMock()).wait(60)
    assert (sparks.stop.call_count, starter.start.call_count) == (2, 3)


def running(error: Exception) -> RunningIngest:
    starter = MagicMock()
    starter.start.return_value.awaitTermination.side_effect = error
    return RunningIngest(starter, MagicMock())


@pytest.mark.parametrize("error", [Py4JNetworkError("no answer"), ConnectionRefusedError(111, "refused")])
def test_the_jvm_is_gone(error: Exception) -> None:
    with pytest.raises(JvmFailed, match="JVM is gone"):
        running(error).wait()


def test_a_full_disk_is_named_as_what_it_is() -> None:
    with pytest.raises(OSError, match="No space left"):
        running(OSError(28, "No space left on device")).wait()


def test_a_job_whose_table_another_one_took_ends_though_its_micro_batch_waits_for_executors_that_are_gone() -> None:
    starter, lease = MagicMock(), MagicMock()
    starter.start.return_value.awaitTermination.return_value = False
    starter.function.busy.acquire.return_value = False
    lease.refuse_taken.side_effect = LeaseLost("another job took the table")
    with pytest.raises(LeaseLost):
        RunningIngest(starter, lease).wait(0.2)
    lease.release.assert_called_once_with()
