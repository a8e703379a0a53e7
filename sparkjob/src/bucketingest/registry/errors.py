"""The error family of the schema registry: why it did not say what was asked, in words for the person who runs it."""

from __future__ import annotations

from bucketingest.errors import BucketIngestError
from bucketingest.exit_codes import ExitCode


class RegistryError(BucketIngestError):
    """Base of every error raised by `bucketingest.registry`."""

    exit_code = ExitCode.SOURCE_UNAVAILABLE


class RegistryUnavailable(RegistryError):
    """No answer that a registry gives: none at all, an error, or something else's answer. It may come later."""


class RegistryDenied(RegistryError):
    """The registry denies access."""

    exit_code = ExitCode.ACCESS_DENIED


class SubjectMissing(RegistryError):
    """The registry has no schema of the subject. The first producer registers one."""


class UnusableSchema(RegistryError):
    """The schema of the subject cannot be that of a table's columns."""

    exit_code = ExitCode.BAD_INPUT


class TooManyIds(RegistryError):
    """A micro-batch names more schemas than a topic has."""

    exit_code = ExitCode.SOURCE_CONFLICT


class GaveWay(Exception):
    """Something else is to be done before the registry has answered."""
