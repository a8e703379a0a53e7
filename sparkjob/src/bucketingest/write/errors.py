"""The error family of the write path. It shows the query what to retry, what to abort and what a person must decide."""

from __future__ import annotations

from collections.abc import Sequence

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class WriteError(BucketIngestError):
    """Base of every error raised by `bucketingest.write`."""

    exit_code = ExitCode.WRITE_CONFLICT


class ConflictingAttempt(WriteError):
    """A file group has one name in a micro-batch, and another attempt has put other rows under that name.

    The input of the micro-batch was not the same twice (a transform that is not deterministic, or data lost at the
    source).
    """


class InstantAborted(WriteError):
    """The instant is aborted, or another writer rolled it back; its micro-batch must be written again."""


class PositionLost(WriteError):
    """The table is behind this attempt's position, because another writer rolled back an instant of this pipeline: rows
    must be read again. Start again from the table.
    """

    exit_code = ExitCode.POSITION_LOST


class NewerFormat(WriteError):
    """A newer release of bucketingest works on the table: this one must not continue what it recorded."""

    exit_code = ExitCode.TABLE_REFUSED


class LogFilesLeft(WriteError):
    """Columns change in a way that no reader bridges between log files, and not all log files of before could be
    merged: another writer is at work, or a file is damaged.
    """

    def __init__(self, url: str, fields: Sequence[str]) -> None:
        super().__init__(
            f"{', '.join(fields)} of {url} are new or get a wider type, but old log files are left, which hudi-rs "
            "cannot read beside new ones: another writer is at work, or files are damaged "
            f"(bucketingest inspect {url}). The next start merges them, or run bucketingest compact {url} --all"
        )


class ColumnsChanged(WriteError):
    """Another writer added or widened columns: our log files have to have them, and some readers bridge no such change.
    Open the table again: that merges log files where they must be, and our next ones have its columns.
    """


class RulesConflict(WriteError):
    """The table's bucket rules cannot be changed now, because another writer is at work."""


class FencedOut(WriteError):
    """A newer attempt of the same pipeline has claimed the table; this one must stop without committing."""

    exit_code = ExitCode.FENCED_OUT


class RangeConflict(WriteError):
    """A micro-batch's source range neither continues the committed position nor ends at it."""

    exit_code = ExitCode.SOURCE_CONFLICT


class RowsRejected(WriteError):
    """Rows could not be written and `errors.mode` is `fail`."""

    exit_code = ExitCode.ROWS_REJECTED


class IncompleteReport(WriteError):
    """The write tasks' reports do not add up: a task is missing, reported twice, or lost rows."""
