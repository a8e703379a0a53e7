"""Which exit code an error has: that of its class, but for what Spark and Kafka raise, which arrives as text."""

from __future__ import annotations

import re
from typing import Final

from bucketingest.decode.kafka.errors import KAFKA_IS_AWAY
from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ENDINGS, ExitCode

# Errors of Spark, Kafka and py4j that none of our layers names, in their own words (Spark 4.2, kafka-clients 4).
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
    (KAFKA_IS_AWAY, ExitCode.SOURCE_UNAVAILABLE),
    (
        re.compile(
            r"Error from python worker:\n[^\n]*(?:ModuleNotFoundError|No module named|No such file)"
            r"|Cannot run program \"[^\"]*python[^\"]*\"|PYTHON_VERSION_MISMATCH"
        ),
        ExitCode.MISSING_DEPENDENCY,
    ),
    (
        re.compile(r"CONCURRENT_STREAM_LOG_UPDATE|STREAMING_CHECKPOINT|STREAM_CHECKPOINT"),
        ExitCode.CHECKPOINT_STALE,
    ),
)
_JVM_GONE: Final = frozenset({"Py4JError", "Py4JNetworkError", "Py4JJavaError"})


def exit_code(error: BaseException) -> ExitCode:
    """The code for an error that ends a command. What a task raised counts as itself: Spark reports its name."""
    if (raised := _class_of_name(getattr(error, "cause", None))) is not None:
        return raised.exit_code
    if isinstance(error, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    if isinstance(error, MemoryError):
        return ExitCode.OUT_OF_MEMORY
    own = error if isinstance(error, BucketIngestError) else None
    gone = type(error).__name__ in _JVM_GONE
    if gone or (own is not None and own.quotes):
        text = f"{error}\n{getattr(error, 'details', '')}"
        for pattern, code in _BY_TEXT:
            if pattern.search(text):
                return code
    if own is not None:
        return own.exit_code
    return ExitCode.JVM_FAILED if gone else ExitCode.DEFECT


def exit_code_table() -> str:
    """The table as text, for `bucketingest --help`."""
    return "\n\n".join(f"{code.value}: {ending.meaning}." for code, ending in ENDINGS.items())


def _class_of_name(
    name: str | None, root: type[BucketIngestError] = BucketIngestError
) -> type[BucketIngestError] | None:
    """Our error class with this name, of those that are imported."""
    if root.__name__ == name:
        return root
    return next((found for each in root.__subclasses__() if (found := _class_of_name(name, each)) is not None), None)
