"""A table whose rows take long is not in the way of the others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from devservers.produce import produce
from support.jobs.many_running import runs
from support.jobs.many_topics import Topics

pytestmark = pytest.mark.kafka
_LONG = 500
SLOW = (
    "SELECT id, aggregate(sequence(1L, n), 0L, (a, x) -> a + x % 7 + "
    "aggregate(sequence(1L, n), 0L, (b, y) -> b + y % 5)) AS n FROM source"
)
"""Only Spark evaluates it; the time is that of n times n steps."""


def test_a_table_with_sql_that_takes_long_leaves_places_to_the_others(spark: SparkSession, topics: Topics) -> None:
    """Its tasks wait for places since before the others' had come."""
    topics.make("slow", partitions=24)
    topics.make("fast")
    tables = {"overrides": [{"topics": ".*slow", "transform": {"sql": SLOW}}]}
    tracker = spark.sparkContext.statusTracker()
    for partition in range(24):
        rows = [(b"x", b'{"id": "%d", "n": %d}' % (partition, _LONG)) for _ in range(2)]
        produce(topics.broker.bootstrap_servers, topics.prefix + "slow", rows, partition=partition)
    with runs(spark, topics, tables=tables) as lake:
        lake.until(lambda: bool(tracker.getActiveJobsIds()))
        topics.send("fast", 0, 10)
        lake.until(lake.has(fast=10))
        assert lake.reports()["slow"].commits == 0
        lake.until(lambda: lake.reports()["slow"].commits > 0)
