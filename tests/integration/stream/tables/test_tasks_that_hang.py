"""Tasks of a job of many tables that never end: they are ended, and their places are free again."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from bucketingest.decode.kafka.client_options import Client
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.stream.tables.combined import TasksHang, Work, WriteAlone, write_combined, writers
from support.tables.write_plans import write_plan

_FOR_EVER = 600.0


class _Hangs(list[TopicRange]):
    """Ranges that a task looks at for ever. `said`: where it says that it does."""

    said: Path | None = None

    def __getitem__(self, at: Any) -> Any:
        if self.said is not None:
            (self.said / f"{at}").touch()
        time.sleep(_FOR_EVER)
        return super().__getitem__(at)


def hangs(topic: str, partitions: int = 1) -> Work:
    cast("Any", cloudpickle).register_pickle_by_value(sys.modules[__name__])
    client = Client({"bootstrap.servers": "127.0.0.1:1", "group.id": "none"})
    ranges = [TopicRange(topic, number, 0, 1) for number in range(partitions)]
    return Work(write_plan(tasks=1), cast("Any", None), client, _Hangs(ranges))


def test_tasks_that_hang_are_ended_and_it_is_known_whose_they_are(spark: SparkSession) -> None:
    works = [hangs(topic) for topic in ("a", "b")]

    assert [type(answer) for answer in write_combined(spark, works, 4, 3)] == [WriteAlone, WriteAlone]
    (answer,) = write_combined(spark, works[:1], 4, 3)

    assert isinstance(answer, TasksHang)
    assert "did not end within 3 s" in str(answer)
    assert spark.range(100).repartition(8).count() == 100, "no task keeps its place"


def test_a_table_that_hangs_by_itself_leaves_places_to_the_others(spark: SparkSession, tmp_path: Path) -> None:
    """Though its topic has more partitions than Spark has places. Else each new try would keep all tables waiting."""
    work = hangs("a", 2 * spark.sparkContext.defaultParallelism)
    cast("_Hangs", work.ranges).said = tmp_path
    _, alone = writers(spark, _FOR_EVER)
    with ThreadPoolExecutor(2) as pool:
        hanging = pool.submit(alone, [work])
        for _ in range(1200):
            if any(tmp_path.iterdir()):
                break
            time.sleep(0.05)
        try:
            assert pool.submit(spark.range(10).count).result(60) == 10
            assert not hanging.done()
        finally:
            spark.sparkContext.cancelAllJobs()
