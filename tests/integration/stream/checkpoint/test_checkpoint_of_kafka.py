"""Kafka's offsets are read once each, whatever is left of Spark's checkpoint: the table's position is enough."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody names it

from bucketingest.write.coordinator_api import StartVerdict
from support.jobs.recorded_stream import RecordedStream
from support.jobs.stream_runs import NewTopic, Topic

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(new_topic: NewTopic) -> Topic:
    return new_topic(partitions=2)


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedStream:
    return RecordedStream(str(tmp_path / "checkpoint"), "kafka")


@pytest.fixture
def stream(spark: SparkSession, topic: Topic) -> Callable[[int], DataFrame]:
    def read(rows_per_batch: int, starting: str = "earliest") -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", topic.broker.bootstrap_servers)
        reader = reader.option("subscribe", topic.name).option("startingOffsets", starting)
        return (
            reader.option("maxOffsetsPerTrigger", rows_per_batch)
            .load()
            .select(F.col("value").cast("STRING").cast("INT"))
        )

    return read


def send(topic: Topic, *numbers: int) -> None:
    for number in numbers:
        topic.send([(None, str(number).encode())], partition=number % 2)


def end(recorded: RecordedStream) -> dict[str, int]:
    assert recorded.position is not None
    (offsets,) = json.loads(recorded.position.end).values()
    return dict(offsets)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "nothing": lambda root: None,
    "the whole root gone": shutil.rmtree,
    "metadata of another query, empty offsets": lambda root: [
        (root / "attempt-00000001-1" / name).write_text(text)
        for name, text in {"metadata": '{"id":"x"}', "offsets/0": "", "commits/0": ""}.items()
        if (root / "attempt-00000001-1" / name).parent.exists()
    ],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_start_after_start_with_crashes_between_reads_every_offset_once(
    damage: str, recorded: RecordedStream, topic: Topic, stream: Callable[..., DataFrame]
) -> None:
    send(topic, *range(8))
    recorded.run(stream(4), begin=1)  # the very first micro-batch is started
    DAMAGES[damage](Path(recorded.root))
    send(topic, *range(8, 12))
    recorded.run(stream(100, "latest"), record=1)
    assert len(recorded.batches) == 1
    assert len(recorded.rows) == 4, "four offsets, as it was, though a hundred may be taken now"

    recorded.run(stream(4), begin=1)
    shutil.rmtree(recorded.root)
    recorded.run(stream(4, "latest"), begin=2)
    made = recorded.run(stream(100))

    assert recorded.rows == list(range(12))
    assert made.verdict == "resumed"
    assert [len(rows) for _, rows in recorded.batches] == [4, 4, 4]
    numbers = [batch.batch_id for batch, _ in recorded.batches]
    assert numbers == list(range(numbers[0], numbers[0] + 3)), "Spark's numbers go on"


def test_offsets_after_a_rolled_back_position_are_read_again_and_new_partitions_from_their_beginning(
    recorded: RecordedStream, topic: Topic, stream: Callable[..., DataFrame]
) -> None:
    send(topic, *range(8))
    recorded.run(stream(2))
    del recorded.batches[1:]
    topic.broker.add_partitions(topic.name, total=3)
    topic.send([(None, b"100")], partition=2)

    recorded.run(stream(100, "latest"))

    assert recorded.rows == [*range(8), 100]
    assert end(recorded) == {"0": 4, "1": 4, "2": 1}


def test_a_recreated_table_is_fed_from_the_starting_offsets(
    recorded: RecordedStream, topic: Topic, stream: Callable[..., DataFrame]
) -> None:
    send(topic, *range(4))
    recorded.run(stream(2))
    recorded.batches.clear()

    made = recorded.run(stream(100))

    assert (made.verdict, recorded.rows) == ("new", list(range(4)))


def test_a_driver_that_should_be_dead_and_its_successor_do_not_meet(
    recorded: RecordedStream, topic: Topic, stream: Callable[..., DataFrame]
) -> None:
    """Both have a query on the same root at the same time; in one directory Spark would end one of them."""
    send(topic, *range(4))
    recorded.run(stream(2), record=1)
    zombie = RecordedStream(recorded.root, "kafka", list(recorded.batches), attempts=recorded.attempts)
    zombie.run(stream(2))
    made = recorded.run(stream(100))

    assert made.directory == "attempt-00000002-1-again-2"
    assert recorded.rows == zombie.rows == list(range(4))


def test_rows_that_arrive_between_two_starts_are_read_though_the_first_starts_at_the_latest(
    recorded: RecordedStream, topic: Topic, stream: Callable[..., DataFrame]
) -> None:
    recorded.beginning = "latest"
    send(topic, *range(4))
    recorded.run(stream(100, "latest"))  # nothing to read: it ends without a micro-batch
    send(topic, *range(4, 8))
    recorded.run(stream(100, "latest"))

    assert recorded.rows == list(range(4, 8))

    recorded.batches.clear()  # the first instant is rolled back
    recorded.verdict = StartVerdict.REWOUND
    recorded.run(stream(100, "latest"))
    assert recorded.rows == list(range(4, 8))

    recorded.batches.clear()  # the table is recreated
    recorded.verdict = StartVerdict.NEW
    recorded.run(stream(100, "latest"))
    assert recorded.rows == []
