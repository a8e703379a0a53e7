"""Who reads a micro-batch's messages after the tasks could not: Spark, for a while that grows."""

from __future__ import annotations

from typing import Any, cast

import pytest

from bucketingest.decode.kafka.client_options import client_of
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.stream.topic_reading import PAUSE_MAX_SECONDS, PAUSE_MIN_SECONDS, TopicReading
from bucketingest.write.rows.write_status import WriteStatus


class Tasks:
    """Write, or cannot; and a clock."""

    def __init__(self) -> None:
        self.now = 0.0
        self.doubt: str | None = None
        self.tried = 0
        self.reading = TopicReading(client_of("kafka:9092", {}), write=self.write, clock=lambda: self.now)

    def write(self, *_: Any) -> list[WriteStatus]:
        self.tried += 1
        if self.doubt is not None:
            raise TopicInDoubt(self.doubt)
        return []

    def micro_batch(self) -> bool:
        """Whether the tasks read it."""
        nothing = cast("Any", None)
        return self.reading.write(nothing, nothing, nothing) is not None


@pytest.fixture
def tasks() -> Tasks:
    return Tasks()


def test_what_tasks_cannot_read_is_sparks_for_a_while_and_the_log_says_why_once(
    tasks: Tasks, caplog: pytest.LogCaptureFixture
) -> None:
    assert tasks.micro_batch()
    tasks.doubt = "orders-0: no broker answers"
    assert not tasks.micro_batch()
    tasks.doubt = None
    tasks.now += PAUSE_MIN_SECONDS - 1
    assert not tasks.micro_batch()
    assert tasks.tried == 2
    (record,) = caplog.records
    assert (record.getMessage(), vars(record)["reason"]) == (
        "Kafka is read through Spark for now",
        "orders-0: no broker answers",
    )
    tasks.now += 1
    assert tasks.micro_batch()


def test_pauses_double_up_to_a_limit_and_begin_again_after_a_success(tasks: Tasks) -> None:
    def pause() -> float:
        """Minutes from a try that failed to the next one."""
        start, tried = tasks.now, tasks.tried
        while tasks.tried == tried:
            tasks.now += PAUSE_MIN_SECONDS / 4
            tasks.micro_batch()
        return (tasks.now - start) / PAUSE_MIN_SECONDS

    tasks.doubt = "x"
    tasks.micro_batch()
    longest = PAUSE_MAX_SECONDS / PAUSE_MIN_SECONDS
    assert [pause() for _ in range(8)] == [1, 2, 4, 8, 16, 32, longest, longest]
    tasks.doubt = None
    pause()
    tasks.doubt = "x"
    tasks.micro_batch()
    assert pause() == 1
