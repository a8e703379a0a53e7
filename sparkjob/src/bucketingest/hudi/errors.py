"""The error family of the format layer: it distinguishes a refused table, a torn file and a lost race."""

from __future__ import annotations

from collections.abc import Sequence

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class HudiError(BucketIngestError):
    """Base of every error raised by `bucketingest.hudi`."""

    exit_code = ExitCode.TABLE_REFUSED


class TableNotFound(HudiError):
    """There is no Hudi table at the location: `.hoodie/hoodie.properties` is missing."""


class InvalidTable(HudiError):
    """The table's files contradict each other or cannot be parsed (torn properties, bad metadata, wrong checksum)."""


class UnsupportedTable(HudiError):
    """A valid table that this writer must not write to.

    `reasons` lists every problem found: each says what was found, where, and what to do.
    """

    def __init__(self, location: str, reasons: Sequence[str]) -> None:
        self.location = location
        self.reasons = tuple(reasons)
        lines = "\n".join(f"  - {reason}" for reason in self.reasons)
        super().__init__(f"table {location} is refused:\n{lines}")

    def __reduce__(self) -> tuple[type[UnsupportedTable], tuple[str, tuple[str, ...]]]:
        """Let the error cross a process boundary with its reasons."""
        return type(self), (self.location, self.reasons)


class InvalidName(HudiError):
    """A file name or file id does not have the form that Hudi gives it."""


class TimelineError(HudiError):
    """An action on the timeline is impossible in the timeline's current state."""


class InstantExists(TimelineError):
    """The instant's file exists with other content: another writer took this instant time."""


class ClockError(TimelineError):
    """The clocks of this machine and of the storage differ by more than allowed."""


class RollbackError(HudiError):
    """The instant must not be rolled back, or cannot be rolled back now."""


class CorruptLog(HudiError):
    """A log file's bytes are not a sequence of whole blocks."""


class SchemaError(HudiError):
    """A schema cannot be expressed in the table format, or two schemas do not fit together."""


class LockHeld(HudiError):
    """Another writer holds the table's lock, and did not release it while we waited."""

    exit_code = ExitCode.TABLE_LOCKED


class LockLost(HudiError):
    """We may no longer hold the table's lock: nothing that needs it may be done now."""

    exit_code = ExitCode.FENCED_OUT


class LockNotRenewed(LockLost):
    """Storage has not answered a renewal of the lock for so long that another writer may take it."""

    exit_code = ExitCode.STORAGE_UNAVAILABLE
