"""The classes of failure and what the operator does about each, in one table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from bucketingest.exit_codes import ENDINGS, ExitCode, Remedy
from bucketingest_operator.observation import Driver, PodReason


class Answer(Enum):
    """What the operator does after a failure."""

    BACKOFF = "restart with backoff"
    AT_ONCE = "restart at once"
    """After the first failure in a row; after more failures with backoff."""
    WAIT = "wait"
    """Restart with backoff without limit: an outage elsewhere. It does not count for the circuit breaker."""
    WAIT_THEN_STALL = "wait, and stall when it lasts"
    """As WAIT, up to `DENIED_LONG`: credentials are often renewed by others, and each start reads them anew."""
    STALL = "stall until the spec changes"


class Failure(Enum):
    """How an attempt failed. Conditions, events and outcomes show the value."""

    DRIVER_LOST = "DriverLost"
    STOPPED = "DriverStopped"
    OUT_OF_MEMORY = "OutOfMemory"
    EVICTED = "Evicted"
    IMAGE_PULL = "ImagePullFailing"
    CONFIG = "ContainerConfigMissing"
    UNSCHEDULABLE = "Unschedulable"
    NO_EXECUTORS = "NoExecutors"
    CHECKPOINT_LOST = "CheckpointLost"
    SOURCE_DATA_LOST = "SourceDataLost"
    SOURCE_CONFLICT = "SourceConflict"
    SOURCE_UNAVAILABLE = "SourceUnavailable"
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    ACCESS_DENIED = "AccessDenied"
    FENCED_OUT = "FencedOut"
    TABLE_LOCKED = "TableLocked"
    TABLE_REFUSED = "TableRefused"
    WRITE_CONFLICT = "WriteConflict"
    BAD_SPEC = "BadSpec"
    BAD_IMAGE = "MissingDependency"
    ROWS_REJECTED = "RowsRejected"
    STUCK = "Stuck"
    STOP_DEADLINE = "StopDeadline"
    QUERY_FAILED = "QueryFailed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Treatment:
    """How to recognise a class of failure, what the operator does about it, and the message for users."""

    answer: Answer
    sentence: str
    rollback: bool = False
    """A Job rolls back the open instant before the next attempt."""
    codes: tuple[int, ...] = ()
    """Exit codes of the job with this meaning."""
    reasons: tuple[PodReason, ...] = ()
    """Reasons of the pod with this meaning."""


_KILLED: Final = 137

TREATMENTS: Final[dict[Failure, Treatment]] = {
    Failure.DRIVER_LOST: Treatment(Answer.AT_ONCE, "The driver was killed (SIGKILL).", codes=(_KILLED,)),
    Failure.STOPPED: Treatment(
        Answer.AT_ONCE,
        "The driver was stopped from outside, for example by a drain of its node.",
        codes=(ExitCode.INTERRUPTED, ExitCode.TERMINATED),
    ),
    Failure.OUT_OF_MEMORY: Treatment(
        Answer.BACKOFF,
        "The driver ran out of memory: raise spark.driver.memory or spark.executor.memory.",
        codes=(ExitCode.OUT_OF_MEMORY,),
        reasons=(PodReason.OOM_KILLED,),
    ),
    Failure.EVICTED: Treatment(
        Answer.AT_ONCE, "The driver was evicted or preempted, or its node shut down.", reasons=(PodReason.EVICTED,)
    ),
    Failure.IMAGE_PULL: Treatment(
        Answer.WAIT, "The image cannot be pulled: check spark.image and its registry.", reasons=(PodReason.IMAGE_PULL,)
    ),
    Failure.CONFIG: Treatment(
        Answer.WAIT,
        "The container cannot be created: check that the Secrets it mounts exist in this namespace.",
        reasons=(PodReason.CONFIG,),
    ),
    Failure.UNSCHEDULABLE: Treatment(
        Answer.WAIT,
        "The driver pod fits on no node: check its size, quotas and nodes.",
        reasons=(PodReason.UNSCHEDULABLE,),
    ),
    Failure.NO_EXECUTORS: Treatment(Answer.WAIT, "No executor runs: check their size, quotas and nodes."),
    Failure.CHECKPOINT_LOST: Treatment(
        Answer.AT_ONCE,
        "Spark's checkpoint does not match the table: the next attempt rebuilds it from the table's timeline.",
        codes=(ExitCode.CHECKPOINT_STALE,),
    ),
    Failure.SOURCE_DATA_LOST: Treatment(
        Answer.STALL,
        "The source lost data before it was ingested: a person must accept the loss.",
        codes=(ExitCode.SOURCE_DATA_LOST,),
    ),
    Failure.SOURCE_CONFLICT: Treatment(
        Answer.STALL, "The source does not match the table's position.", codes=(ExitCode.SOURCE_CONFLICT,)
    ),
    Failure.SOURCE_UNAVAILABLE: Treatment(
        Answer.WAIT, "The source does not answer.", codes=(ExitCode.SOURCE_UNAVAILABLE,)
    ),
    Failure.STORAGE_UNAVAILABLE: Treatment(
        Answer.WAIT, "Storage does not answer, or has no room.", codes=(ExitCode.STORAGE_UNAVAILABLE,)
    ),
    Failure.ACCESS_DENIED: Treatment(
        Answer.WAIT_THEN_STALL,
        "Access is denied: check the job's credentials, or whether its volume is read-only.",
        codes=(ExitCode.ACCESS_DENIED,),
    ),
    Failure.FENCED_OUT: Treatment(
        Answer.BACKOFF, "Another attempt took over the table, or the lock was lost.", codes=(ExitCode.FENCED_OUT,)
    ),
    Failure.TABLE_LOCKED: Treatment(
        Answer.WAIT,
        "Another process holds the table's lock.",
        codes=(ExitCode.TABLE_LOCKED, ExitCode.INSTANT_HELD),
    ),
    Failure.TABLE_REFUSED: Treatment(
        Answer.STALL, "The table cannot be written with this spec.", codes=(ExitCode.TABLE_REFUSED,)
    ),
    Failure.WRITE_CONFLICT: Treatment(
        Answer.BACKOFF,
        "Commits of other writers conflict.",
        codes=(ExitCode.WRITE_CONFLICT, ExitCode.POSITION_LOST),
    ),
    Failure.BAD_SPEC: Treatment(Answer.STALL, "The spec cannot be run: correct it.", codes=(ExitCode.BAD_INPUT,)),
    Failure.BAD_IMAGE: Treatment(
        Answer.STALL, "The image lacks Java, a jar or a Python package.", codes=(ExitCode.MISSING_DEPENDENCY,)
    ),
    Failure.ROWS_REJECTED: Treatment(
        Answer.STALL, "Rows cannot be written, and errors.mode is fail.", codes=(ExitCode.ROWS_REJECTED,)
    ),
    Failure.STUCK: Treatment(Answer.AT_ONCE, "The driver made no progress; the operator stopped it.", rollback=True),
    Failure.STOP_DEADLINE: Treatment(
        Answer.AT_ONCE, "The driver did not stop in time.", codes=(ExitCode.STOP_DEADLINE,)
    ),
    Failure.QUERY_FAILED: Treatment(
        Answer.BACKOFF,
        "Spark ended the query.",
        codes=(ExitCode.QUERY_FAILED, ExitCode.JVM_FAILED),
    ),
    Failure.UNKNOWN: Treatment(
        Answer.BACKOFF,
        "The driver failed for an unknown reason.",
        codes=(ExitCode.DEFECT, ExitCode.WRONG_RESULT),
        reasons=(PodReason.DEADLINE,),
    ),
}

_BY_CODE: Final[dict[int, Failure]] = {
    code: failure for failure, treatment in TREATMENTS.items() for code in treatment.codes
}
_BY_REASON: Final[dict[PodReason, Failure]] = {
    reason: failure for failure, treatment in TREATMENTS.items() for reason in treatment.reasons
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """How an attempt failed, with the message for users."""

    failure: Failure
    message: str

    @property
    def treatment(self) -> Treatment:
        """What is done about it."""
        return TREATMENTS[self.failure]


def diagnose(driver: Driver | None) -> Diagnosis | None:
    """How an attempt failed whose driver pod has ended, or is gone (None). Returns None if it ingested all input.

    The job's own report wins over its exit code, and that over what Kubernetes reports, except for memory and eviction,
    which the job cannot know.
    """
    if driver is None:
        return Diagnosis(Failure.DRIVER_LOST, "The driver pod is gone and left no termination message.")
    if driver.reason in {PodReason.OOM_KILLED, PodReason.EVICTED}:
        return _diagnosis(_BY_REASON[driver.reason], driver.message)
    report = driver.report
    code = report.exit_code if report is not None else driver.exit_code
    said = report.message if report is not None else driver.message
    if code == ExitCode.OK:
        return None if report is not None and report.error_class == "Completed" else _diagnosis(Failure.STOPPED, said)
    if code is None:
        return _diagnosis(_BY_REASON.get(driver.reason, Failure.UNKNOWN), said)
    failure = _BY_CODE.get(code)
    if failure is None:
        if report is None and not said:
            return Diagnosis(Failure.UNKNOWN, f"The driver exited without a termination message (exit code {code}).")
        # A job newer than this operator reports at least whether a person must act.
        person = report is not None and report.remedy is Remedy.PERSON
        return _diagnosis(Failure.BAD_SPEC if person else Failure.UNKNOWN, said or f"Exit code {code}.")
    return _diagnosis(failure, said or ENDING_WORDS.get(code, ""))


ENDING_WORDS: Final[dict[int, str]] = {int(code): f"{ending.meaning}." for code, ending in ENDINGS.items()}


_ENDS: Final = (".", "!", "?", "…")


def _diagnosis(failure: Failure, said: str) -> Diagnosis:
    advice, said = TREATMENTS[failure].sentence, said.strip()
    if not said or said in advice:
        return Diagnosis(failure, advice)
    return Diagnosis(failure, f"{said if said.endswith(_ENDS) else f'{said}.'} {advice}")


def failure_of(outcome: str | None) -> Failure | None:
    """The failure that an attempt's outcome names; None for planned ends and outcomes of other versions."""
    try:
        return Failure(outcome)
    except ValueError:
        return None
