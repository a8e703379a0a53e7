"""The error family of the commands: what makes them fail that no layer below knows of."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class CommandError(BucketIngestError):
    """Base of every error raised by `bucketingest.cli`."""


class MissingDependency(CommandError):
    """A program or package that the command needs is not on this machine; the message says how to get it."""

    exit_code = ExitCode.MISSING_DEPENDENCY


class WrongResult(CommandError):
    """What was read back is not what was written."""

    exit_code = ExitCode.WRONG_RESULT


class RollbackRefused(CommandError):
    """An instant that was asked for must not be rolled back, or could not be."""

    exit_code = ExitCode.TABLE_REFUSED


class InstantHeld(CommandError):
    """Another process may be writing an instant, so it was left alone."""

    exit_code = ExitCode.INSTANT_HELD


class BadOption(CommandError):
    """An option's or environment variable's value cannot be used."""

    exit_code = ExitCode.BAD_INPUT
