"""A broker that goes away under a running pipeline and comes back, and one that is not there at the start."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bucketingest.stream import ingest_resource
from bucketingest.stream.report.board import ProgressBoard
from bucketingest.stream.report.progress import Phase, Progress
from bucketingest.stream.running import RunningIngest
from devservers.kafka import KafkaBroker
from support.jobs.stream_runs import Lake, Topic, messages

pytestmark = pytest.mark.kafka

FORMAT = {"type": "json", "schema": "id BIGINT, seq BIGINT"}
TABLE = {"recordKey": ["id"], "orderingField": "seq", "index": {"buckets": 2}}
QUICK = {
    "kafka.default.api.timeout.ms": "2000",
    "kafka.request.timeout.ms": "1000",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "100",
}
"""With Spark's own patience, a query ends after minutes only."""
WITHIN_SECONDS = 120.0


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": number, "seq": number} for number in range(first, first + count)]


@contextmanager
def driven(running: RunningIngest) -> Iterator[list[BaseException]]:
    """The loop of `bucketingest run`, in a thread. Yields what ended it, if anything did."""
    ended: list[BaseException] = []

    def drive() -> None:
        try:
            while not running.wait(0.5):
                running.progress()
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            ended.append(error)

    thread = threading.Thread(target=drive, daemon=True)
    thread.start()
    try:
        yield ended
    finally:
        running.request_stop()
        thread.join(WITHIN_SECONDS)


def until(board: ProgressBoard, wanted: Callable[[Progress], bool], ended: list[BaseException]) -> Progress:
    deadline = time.monotonic() + WITHIN_SECONDS
    while not wanted(now := board.snapshot()):
        assert not ended, ended
        assert time.monotonic() < deadline, now
        time.sleep(0.1)
    return now


def test_a_start_waits_for_its_broker_and_the_pipeline_outlives_it(spark: SparkSession, lake: Lake) -> None:
    with KafkaBroker() as broker:
        topic, address = Topic(broker, "orders"), broker.bootstrap_servers
        broker.create_topic(topic.name)
        topic.send(messages(rows(0, 10), "id"))
        broker.kill()
        board = ProgressBoard()
        resource = lake.resource(topic.source(options=QUICK), table=TABLE, format=FORMAT)
        running = ingest_resource(spark, resource, board=board)
        with driven(running) as ended:
            until(board, lambda now: now.phase is Phase.WAITING, ended)
            broker.start()
            assert broker.bootstrap_servers == address
            until(board, lambda now: now.rows == 10 and now.lag_offsets == 0, ended)

            query = running.query
            broker.kill()
            away = until(board, lambda now: now.phase is Phase.WAITING, ended)
            assert (away.lag_offsets, away.lag_seconds, away.idle) == (None, None, False)
            assert away.source is not None
            assert not away.source.answers
            assert address in (away.source.problem or "")
            until(board, lambda _: running.query is not query, ended)
            broker.start()
            topic.send(messages(rows(10, 10), "id"))
            back = until(board, lambda now: now.rows == 20 and now.lag_offsets == 0, ended)
            assert back.source is not None
            assert back.source.answers
        assert not ended
    # A broker that crashed comes back with what it acknowledged.
    assert sorted(lake.rows()["id"].to_pylist()) == list(range(20))
