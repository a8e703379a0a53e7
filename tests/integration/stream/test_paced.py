"""A query that holds Spark back between the micro-batches of an instant: what comes meanwhile is not lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bucketingest.spec.model import BucketIngest
from bucketingest.stream import ingest_resource
from bucketingest.stream.report.progress import Progress
from bucketingest.stream.running import RunningIngest
from support.jobs.stream_runs import WAIT_SECONDS_MAX, Lake, NewTopic, Runner, Topic, messages

pytestmark = pytest.mark.kafka


def paced(lake: Lake, topic: Topic, interval: str) -> BucketIngest:
    return lake.resource(
        topic.source(startingOffsets="earliest"),
        table={"recordKey": ["id"]},
        format={"type": "json", "schema": "id INT"},
        commit={"mode": "interval", "interval": interval, "trigger": "100ms"},
        health={"maxCommitLag": "3h", "maxInflightAge": "3h"},
        slo={"commitLatency": "3h"},
    )


def send(topic: Topic, *ids: int) -> None:
    topic.send(messages(({"id": each} for each in ids), "id"))


def wait_for(running: RunningIngest, reached: Callable[[Progress], bool]) -> Progress:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not reached(now := running.progress()):
        assert time.monotonic() < deadline, now
        assert not running.wait(0.1), "the query has ended"
    return now


def test_a_stop_ends_the_pause_and_commits_and_the_next_start_reads_what_came_meanwhile(
    spark: SparkSession, run: Runner, lake: Lake, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(topic, 1)
    running = ingest_resource(spark, paced(lake, topic, "1h"))  # so a pause of minutes
    wait_for(running, lambda now: now.rows == 1)
    send(topic, 2)
    wait_for(running, lambda now: now.rows == 2)  # of the first alone it is not known how fast input comes
    send(topic, 3)
    running.request_stop()

    assert running.wait(WAIT_SECONDS_MAX)
    assert ids(lake) == [1, 2]
    run.once(paced(lake, topic, "1h"))
    assert ids(lake) == [1, 2, 3]


def ids(lake: Lake) -> list[Any]:
    return sorted(lake.rows()["id"].to_pylist())
