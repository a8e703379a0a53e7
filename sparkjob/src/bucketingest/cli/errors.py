"""The error family of the commands: what keeps one from doing its work that no layer below knows of."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError


class CommandError(BucketIngestError):
    """Base of every error raised by `bucketingest.cli`."""


class MissingDependency(CommandError):
    """A program or package that the command needs is not on this machine; the message says how to get it."""


class WrongResult(CommandError):
    """What was read back is not what was written."""


class RollbackRefused(CommandError):
    """An instant that was asked for must not be rolled back, or could not be."""


class InstantHeld(CommandError):
    """Somebody may be at work on an instant, so it was left alone."""


class BadOption(CommandError):
    """An option's or environment variable's value cannot be used."""
