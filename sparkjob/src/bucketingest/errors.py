"""One root for every error this package raises on purpose, so that a caller can tell them from defects."""

from typing import ClassVar

from bucketingest.exit_codes import ExitCode


class BucketIngestError(Exception):
    """Base of all errors raised by bucketingest.

    Each layer derives one family from it. The message says what is wrong, where, and what to do about it.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.QUERY_FAILED
    """How a command ends that this error ends."""
    quotes: ClassVar[bool] = False
    """Whether its text is what Spark, Kafka or the JVM said: then the exit code is looked for in it first."""
