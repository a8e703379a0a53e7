"""The Spark of the checks: started when the first check needs it, ended with the last, whatever state it is in."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from bucketingest.cli.connect.results import within
from bucketingest.cli.errors import MissingDependency
from bucketingest.cli.process.java import check_java
from bucketingest.spec.model import BucketIngest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STOP_SECONDS: Final = 5.0


class CheckingSpark:
    """A small local Spark. A context manager."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._is_ours = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._is_ours:
            return
        from bucketingest.stream.spark.jvm import kill_jvm, stop_jvm

        if self._session is not None:
            with suppress(Exception):  # a JVM that hangs is killed
                within(_STOP_SECONDS, "the end of Spark", self._session.stop)
        kill_jvm()
        stop_jvm()

    def session_for(self, resource: BucketIngest) -> SparkSession:
        """A session with the resource's settings. Raises MissingDependency, JvmFailed."""
        check_java()
        try:
            from bucketingest.stream.spark.jvm import has_jvm
            from bucketingest.stream.spark.session import checking_session
        except ImportError as error:
            raise MissingDependency(
                f"the Python package {error.name} is missing; install the job's: pip install 'bucketingest[spark,cli]'"
            ) from error
        self._is_ours = self._is_ours or not has_jvm()
        self._session = checking_session(resource)
        return self._session
