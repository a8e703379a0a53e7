"""How many executors there are: without them a query waits silently, and a dashboard should show it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def registered_executors(session: SparkSession) -> int:
    """Executors that the driver knows as alive; 0 in a local session, where the driver does their work.

    Read from the driver's own state: nothing is called and nothing waits.
    """
    context: Any = session.sparkContext
    return max(0, len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1)  # noqa: SLF001 - PySpark has no other way
