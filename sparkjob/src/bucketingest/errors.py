"""One root for every error this package raises on purpose, so that a caller can distinguish them from defects."""

from typing import ClassVar

from bucketingest.exit_codes import ExitCode


class BucketIngestError(Exception):
    """Base of all errors raised by bucketingest.

    Each layer derives one family from it. The message says what is wrong, where, and what to do about it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.QUERY_FAILED
    """Exit code of a command that this error ends."""
    quotes: ClassVar[bool] = False
    """Whether its text quotes Spark, Kafka or the JVM: then that text decides the exit code first."""
