"""A job of many tables that runs in the test's session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from bucketingest.hudi.timeline.timeline import Timeline
from bucketingest.spec.job_report import TableReport
from bucketingest.storage import Storage, open_storage
from bucketingest.stream import ingest_tables
from bucketingest.stream.tables.running import RunningTables
from support.jobs.many_topics import Topics

_WAIT_SECONDS = 240.0


class Lake:
    """A job that runs, and its tables."""

    def __init__(self, job: RunningTables, topics: Topics) -> None:
        self.job = job
        self.topics = topics

    def until(self, reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WAIT_SECONDS
        while not reached():
            assert not self.job.wait(0.2), "it ended"
            assert time.monotonic() < deadline, self.job.reports()

    def reports(self) -> Mapping[str, TableReport]:
        return {each.topic.removeprefix(self.topics.prefix): each for each in self.job.reports()}

    def has(self, **rows: int) -> Callable[[], bool]:
        """Whether tables have so many rows by this job."""
        return lambda: all(name in self.reports() and self.reports()[name].rows == n for name, n in rows.items())

    def storage(self, name: str) -> Storage:
        return open_storage(str(self.topics.table(name)))

    def actions(self, name: str) -> list[str]:
        """Of completed instants."""
        return [each.action for each in Timeline.load(self.storage(name)).completed]


@contextmanager
def runs(spark: SparkSession, topics: Topics, **spec: Any) -> Iterator[Lake]:
    job = ingest_tables(spark, topics.resource(**spec))
    try:
        yield Lake(job, topics)
    finally:
        job.request_stop()
        assert job.wait(_WAIT_SECONDS)
