"""The error family of the write path, so that the query can tell what to retry, what to abort and what a person must
decide.
"""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class WriteError(BucketIngestError):
    """Base of every error raised by `bucketingest.write`."""

    exit_code = ExitCode.WRITE_CONFLICT


class ConflictingAttempt(WriteError):
    """The one name that a file group has in a micro-batch is taken by other rows than this attempt's.

    The input of the micro-batch was not the same twice (a transform that is not deterministic, or data lost at the
    source).
    """


class InstantAborted(WriteError):
    """The instant was decided to abort, or rolled back by another writer; its micro-batch must be written again."""


class PositionLost(WriteError):
    """The table went back behind this attempt's position, because another writer took an instant of ours back: rows
    that were read already must be read again. Start again from the table.
    """

    exit_code = ExitCode.POSITION_LOST


class FencedOut(WriteError):
    """A newer attempt of the same pipeline has claimed the table; this one must stop without committing."""

    exit_code = ExitCode.FENCED_OUT


class RangeConflict(WriteError):
    """A micro-batch's source range neither continues the committed position nor lies before it."""

    exit_code = ExitCode.SOURCE_CONFLICT


class RowsRejected(WriteError):
    """Rows could not be written and `errors.mode` is `fail`."""

    exit_code = ExitCode.ROWS_REJECTED


class IncompleteReport(WriteError):
    """The write tasks' reports do not add up: a task is missing, reported twice, or lost rows."""
