"""Who reads a micro-batch's messages after the tasks could not: Spark, for a while that grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest

from bucketingest.decode.kafka.client_options import client_of
from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.sql.nodes import RowsInDoubt
from bucketingest.stream.micro_batch import LeftToSpark
from bucketingest.stream.topics import without_spark as topic_reading
from bucketingest.stream.topics.without_spark import (
    BYTES_HERE,
    MESSAGES_HERE,
    PAUSE_MAX_SECONDS,
    PAUSE_MIN_SECONDS,
    TopicReading,
    packed_here,
)
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


def test_many_messages_and_large_ones_are_not_held_by_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest of all may have a gigabyte: what is packed is counted, and no more of it is read."""
    nothing = cast("Any", None)
    client = client_of("kafka:9092", {})
    taken: list[int] = []

    def packing(*_: Any) -> Iterator[pa.RecordBatch]:
        for batch in range(100):
            taken.append(batch)
            yield pa.RecordBatch.from_pydict({"message": [b"x" * (BYTES_HERE // 4)]})

    monkeypatch.setattr(topic_reading, "pack_messages", packing)
    monkeypatch.setattr(topic_reading, "read", lambda *_: iter(()))
    decoder = cast("Any", type("Decoder", (), {"needs": ("value",)}))
    many = [TopicRange("orders", part, 0, MESSAGES_HERE // 2 + 1) for part in (0, 1)]
    assert packed_here(many, nothing, decoder, client, MESSAGES_HERE) is None
    assert taken == []
    assert packed_here(many[:1], nothing, decoder, client, MESSAGES_HERE) is None
    assert len(taken) == 4


def test_rows_in_doubt_are_sparks_whoever_decodes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def packing(*_: Any) -> Iterator[pa.RecordBatch]:
        raise RowsInDoubt("a value")
        yield

    monkeypatch.setattr(topic_reading, "pack_messages", packing)
    monkeypatch.setattr(topic_reading, "read", lambda *_: iter(()))
    decoder, nothing = cast("Any", type("Decoder", (), {"needs": ("value",)})), cast("Any", None)
    with pytest.raises(LeftToSpark, match="a value"):
        packed_here([TopicRange("orders", 0, 0, 5)], nothing, decoder, client_of("kafka:9092", {}), 5)
