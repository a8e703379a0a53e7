"""Tasks of a job of many tables that never end: they are ended, and their places are free again."""

from __future__ import annotations

import sys
import time
from typing import Any, cast

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.tables.combined import TableFailed, Work, WriteAlone, write_combined
from support.tables.write_plans import write_plan

_FOR_EVER = 600.0


class _Hangs(list[TopicRange]):
    """Ranges that a task looks at for ever."""

    def __getitem__(self, at: Any) -> Any:
        time.sleep(_FOR_EVER)
        return super().__getitem__(at)


def test_tasks_that_hang_are_ended_and_it_is_known_whose_they_are(spark: SparkSession) -> None:
    cast("Any", cloudpickle).register_pickle_by_value(sys.modules[__name__])
    client = Client({"bootstrap.servers": "127.0.0.1:1", "group.id": "none"})
    hangs = [
        Work(write_plan(tasks=1), cast("Any", None), client, _Hangs([TopicRange(topic, 0, 0, 1)]))
        for topic in ("a", "b")
    ]

    with pytest.raises(WriteAlone):
        write_combined(spark, hangs, 2, 3)
    (answer,) = write_combined(spark, hangs[:1], 2, 3)

    assert isinstance(answer, TableFailed)
    assert "did not end within 3 s" in str(answer)
    assert spark.range(100).repartition(8).count() == 100, "no task keeps its place"
