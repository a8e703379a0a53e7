"""The job asks Spark for another number of executors: so many work in the end, and one that is lost is replaced."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bucketingest.stream.spark.executors import SparkExecutors


class Scheduler:
    """Spark's context as `CoarseGrainedSchedulerBackend` keeps the number: killing an executor lowers it by one."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.alive = [str(number) for number in range(1, total + 1)]

    def sc(self) -> Scheduler:
        return self

    def requestTotalExecutors(self, count: int, _local: int, _hosts: object) -> None:  # noqa: N802 - Spark's name
        self.total = count

    def getExecutorIds(self) -> Any:  # noqa: N802 - Spark's name
        return SimpleNamespace(mkString=lambda comma: comma.join(self.alive))

    def killExecutors(self, ids: list[str]) -> None:  # noqa: N802 - Spark's name
        self.total = max(0, self.total - len(ids))
        self.alive = [each for each in self.alive if each not in ids]


class Ids(list[str]):
    def add(self, each: str) -> None:
        self.append(each)


@pytest.mark.parametrize(("before", "count"), [(1, 4), (12, 2), (5, 4), (3, 3)])
def test_spark_keeps_the_number_that_was_asked_for(before: int, count: int) -> None:
    scheduler = Scheduler(before)
    java = SimpleNamespace(util=SimpleNamespace(HashMap=dict, ArrayList=Ids))
    convert = SimpleNamespace(toScalaMap=dict, toSeq=list)
    context = SimpleNamespace(_jsc=scheduler, _jvm=SimpleNamespace(PythonUtils=convert, java=java))
    session: Any = SimpleNamespace(sparkContext=context)
    SparkExecutors(session).ask_for(count)
    assert scheduler.total == count, "of those that are lost, so many are replaced"
    assert scheduler.alive == [str(number) for number in range(1, min(before, count) + 1)], "the oldest stay"
