"""Which messages Spark would read for a micro-batch, task by task: our tasks read the same."""

from __future__ import annotations

import re
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from bucketingest.decode.kafka.errors import TopicInDoubt
from bucketingest.decode.kafka.ranges import TopicRange
from bucketingest.decode.sql.nodes import RowsInDoubt

_TASKS_MAX: Final = 5000
"""Each one is asked for in calls of its own."""


def ranges_of(rows: DataFrame) -> list[TopicRange]:
    """The messages that each task of a micro-batch would read, in this order. Nothing is read.

    Raises TopicInDoubt if the plan has another form than is known.
    """
    try:
        tasks = reading_rdd(rows, "DataSourceRDD").partitions()
        if len(tasks) > _TASKS_MAX:
            raise TopicInDoubt(f"the micro-batch has more than {_TASKS_MAX} tasks")
        return [_range(each.inputPartition().get()) for each in tasks]
    except RowsInDoubt as error:
        raise TopicInDoubt(str(error)) from error
    except (Py4JError, AttributeError, TypeError) as error:
        raise TopicInDoubt(f"{OTHER_FORM}: {type(error).__name__}") from error


def _range(part: Any) -> TopicRange:
    """By its text: each number alone would be a call of the JVM."""
    found = _RANGE.fullmatch(str(part.offsetRange().toString()))
    if found is None:
        raise TopicInDoubt(OTHER_FORM)
    return TopicRange(found[1], *map(int, found.groups()[1:]))


_RANGE: Final = re.compile(r"KafkaOffsetRange\((.+)-(\d+),(\d+),(\d+),(?:None|Some\(.*\))\)")
"""Topic, partition, first offset, and the one behind the last: Spark's `KafkaOffsetRange(TopicPartition, from, until,
preferredLoc)`, whose first part Kafka writes as topic-partition.
"""
OTHER_FORM: Final = "Spark's plan has another form than is known"
_DEPTH_MAX: Final = 10


def reading_rdd(rows: DataFrame, kind: str) -> Any:
    """The RDD of this class: what is between it and the rows only changes the form of a row. Raises RowsInDoubt."""
    rdd: Any = rows._jdf.queryExecution().logical().rdd()  # noqa: SLF001 - PySpark has no other way
    for _ in range(_DEPTH_MAX):
        if rdd.getClass().getSimpleName() == kind:
            return rdd
        before = rdd.dependencies()
        if before.size() != 1:
            break
        rdd = before.apply(0).rdd()
    raise RowsInDoubt(OTHER_FORM)
