"""Why one of many tables is parked, for how long, and what must be so before it is blamed for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from bucketingest.errors import BucketIngestError
from bucketingest.hudi.lock.clocks import forward_seconds
from bucketingest.hudi.timeline.commit_metadata import CommitMetadata
from bucketingest.hudi.timeline.timeline import Timeline, path_of
from bucketingest.storage import Storage
from bucketingest.stream.errors import SourceUnreachable, StreamError
from bucketingest.stream.spark.executors import registered_executors
from bucketingest.stream.spark.failures import essence, got_no_answer
from bucketingest.write.coordinator import InstantCoordinator
from bucketingest.write.errors import ColumnsChanged, PositionLost
from bucketingest.write.instants.commit_content import EPOCH

BACKOFF_SECONDS: Final = 2.0
BACKOFF_MAX_SECONDS: Final = 300.0
"""A parked table is tried again after a time that doubles with each failure."""
_STARTS_MAX: Final = 2
"""With so many starts since a micro-batch was begun, it counts as what ends them."""


class AttemptsEnded(StreamError):
    """Attempts ended while they wrote the same micro-batch, which may be why. `count`: starts since it was begun."""

    def __init__(self, message: str, count: int) -> None:
        self.count = count
        super().__init__(message)


class JvmGone(Exception):
    """Spark's JVM does not answer: no table can go on. The cause is what was raised."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a table is parked."""

    error: Exception
    reason: str
    failures: int
    """In a row."""
    again_at: float
    """By the forward clock."""

    @property
    def wait(self) -> float:
        """Seconds until the next try."""
        return max(0.0, self.again_at - forward_seconds())


def trouble_of(error: Exception, before: Trouble | None) -> Trouble:
    """`before`: of the try before this one. Pure, but for the clock."""
    failures = 1 if before is None else before.failures + 1
    tries = max(failures, error.count if isinstance(error, AttemptsEnded) else 0)
    is_blip = failures == 1 and isinstance(error, PositionLost | ColumnsChanged)
    wait = 0.0 if is_blip else min(BACKOFF_MAX_SECONDS, BACKOFF_SECONDS * 2 ** min(tries - 1, 10))
    reason = str(error) if isinstance(error, BucketIngestError) else essence(error)[0]
    return Trouble(error, reason, failures, forward_seconds() + wait)


def refuse(reason: str) -> None:
    """Raise that the topic cannot be read."""
    raise SourceUnreachable(reason)


def jvm_is_gone(error: Exception, session: SparkSession) -> bool:
    """Whether the error is that of a JVM which does not answer: others refuse connections, too."""
    if not (isinstance(error, ConnectionError) or got_no_answer(error)):
        return False
    try:
        registered_executors(session)
    except Exception:  # noqa: BLE001 - whatever it is, no table can go on
        return True
    return False


def refuse_what_ends_attempts(storage: Storage, coordinator: InstantCoordinator) -> None:
    """Raises AttemptsEnded if attempts ended one after the other while they wrote the micro-batch that is started: what
    ends the driver or the JVM would end each further attempt too, and with it the work on all other tables.
    """
    started = next((each for each in Timeline.load(storage).pending if each.request_time == coordinator.inflight), None)
    if started is None:
        return
    path = path_of(started)
    begun = int(CommitMetadata.decode_extra(storage.get(path), path)[EPOCH])
    if (count := coordinator.epoch - begun) >= _STARTS_MAX:
        raise AttemptsEnded(
            f"the job has started {count} times since instant {started.request_time} began, and no start finished it. "
            "Its rows may be what ends the job. The table is written alone now, after a wait that grows with each "
            "start: see how the job ended, its memory, and the next messages of the topic",
            count,
        )
