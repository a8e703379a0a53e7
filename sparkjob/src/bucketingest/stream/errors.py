"""The error family of the job: what keeps a query from starting or continuing, in words for the person who wrote the
resource.
"""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class StreamError(BucketIngestError):
    """Base of every error raised by `bucketingest.stream`."""


class MissingConnector(StreamError):
    """Spark has no source or function of this kind: a jar is missing."""

    exit_code = ExitCode.MISSING_DEPENDENCY


class InvalidTransform(StreamError):
    """The schema, the SQL transform or the delete predicate cannot be analysed."""

    exit_code = ExitCode.BAD_INPUT


class SchemaRefused(StreamError):
    """The schema of messages cannot be read as the table's, and `errors.schema` is stop."""

    exit_code = ExitCode.ROWS_REJECTED


class CheckpointUnreadable(StreamError):
    """Spark's checkpoint does not say which rows the micro-batch consists of."""

    exit_code = ExitCode.SOURCE_CONFLICT


class JvmFailed(StreamError):
    """Spark's JVM did not start, or is gone."""

    exit_code = ExitCode.JVM_FAILED
    quotes = True


class QueryFailed(StreamError):
    """Spark ended the query with an error.

    `cause` is the name of the error that a task raised, if it was one of this package, without its module. `details`
    is all that Spark said, to distinguish failures: Spark's own errors have no text once the JVM is gone.
    """

    quotes = True

    def __init__(self, message: str, cause: str | None = None, details: str = "") -> None:
        self.cause = cause
        self.details = details
        super().__init__(message)


class CheckpointLost(StreamError):
    """A file that the source's position needs is missing or torn; continuing would double or lose rows."""

    exit_code = ExitCode.SOURCE_CONFLICT


class FilesLogLost(StreamError):
    """What was taken from a directory of files is not known any more; continuing would double or lose rows."""

    exit_code = ExitCode.SOURCE_CONFLICT


class SourceFilesChanged(StreamError):
    """Files were changed after they were read, and the resource does not say what that means."""

    exit_code = ExitCode.SOURCE_CONFLICT


class NoSourceFiles(StreamError):
    """The directory has no file that shows the columns."""

    exit_code = ExitCode.SOURCE_UNAVAILABLE


class AddressUnusable(StreamError):
    """The address for the job's endpoints cannot be listened on."""

    exit_code = ExitCode.BAD_INPUT


class SourceUnreachable(StreamError):
    """The source does not answer, or has not what the resource names."""

    exit_code = ExitCode.SOURCE_UNAVAILABLE


class TablesParked(StreamError):
    """A run that ends with its input could not write all of its tables."""


class KeyUnknown(SourceUnreachable):
    """The resource does not say the record key, and no message has one yet."""


class TopicsMissing(SourceUnreachable):
    """Kafka answers, and lacks topics: they were deleted, or are not there yet. `topics`: their names."""

    def __init__(self, message: str, topics: tuple[str, ...]) -> None:
        self.topics = topics
        super().__init__(message)


class SourceDataLost(StreamError):
    """The source no longer has rows that were not ingested."""

    exit_code = ExitCode.SOURCE_DATA_LOST


class TransactionIncomplete(StreamError):
    """A transaction of the database has waited too long for its end, and commits are to have whole ones."""

    exit_code = ExitCode.SOURCE_UNAVAILABLE


class SourceDenied(StreamError):
    """The source refuses the credentials, or what they may do."""

    exit_code = ExitCode.ACCESS_DENIED


class SourceOptionsRefused(StreamError):
    """Kafka's client cannot be made from the options."""

    exit_code = ExitCode.BAD_INPUT
