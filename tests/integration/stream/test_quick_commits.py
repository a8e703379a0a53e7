"""Commits less than a second apart: from the first one on this process plans micro-batches, and Spark only tasks."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingestion as started
from bucketingest.stream.errors import QueryFailed
from bucketingest.write.instants.journal import Journal
from support.jobs.stream_runs import Lake, NewTopic, Runner, Topic, job, messages

pytestmark = pytest.mark.kafka


def quick(lake: Lake, topic: Topic, interval: str = "200ms", trigger: str = "100ms") -> BucketIngest:
    return lake.resource(
        topic.source(startingOffsets="earliest", maxOffsetsPerTrigger=1000),
        table={"recordKey": ["id"], "index": {"buckets": 2}},
        format={"type": "json", "schema": "id INT"},
        commit={"mode": "interval", "interval": interval, "trigger": trigger},
    )


def send(topic: Topic, *ids: int) -> None:
    topic.send(messages(({"id": each} for each in ids), "id"))


def ids(lake: Lake) -> list[Any]:
    return sorted(lake.rows()["id"].to_pylist())


def planned_by_spark(lake: Lake) -> int:
    """How many micro-batches Spark's checkpoints have."""
    return len([*lake.checkpoint.glob("*/offsets/[0-9]*")])


def test_spark_plans_until_the_first_commit_and_each_row_is_there_once(
    spark: SparkSession, run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    with job(spark, quick(lake, topic)) as until:
        send(topic, *range(10))
        until(lambda now: now.rows >= 10 and now.commits > 0)
        until(lambda now: now.idle)
        by_spark = planned_by_spark(lake)
        for first in range(10, 100, 10):
            send(topic, *range(first, first + 10))
            until(lambda now, first=first: now.rows == first + 10 and now.inflight_instant is None)  # type: ignore[misc]
        topic.broker.add_partitions(topic.name, total=4)
        send(topic, *range(100, 2100))
        until(lambda now: now.rows == 2100 and now.lag_offsets == 0)
        assert planned_by_spark(lake) == by_spark <= 2
    assert ids(lake) == list(range(2100))

    send(topic, *range(2100, 2200))
    with job(spark, quick(lake, topic)) as until:
        until(lambda now: now.rows == 100)
        assert planned_by_spark(lake) == by_spark
    send(topic, *range(2200, 2300))
    assert run.once(quick(lake, topic, "30s", "1s")).rows == 100  # Spark goes on from there
    assert ids(lake) == list(range(2300))


def test_what_a_crash_left_is_written_again_as_it_was(
    spark: SparkSession, run: Runner, lake: Lake, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(partitions=2)
    send(topic, *range(10))
    run.once(quick(lake, topic))
    send(topic, *range(10, 20))

    def crash(*_: object) -> None:
        raise RuntimeError("Crash")

    with monkeypatch.context() as broken:
        broken.setattr(Journal, "put_ledger", crash)
        with pytest.raises(QueryFailed, match="Crash"), job(spark, quick(lake, topic)) as until:
            until(lambda _: False)
    left = set(lake.log_files())
    send(topic, *range(20, 30))
    by_spark = planned_by_spark(lake)
    with job(spark, quick(lake, topic)) as until:
        until(lambda now: now.rows == 20 and now.lag_offsets == 0)
        assert planned_by_spark(lake) == by_spark
    assert ids(lake) == list(range(30))
    assert left < set(lake.log_files()), "its files are those of the crash"


def test_more_messages_than_this_process_holds_are_written_by_tasks(
    spark: SparkSession, run: Runner, lake: Lake, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(partitions=2)
    send(topic, 0)
    run.once(quick(lake, topic))
    monkeypatch.setattr(started, "MESSAGES_HERE", 5)
    send(topic, *range(1, 100))
    with job(spark, quick(lake, topic)) as until:
        until(lambda now: now.rows == 99)
    assert ids(lake) == list(range(100))
