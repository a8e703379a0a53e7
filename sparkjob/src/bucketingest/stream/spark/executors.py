"""Counts the executors and asks Spark for another number: Spark's own dynamic allocation knows nothing of streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self

from pyspark.sql import SparkSession

POOL: Final = "spark.scheduler.pool"
"""A thread's jobs are in the pool that this property of it names."""


def registered_executors(session: SparkSession) -> int:
    """Executors that the driver knows as alive; 0 in a local session, where the driver does their work.

    Read from the driver's own state: nothing is called and nothing waits.
    """
    context: Any = session.sparkContext
    return max(0, len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1)  # noqa: SLF001 - PySpark has no other way


@dataclass(frozen=True, slots=True)
class SparkExecutors:
    """The executors of a session that has some."""

    session: SparkSession

    @classmethod
    def of(cls, session: SparkSession) -> Self | None:
        """None in a local session."""
        context: Any = session.sparkContext
        return None if context._jsc.sc().isLocal() else cls(session)  # noqa: SLF001 - PySpark has no other way

    def registered(self) -> int:
        """Number of those that the driver knows as alive."""
        return registered_executors(self.session)

    def ask_for(self, count: int) -> None:
        """Have `count` executors in all. If there are more, the newest ones are ended: call it while no task runs."""
        context: Any = self.session.sparkContext
        scala, jvm = context._jsc.sc(), context._jvm  # noqa: SLF001 - PySpark has no other way
        alive = sorted(filter(None, scala.getExecutorIds().mkString(",").split(",")), key=int)
        if alive[count:]:
            ids = jvm.java.util.ArrayList()
            for each in alive[count:]:
                ids.add(each)
            scala.killExecutors(jvm.PythonUtils.toSeq(ids))
        # Last: each one that is ended also lowers the number by which Spark replaces those that are lost. It includes
        # executors that are not started yet: surplus ones of those are never started.
        scala.requestTotalExecutors(count, 0, jvm.PythonUtils.toScalaMap(jvm.java.util.HashMap()))


def runs_tasks(context: Any, pool: str | None) -> bool:
    """Whether tasks of one of the scheduler's pools run now; True if Spark has none. `pool`: None is the default one.

    Read from the scheduler's own state: what Spark reports of stages may be ten seconds old.
    """
    root = context._jsc.sc().taskScheduler().rootPool()  # noqa: SLF001 - PySpark has no other way
    found = root.getSchedulableByName(pool or "default")
    if found is None:  # no job was started in it yet, or its jobs are in no pools
        return str(root.schedulingMode().toString()) != "FAIR"
    return bool(found.runningTasks())
