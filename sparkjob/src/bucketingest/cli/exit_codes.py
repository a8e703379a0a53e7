"""Which exit code an error has. What Spark and Kafka raise arrives as text and is told apart by it."""

from __future__ import annotations

import re
from typing import Final

from bucketingest.cli.errors import BadOption
from bucketingest.errors import BucketIngestError
from bucketingest.hudi.errors import HudiError
from bucketingest.index.errors import BucketIndexError
from bucketingest.lease.record import LeaseError
from bucketingest.spec.errors import SpecError
from bucketingest.spec.exit_codes import ENDINGS, ExitCode
from bucketingest.storage import AccessDenied, InvalidLocation, StorageError
from bucketingest.write.errors import (
    ConflictingAttempt,
    FencedOut,
    InstantAborted,
    PositionLost,
    RangeConflict,
    RowsRejected,
    WriteError,
)

__all__ = ["ENDINGS", "ExitCode", "exit_code", "exit_code_table"]

# The first class that fits decides; errors of `stream` by name, as naming their classes would import pyspark.
_BY_CLASS: Final[tuple[tuple[type[BaseException], ExitCode], ...]] = (
    (KeyboardInterrupt, ExitCode.INTERRUPTED),
    (MemoryError, ExitCode.OUT_OF_MEMORY),
    (SpecError, ExitCode.BAD_INPUT),
    (BadOption, ExitCode.BAD_INPUT),
    (InvalidLocation, ExitCode.BAD_INPUT),
    (AccessDenied, ExitCode.ACCESS_DENIED),
    (StorageError, ExitCode.STORAGE_UNAVAILABLE),
    (HudiError, ExitCode.TABLE_REFUSED),
    (BucketIndexError, ExitCode.TABLE_REFUSED),
    (FencedOut, ExitCode.FENCED_OUT),
    (PositionLost, ExitCode.POSITION_LOST),
    (RangeConflict, ExitCode.SOURCE_CONFLICT),
    (RowsRejected, ExitCode.ROWS_REJECTED),
    (ConflictingAttempt, ExitCode.WRITE_CONFLICT),
    (InstantAborted, ExitCode.WRITE_CONFLICT),
    (WriteError, ExitCode.WRITE_CONFLICT),
    (LeaseError, ExitCode.WRITE_CONFLICT),
)
_BY_NAME: Final[dict[str, ExitCode]] = {
    "InvalidTransform": ExitCode.BAD_INPUT,
    "UnsupportedSetting": ExitCode.BAD_INPUT,
    "MissingConnector": ExitCode.MISSING_DEPENDENCY,
    "MissingDependency": ExitCode.MISSING_DEPENDENCY,
    "CheckpointUnreadable": ExitCode.SOURCE_CONFLICT,
    "WrongResult": ExitCode.WRONG_RESULT,
    "RollbackRefused": ExitCode.TABLE_REFUSED,
    "InstantHeld": ExitCode.INSTANT_HELD,
    "NotEmpty": ExitCode.BAD_INPUT,
    "BrokerUnavailable": ExitCode.MISSING_DEPENDENCY,
    "InvalidKeyRule": ExitCode.BAD_INPUT,
    "MissingKeyColumn": ExitCode.BAD_INPUT,
    "UnsupportedKeyType": ExitCode.BAD_INPUT,
    "LockHeld": ExitCode.TABLE_LOCKED,
    "TableLeased": ExitCode.TABLE_LOCKED,
    "CheckpointLost": ExitCode.SOURCE_CONFLICT,
    "AddressUnusable": ExitCode.BAD_INPUT,
    "LeaseLost": ExitCode.FENCED_OUT,
}
# Errors of Spark, Kafka and py4j that no layer of ours names, as they say it themselves (Spark 4.2, kafka-clients 4).
_BY_TEXT: Final[tuple[tuple[re.Pattern[str], ExitCode], ...]] = (
    (
        re.compile(
            r"KAFKA_DATA_LOSS|Some data may have been lost|OffsetOutOfRange|UnknownTopicOrPartition"
            r"|FAILED_READ_FILE\.FILE_NOT_EXIST|START_OFFSET_GREATER_THAN_END_OFFSET|WITH_TRIGGER_AVAILABLENOW"
        ),
        ExitCode.SOURCE_DATA_LOST,
    ),
    (
        re.compile(
            # 3: a JVM with -XX:+ExitOnOutOfMemoryError; 52: Spark's own handler; 137: the kernel, for a pod's limit
            r"OutOfMemoryError|\bMemoryError\b|ArrowMemoryError|OOMKilled|out of memory:"
            r"|exit(?:ed with)? (?:code|status):? (?:3|52|137)\b"
        ),
        ExitCode.OUT_OF_MEMORY,
    ),
    (
        re.compile(r"SaslAuthentication|SslAuthentication|(?:Topic|Group|Cluster)Authorization"),
        ExitCode.ACCESS_DENIED,
    ),
    (
        re.compile(
            r"kafka\.common\.errors\.\w*(?:Timeout|Disconnect|Network|BrokerNotAvailable)|node assignment"
            r"|Failed to (?:construct kafka consumer|create new KafkaAdminClient)"
        ),
        ExitCode.SOURCE_UNAVAILABLE,
    ),
)
_JVM_GONE: Final = frozenset({"JvmFailed", "Py4JError", "Py4JNetworkError", "Py4JJavaError"})
_SPEAKS_FOR_OTHERS: Final = frozenset({"QueryFailed", "BucketIngestError"}) | _JVM_GONE


def exit_code(error: BaseException) -> ExitCode:
    """The code for an error that ends a command. What a task raised counts as itself: Spark tells its name."""
    name = getattr(error, "cause", None) or type(error).__name__
    if name in _BY_NAME:
        return _BY_NAME[name]
    for cls, code in _BY_CLASS:
        if isinstance(error, cls) or name in _names_below(cls):
            return code
    if type(error).__name__ in _SPEAKS_FOR_OTHERS:
        text = _whole_text(error)
        for pattern, code in _BY_TEXT:
            if pattern.search(text):
                return code
    if type(error).__name__ in _JVM_GONE:
        return ExitCode.JVM_FAILED
    return ExitCode.QUERY_FAILED if isinstance(error, BucketIngestError) else ExitCode.DEFECT


def exit_code_table() -> str:
    """The table as text, for `bucketingest --help`."""
    return "\n\n".join(f"{code.value}: {ending.meaning}." for code, ending in ENDINGS.items())


def _whole_text(error: BaseException) -> str:
    """What an error says, and what is behind it: the line for people is short."""
    return f"{error}\n{getattr(error, 'details', '')}"


def _names_below(cls: type[BaseException]) -> set[str]:
    return {cls.__name__}.union(*(_names_below(each) for each in cls.__subclasses__()))
